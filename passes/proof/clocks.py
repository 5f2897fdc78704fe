"""Vector clocks: how many tasks of each core have ended before a task starts.

A credited put signals only where it has rows, which depends on the routing. An event therefore
needs the signals of all its puts as well as the credits, and its waiters inherit no clock from a
credited put. They inherit the clock of the task that gives the credit where a put of the same rank
comes after that task, since whichever of the two counts, that task has ended. Accesses of the put
itself are ordered by `OrderProof`: a put that sends no signal has accessed no rows.

A wait for a range of events passes on no clock either: the range may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.passes.proof.rank_sets import RankSets
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks, TaskArray

Places: TypeAlias = np.ndarray[Any, np.dtype[np.uint16 | np.uint32]]
"""Places in queues, from 1; 0 is before the first task."""


@dataclass(frozen=True)
class Round:
    """Tasks that run at the same time, one on each of some cores, with their events."""

    tasks: TaskArray
    cores: TaskArray
    waits: TaskArray
    """[tasks, most waits]"""
    signals: TaskArray
    """[tasks, most signals]"""
    givers: TaskArray
    """[tasks, most signals]"""

    @classmethod
    def of(cls, tasks: QueueTasks, now: TaskArray) -> Round:
        """Returns the round with the tasks `now`."""
        return cls(now, tasks.core[now], tasks.waits[now], tasks.signals[now], tasks.givers[now])


class Clocks:
    """Vector clocks of the tasks of some ranks, by chains of queues and events within each rank.

    Takes the rounds of a run one after the other, each by `start` and then `end`.
    """

    def __init__(
        self,
        tasks: QueueTasks,
        ranks: range,
        cores: IntArray,
        every: QueueTasks | None = None,
    ) -> None:
        """Makes clocks that count the tasks of the local cores `cores` only.

        every: the program of all ranks if `tasks` is what they have alike. Where they wait for
        different events, a task then knows what follows from each of these.
        """
        self.tasks = tasks
        self._every = every
        self.ranks = ranks
        self._first_task = ranks.start * tasks.per_rank
        self._first_core = ranks.start * tasks.cores
        self._first_event = ranks.start * tasks.events_per_rank
        self._column = np.full(tasks.cores, NONE)
        self._column[cores] = np.arange(cores.size)
        # The largest number stands for "no place" (OrderProof).
        longest = int(np.diff(tasks.queue_starts).max(initial=0))
        word = np.uint16 if longest < np.iinfo(np.uint16).max else np.uint32
        size = len(ranks)
        self.ended: Places = np.zeros((size * tasks.per_rank, cores.size), dtype=word)
        """[tasks, cores] how many tasks of each core have ended before a task starts."""
        self._by_core = np.zeros((size * tasks.cores, cores.size), dtype=word)
        self._by_event = np.zeros((size * tasks.events_per_rank, cores.size), dtype=word)

    def of(self, tasks: TaskArray) -> Places:
        """Returns the clocks of tasks, [n, cores]."""
        return self.ended[tasks - self._first_task]

    def start(self, now: Round) -> None:
        """Sets the clocks of tasks that start."""
        known = self._by_core[now.cores - self._first_core]
        for events in now.waits.T:
            some = np.flatnonzero(events != NONE)
            told = self._by_event[events[some] - self._first_event]
            known[some] = np.maximum(known[some], told)
        for some, events in self._every.unlike_events(now.tasks) if self._every else ():
            told = self._by_event[events].min(axis=0)
            known[some] = np.maximum(known[some], told)
        self.ended[now.tasks - self._first_task] = known

    def end(self, now: Round) -> None:
        """Passes the clocks of tasks that have ended to their cores and events."""
        known = self._after(now.tasks, now.cores)
        self._by_core[now.cores - self._first_core] = known
        first, last = self._first_event, self._first_event + len(self._by_event)
        rank = now.cores // self.tasks.cores
        for events, givers in zip(now.signals.T, now.givers.T, strict=True):
            here = (givers == NONE) & (events >= first) & (events < last)
            own = np.flatnonzero(here & (events // self.tasks.events_per_rank == rank))
            merge_rows(np.maximum, self._by_event, events[own] - first, known[own])
            after = self.after_givers(now.tasks, givers)
            if after.size:
                giver = givers[after]
                credit = self._after(giver, self.tasks.core[giver])
                merge_rows(np.maximum, self._by_event, events[after] - first, credit)

    def _after(self, tasks: TaskArray, cores: TaskArray) -> Places:
        """Returns the clocks of tasks on some cores, with the tasks themselves."""
        known = self.of(tasks)
        column = self._column[cores % self.tasks.cores]
        counted = np.flatnonzero(column != NONE)
        known[counted, column[counted]] = self.tasks.place[tasks[counted]]
        return known

    def after_givers(self, puts: TaskArray, givers: TaskArray) -> IntArray:
        """Returns the indices of puts whose credit comes from an earlier task of their own rank.

        `givers[i]` is the task that gives the credit for `puts[i]`, or NONE; its core is counted.
        """
        tasks = self.tasks
        some = np.flatnonzero(givers != NONE)
        if not some.size:
            return some
        some = some[givers[some] // tasks.per_rank == puts[some] // tasks.per_rank]
        column = self._column[tasks.core[givers[some]] % tasks.cores]
        ended = self.ended[puts[some] - self._first_task, column]
        return some[ended >= tasks.place[givers[some]]]


def merge_rows(
    merge: np.ufunc, into: RankSets | Places, at: TaskArray, rows: RankSets | Places
) -> None:
    """`into[at[i]] = merge(into[at[i]], rows[i])` for all i, where values of `at` may repeat."""
    if not at.size or not into.shape[1]:
        return
    order = np.argsort(at, kind="stable")
    index = at[order]
    starts = np.flatnonzero(np.concatenate([[True], index[1:] != index[:-1]]))
    index = index[starts]
    into[index] = merge(into[index], merge.reduceat(rows[order], starts, axis=0))
