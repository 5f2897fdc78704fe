"""Simulates one launch of all ranks and computes which ranks are known to each task.

In each round, every core whose next task has all its events reached runs that task. The result does
not depend on the interleaving: queues are fixed and counters only grow, so a task that can run in
one order of events can run in all.

A credited put signals only where it has rows, which depends on the routing. An event therefore
needs the signals of all its puts as well as the credits, and its waiters inherit no clock from a
credited put. They inherit the clock of the task that gives the credit where a put of the same rank
comes after that task, since whichever of the two counts, that task has ended. Accesses of the put
itself are ordered by `OrderProof`: a put that sends no signal has accessed no rows.

The vector clocks of all tasks (`clocks_of`) are a table of ranks x tasks x cores. They follow from
the rounds and from events within each rank only, and are computed for a few ranks when they are
needed. The simulation keeps only the columns of the cores whose tasks give credits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks, TaskArray

RankSets: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
"""[n, words] n sets of ranks as bit sets."""

WORD_BITS = 64
"""Bits of a word of `RankSets`."""

Places: TypeAlias = np.ndarray[Any, np.dtype[np.uint16 | np.uint32]]
"""Places in queues, from 1; 0 is before the first task."""


@dataclass(frozen=True)
class QueueRun:
    """A simulated launch: what holds in every execution when a task starts."""

    tasks: QueueTasks
    ranks_before: RankSets
    """[N, words] bit r: some task of rank r in this launch has ended before the task starts."""
    rounds: list[TaskArray]
    """The tasks of each round, ascending by core."""
    heads: IntArray
    """[ranks * C] index into `queues` of each core's first task that could not run."""

    @property
    def complete(self) -> bool:
        """Whether all tasks ended."""
        return bool((self.heads == self.tasks.queue_starts[1:]).all())

    @cached_property
    def rank_bounds(self) -> list[IntArray]:
        """For each round, [ranks + 1] the index of the first task of each rank, and the end."""
        bounds = np.arange(self.tasks.ranks + 1) * self.tasks.cores
        return [np.searchsorted(self.tasks.core[now], bounds) for now in self.rounds]

    def rounds_of(self, ranks: range) -> Iterator[TaskArray]:
        """Yields the tasks of some ranks in each round in which they have any."""
        for now, bounds in zip(self.rounds, self.rank_bounds, strict=True):
            part = now[bounds[ranks.start] : bounds[ranks.stop]]
            if part.size:
                yield part

    def on_all_ranks(self) -> QueueRun:
        """Returns the run of `QueueTasks.on_all_ranks`: one in which it has fewer waits."""
        tasks, rounds = self.tasks.on_all_ranks(), list(self.rounds_of(range(1)))
        return QueueRun(tasks, rank_bits(tasks, np.zeros(0, dtype=np.int64)), rounds, self.heads)


def bit_words(ranks: int) -> int:
    """Returns the number of words of a set of ranks."""
    return ceil_div(ranks, WORD_BITS)


