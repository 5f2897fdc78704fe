"""Happens-before between tasks: which tasks end before others start in every execution."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache

import numpy as np

from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.passes.proof.clocks import Clocks, Places
from hpmoe_ir.passes.proof.known_ranks import RanksAfter, know_all, ranks_after, ranks_before
from hpmoe_ir.passes.proof.rank_sets import RankSets
from hpmoe_ir.passes.proof.run import QueueRun, clocks_of
from hpmoe_ir.passes.proof.tasks import NONE, TaskArray

BATCH_TASKS = 1 << 19
"""Approximate number of tasks whose clocks are in memory at a time."""


class RankTables:
    """The tables of some ranks that answer most queries on order."""

    def __init__(self, run: QueueRun, ranks: range) -> None:
        self.run = run
        self.ranks = ranks

    @cached_property
    def clocks(self) -> Clocks:
        """The clocks of all tasks of the ranks."""
        return clocks_of(self.run, self.ranks)

    @cached_property
    def first_waiter(self) -> Places:
        """[E, C] queue place of the first waiter on each core of the event's rank; without one, the
        largest integer."""
        tasks, dtype = self.run.tasks, self.clocks.ended.dtype
        first, end = (r * tasks.per_rank for r in (self.ranks.start, self.ranks.stop))
        waits = tasks.waits[first:end]
        task, column = np.nonzero(waits != NONE)
        events = waits[task, column] - self.ranks.start * tasks.events_per_rank
        table = np.full(
            (len(self.ranks) * tasks.events_per_rank, tasks.cores), np.iinfo(dtype).max, dtype=dtype
        )
        task = task + first
        local = tasks.core[task] % tasks.cores
        np.minimum.at(table, (events, local), tasks.place[task].astype(dtype))
        return table

    def starts_after(self, task: TaskArray, event: TaskArray) -> BoolArray:
        """Returns [n]: whether a waiter of `event[i]` on its rank ends before `task[i]` starts.

        The waiter has started after the event.
        """
        number = event - self.ranks.start * self.run.tasks.events_per_rank
        return (self.clocks.of(task) >= self.first_waiter[number]).any(axis=1)


class OrderProof:
    """Happens-before queries on a complete simulated launch (`QueueRun`).

    Two tables answer most queries: the tasks of the same rank that have ended before each task, and
    the first waiters of each event. The remaining ones, chains through other ranks, are answered by
    a search over single tasks.

    The tables are those of a few ranks at a time. Many queries need none of them: those of tasks
    that wait for the event itself, and those that follow from waits and signals that all ranks
    have alike (`on_all_ranks`).

    A credited put sends no signal where it has no rows. It has then accessed no rows either, so an
    event that it signals orders its accesses to rows (`rows=True`), but neither its read of the
    route nor any task before it.
    """

    def __init__(self, run: QueueRun) -> None:
        self.run = run
        self.tasks = run.tasks
        self._tables: RankTables | None = None

    @cached_property
    def on_all_ranks(self) -> OrderProof:
        """The proof on rank 0 from what all ranks have in common.

        What it orders is ordered in the same way on each rank.
        """
        return OrderProof(self.run.on_all_ranks())

    @cached_property
    def know_all(self) -> BoolArray:
        """[T] whether on each rank a task starts after some task of every rank in the launch.

        Follows only what all ranks have alike; False means unknown.
        """
        return know_all(self.run, self.on_all_ranks.tables_of(0).clocks)

    @cached_property
    def ranks_before(self) -> RankSets:
        """[N, words] bit r: some task of rank r in this launch has ended before the task starts."""
        return ranks_before(self.run)

    @cached_property
    def ranks_after(self) -> RanksAfter:
        """The ranks of which a task starts after each task ends."""
        return ranks_after(self.run)

    def batches(self) -> list[range]:
        """Returns all ranks in batches of which the tables fit into memory."""
        tasks = self.tasks
        size = max(1, BATCH_TASKS // max(1, tasks.per_rank))
        starts = range(0, tasks.ranks, size)
        return [range(first, min(first + size, tasks.ranks)) for first in starts]

    def tables_of(self, rank: int) -> RankTables:
        """Returns the tables of the batch that contains a rank."""
        if self._tables is None or rank not in self._tables.ranks:
            self._tables = None
            ranks = next(batch for batch in self.batches() if rank in batch)
            self._tables = RankTables(self.run, ranks)
        return self._tables

    def by_batch(self, tasks: TaskArray) -> Iterator[tuple[RankTables, IntArray]]:
        """Yields tables, and the indices of the tasks that they are about."""
        rank = tasks // self.tasks.per_rank
        for batch in self.batches():
            some = np.flatnonzero((rank >= batch.start) & (rank < batch.stop))
            if some.size:
                yield self.tables_of(batch.start), some

    def knows_alike(self, task: TaskArray, event: TaskArray) -> BoolArray:
        """Returns [n]: whether `task[i]` starts after `event[i]`, because it waits for it, or by
        what all ranks have alike. False means unknown; see `knows`."""
        tasks = self.tasks
        result = (tasks.waits[task] == event[:, None]).any(axis=1)
        own = event // tasks.events_per_rank == task // tasks.per_rank
        open_ = np.flatnonzero(~result & own)
        if tasks.ranks > 1 and open_.size:
            result[open_] = self.on_all_ranks.knows(
                task[open_] % tasks.per_rank, event[open_] % tasks.events_per_rank
            )
        return result

    def knows(self, task: TaskArray, event: TaskArray) -> BoolArray:
        """Returns [n]: whether `task[i]` starts after `event[i]`, by order within its rank."""
        tasks = self.tasks
        result = self.knows_alike(task, event)
        own = event // tasks.events_per_rank == task // tasks.per_rank
        open_ = np.flatnonzero(~result & own)
        for tables, some in self.by_batch(task[open_]):
            at = open_[some]
            result[at] = tables.starts_after(task[at], event[at])
        return result

    def ended(self, before: TaskArray, after: TaskArray, *, rows: bool) -> BoolArray:
        """Returns [n]: whether `before[i]` ends before `after[i]` starts, by both tables.

        Covers queues and events within the rank of the second task, and direct signals of the first
        task to that rank. False means unknown; see `certainly_ended`.
        """
        tasks = self.tasks
        result = np.zeros(len(before), dtype=np.bool_)
        same = np.flatnonzero(before // tasks.per_rank == after // tasks.per_rank)
        for tables, some in self.by_batch(after[same]):
            at = same[some]
            clocks = tables.clocks.of(after[at])
            local = tasks.core[before[at]] % tasks.cores
            result[at] = clocks[np.arange(at.size), local] >= tasks.place[before[at]]
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
        tables = self.tables_of(tasks.rank_of(put))
        return [int(g) for g in givers[tables.clocks.after_givers(puts, givers)]]

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
