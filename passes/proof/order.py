"""Happens-before between tasks: which tasks end before others start in every execution."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.passes.proof.run import QueueRun, givers_before
from hpmoe_ir.passes.proof.tasks import NONE


class OrderProof:
    """Happens-before queries on a complete simulated launch (`QueueRun`).

    Two tables answer most queries: the tasks of the same rank that have ended before each task, and
    the first waiters of each event. The remaining ones, chains through other ranks, are answered by
    a search over single tasks.

    A credited put sends no signal where it has no rows. It has then accessed no rows either, so an
    event that it signals orders its accesses to rows (`rows=True`), but neither its read of the
    route nor any task before it.
    """

    def __init__(self, run: QueueRun) -> None:
        self.run = run
        self.tasks = run.tasks
        task, column = np.nonzero(self.tasks.waits != NONE)
        events = self.tasks.waits[task, column]
        far = np.iinfo(run.ended.dtype).max
        self.first_waiter = np.full(
            (len(self.tasks.thresholds), self.tasks.cores), far, dtype=run.ended.dtype
        )
        """[E, C] queue place of the first waiter on each core of the event's rank; without one, the
        largest integer."""
        local = self.tasks.core[task] % self.tasks.cores
        np.minimum.at(
            self.first_waiter,
            (events, local),
            self.tasks.place[task].astype(run.ended.dtype),
        )

    def knows(self, task: IntArray, event: IntArray) -> IntArray:
        """Returns [n]: whether `task[i]` starts after `event[i]`, by order within its rank."""
        waited = (self.tasks.waits[task] == event[:, None]).any(axis=1)
        own = event // self.tasks.events_per_rank == task // self.tasks.per_rank
        later = (self.run.ended[task] >= self.first_waiter[event]).any(axis=1)
        return own & (waited | later)

    def ended(self, before: IntArray, after: IntArray, *, rows: bool) -> BoolArray:
        """Returns [n]: whether `before[i]` ends before `after[i]` starts, by both tables.

        Covers queues and events within the rank of the second task, and direct signals of the first
        task to that rank. False means unknown; see `certainly_ended`.
        """
        tasks = self.tasks
        same = before // tasks.per_rank == after // tasks.per_rank
        local = tasks.core[before] % tasks.cores
        result = same & (self.run.ended[after, local] >= tasks.place[before])
        for events, givers in zip(tasks.signals[before].T, tasks.givers[before].T, strict=True):
            open_ = np.flatnonzero(~result & (events != NONE) & (rows | (givers == NONE)))
            result[open_] = self.knows(after[open_], events[open_])
        return result

    def certainly_ended(self, before: int, after: int, *, rows: bool) -> bool:
        """Returns whether `before` ends before `after` starts, by any chain."""
        tasks = self.tasks
        frontier, events = self._frontier(after)
        if frontier.get(int(tasks.core[before]), 0) >= int(tasks.place[before]):
            return True
        return rows and any(int(e) in events for e in tasks.signals[before] if e != NONE)

    def _counted_by(self, put: int, event: int) -> list[int]:
        """Returns the tasks that must have ended for `put`'s share of `event` to be counted."""
        tasks = self.tasks
        givers = tasks.givers[put, tasks.signals[put] == event]
        if (givers == NONE).any():
            return [put]
        puts = np.full(givers.shape, put)
        return [int(g) for g in givers[givers_before(tasks, self.run.ended, puts, givers)]]

    @lru_cache(maxsize=64)
    def _frontier(self, task: int) -> tuple[dict[int, int], set[int]]:
        """Returns how many tasks of each core have ended before `task` starts, and the events
        that have been reached."""
        tasks = self.tasks
        frontier: dict[int, int] = {}
        seen: set[int] = set()
        todo = [(int(tasks.core[task]), int(tasks.place[task]) - 1)]
        events = [int(e) for e in tasks.waits[task] if e != NONE]
        while todo or events:
            while events:
                event = events.pop()
                if event in seen:
                    continue
                seen.add(event)
                ended = [
                    t
                    for t in map(int, tasks.signallers_of(event))
                    for t in self._counted_by(t, event)
                ]
                todo += [(int(tasks.core[t]), int(tasks.place[t])) for t in ended]
            if not todo:
                break
            core, place = todo.pop()
            known = frontier.get(core, 0)
            if place <= known:
                continue
            frontier[core] = place
            begin = int(tasks.queue_starts[core])
            for earlier in tasks.queues[begin + known : begin + place]:
                events += [int(e) for e in tasks.waits[earlier] if e != NONE]
        return frontier, seen