def rank_bits(tasks: QueueTasks, numbers: TaskArray) -> RankSets:
    """Returns [n, words]: for each task, the set with only its own rank."""
    rank = numbers // tasks.per_rank
    bits = np.zeros((numbers.size, bit_words(tasks.ranks)), dtype=np.uint64)
    bit = np.uint64(1) << (rank % WORD_BITS).astype(np.uint64)
    bits[np.arange(numbers.size), rank // WORD_BITS] = bit
    return bits


def has_rank(sets: RankSets, rank: IntArray) -> BoolArray:
    """Returns [n]: whether `sets[i]` contains `rank[i]`."""
    word = sets[np.arange(rank.size), rank // WORD_BITS]
    return (word >> (rank % WORD_BITS).astype(np.uint64)) & np.uint64(1) != 0


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

    def __init__(self, tasks: QueueTasks, ranks: range, cores: IntArray) -> None:
        """Makes clocks that count the tasks of the local cores `cores` only."""
        self.tasks = tasks
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
        some = some[givers[some] // tasks.per_rank == puts[some] // tasks.per_rank]
        column = self._column[tasks.core[givers[some]] % tasks.cores]
        ended = self.ended[puts[some] - self._first_task, column]
        return some[ended >= tasks.place[givers[some]]]


def clocks_of(run: QueueRun, ranks: range) -> Clocks:
    """Returns the clocks of all tasks of some ranks, for all cores."""
    clocks = Clocks(run.tasks, ranks, np.arange(run.tasks.cores))
    for tasks in run.rounds_of(ranks):
        now = Round.of(run.tasks, tasks)
        clocks.start(now)
        clocks.end(now)
    return clocks


def run_queues(tasks: QueueTasks) -> QueueRun:
    """Simulates one launch in rounds; an incomplete run means that tasks wait for ever."""
    number, cores = tasks.ranks * tasks.per_rank, tasks.cores
    givers = np.array([int(c.tasks[0]) for c in tasks.credits], dtype=np.int64)
    clocks = Clocks(tasks, range(tasks.ranks), np.unique(tasks.core[givers]))
    gives = np.zeros(number, dtype=np.bool_)
    for credit in tasks.credits:
        gives[credit.tasks] = True
    ranks_before = np.zeros((number, bit_words(tasks.ranks)), dtype=np.uint64)
    by_core = rank_bits(tasks, np.repeat(np.arange(tasks.ranks), cores) * tasks.per_rank)
    by_event = np.zeros((len(tasks.thresholds), ranks_before.shape[1]), dtype=np.uint64)
    missing = tasks.needed
    heads = tasks.queue_starts[:-1].copy()
    ends = tasks.queue_starts[1:]
    rounds: list[TaskArray] = []
    while True:
        waiting = np.flatnonzero(heads < ends)
        head = tasks.queues[heads[waiting]]
        waits = tasks.waits[head]
        ready = np.flatnonzero(((waits == NONE) | (missing[waits] <= 0)).all(axis=1))
        if not ready.size:
            break
        tasks_now, on = head[ready], waiting[ready]
        now = Round(
            tasks_now, on, waits[ready], tasks.signals[tasks_now], tasks.givers[tasks_now]
        )
        rounds.append(tasks_now)
        clocks.start(now)
        known = by_core[on]
        for events in now.waits.T:
            some = np.flatnonzero(events != NONE)
            known[some] |= by_event[events[some]]
        ranks_before[tasks_now] = known
        by_core[on] = known
        heads[on] += 1
        for events, givers in zip(now.signals.T, now.givers.T, strict=True):
            np.subtract.at(missing, events[events != NONE], 1)
            some = np.flatnonzero((events != NONE) & (givers == NONE))
            merge_rows(np.bitwise_or, by_event, events[some], known[some])
            after = clocks.after_givers(tasks_now, givers)
            merge_rows(np.bitwise_or, by_event, events[after], ranks_before[givers[after]])
        clocks.end(now)
        giving = tasks_now[gives[tasks_now]]
        for credit in tasks.credits if giving.size else ():
            missing[credit.events[np.isin(credit.tasks, giving)]] -= 1
    return QueueRun(tasks, ranks_before, rounds, heads)


@dataclass(frozen=True)
class RanksAfter:
    """Ranks of which some task in the same launch starts after a task ends."""

    always: RankSets
    """[N, words] by signals that are sent under every routing."""
    with_rows: RankSets
    """[N, words] by all signals, for a task that has rows: it then sends its credited signals."""


def ranks_after_tasks(run: QueueRun) -> RanksAfter:
    """Returns which ranks have a task that starts after each task ends."""
    tasks = run.tasks
    ranks_after = np.zeros_like(run.ranks_before)
    core_ranks_after = np.zeros((tasks.ranks * tasks.cores, ranks_after.shape[1]), dtype=np.uint64)
    event_ranks_after = np.zeros((len(tasks.thresholds), ranks_after.shape[1]), dtype=np.uint64)
    bits = rank_bits(tasks, np.arange(tasks.ranks) * tasks.per_rank)
    for run_now in reversed(run.rounds):
        now = Round.of(tasks, run_now)
        known = core_ranks_after[now.cores]
        for events, givers in zip(now.signals.T, now.givers.T, strict=True):
            some = np.flatnonzero((events != NONE) & (givers == NONE))
            known[some] |= event_ranks_after[events[some]]
        ranks_after[now.tasks] = known
        known |= bits[now.cores // tasks.cores]
        core_ranks_after[now.cores] = known
        for events in now.waits.T:
            some = np.flatnonzero(events != NONE)
            merge_rows(np.bitwise_or, event_ranks_after, events[some], known[some])
    with_rows = ranks_after
    if tasks.credits:
        with_rows = ranks_after.copy()
        for events, givers in zip(tasks.signals.T, tasks.givers.T, strict=True):
            some = np.flatnonzero((events != NONE) & (givers != NONE))
            with_rows[some] |= event_ranks_after[events[some]]
    return RanksAfter(ranks_after, with_rows)


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


def waiting_cycle(run: QueueRun) -> list[tuple[int, int, int]]:
    """Returns a shortest cycle of the wait-for graph of an incomplete run.

    One entry (head, event, signaller) per core: its first task that could not run, an event that
    the task waits for, and a task that signals the event, at or behind the head of the next entry's
    core. Empty where there is no cycle.
    """
    tasks = run.tasks
    stuck = np.flatnonzero(run.heads < tasks.queue_starts[1:])
    head_of = {int(c): int(tasks.queues[run.heads[c]]) for c in stuck}
    index = np.empty(tasks.queues.size, dtype=np.int64)
    index[tasks.queues] = np.arange(tasks.queues.size)
    edges: dict[int, dict[int, tuple[int, int]]] = {}
    for core, head in head_of.items():
        edges[core] = {}
        for event in tasks.waits[head]:
            if event == NONE:
                continue
            telling = np.append(tasks.signallers_of(int(event)), tasks.givers_of(int(event)))
            for task in telling:
                other = int(tasks.core[task])
                if other in head_of and index[task] >= run.heads[other]:
                    edges[core].setdefault(other, (int(event), int(task)))
    best: list[tuple[int, int, int]] = []
    for start in list(head_of)[:64]:
        found = _shortest_cycle(start, edges)
        if found and (not best or len(found) < len(best)):
            best = [(head_of[a], *edges[a][b]) for a, b in found]
    return best


def _shortest_cycle(
    start: int, edges: dict[int, dict[int, tuple[int, int]]]
) -> list[tuple[int, int]]:
    """Returns the edges of a shortest cycle through `start`, found by breadth-first search."""
    came: dict[int, int] = {}
    level = [start]
    while level:
        following: list[int] = []
        for core in level:
            for other in edges[core]:
                if other == start:
                    path = [(core, start)]
                    while path[0][0] != start:
                        path.insert(0, (came[path[0][0]], path[0][0]))
                    return path
                if other not in came:
                    came[other] = core
                    following.append(other)
        level = following
    return []
