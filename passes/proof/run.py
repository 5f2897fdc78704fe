"""Simulates one launch of all ranks and computes a vector clock for each task.

In each round, every core whose next task has all its events reached runs that task. The result does
not depend on the interleaving: queues are fixed and counters only grow, so a task that can run in
one order of events can run in all.

A credited put signals only where it has rows, which depends on the routing. An event therefore
needs the signals of all its puts as well as the credits, and its waiters inherit no clock from a
credited put. They inherit the clock of the task that gives the credit where a put of the same rank
comes after that task, since whichever of the two counts, that task has ended. Accesses of the put
itself are ordered by `OrderProof`: a put that sends no signal has accessed no rows.

A wait for a range of events is for some that the route names. The simulated task waits for all that
can be in the range: if all tasks end so, they do under every routing. It inherits no clock from
them, since the range may be empty; `passes.proof.ranges` says what it orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks

RankSets: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
"""[n, words] n sets of ranks as bit sets."""

WORD_BITS = 64
"""Bits of a word of `RankSets`."""

Places: TypeAlias = np.ndarray[Any, np.dtype[np.uint16 | np.uint32]]
"""Places in queues, from 1; 0 is before the first task."""


@dataclass(frozen=True)
class QueueRun:
    """Vector clocks of a simulated launch: what holds in every execution when a task starts."""

    tasks: QueueTasks
    ended: Places
    """[N, C] how many tasks of each core of the same rank have ended before the task starts, by
    chains of queues and events within the rank."""
    ranks_before: RankSets
    """[N, words] bit r: some task of rank r in this launch has ended before the task starts."""
    rounds: list[IntArray]
    """The tasks of each round."""
    heads: IntArray
    """[ranks * C] index into `queues` of each core's first task that could not run."""

    @property
    def complete(self) -> bool:
        """Whether all tasks ended."""
        return bool((self.heads == self.tasks.queue_starts[1:]).all())


def bit_words(ranks: int) -> int:
    """Returns the number of words of a set of ranks."""
    return ceil_div(ranks, WORD_BITS)


def rank_bits(tasks: QueueTasks, numbers: IntArray) -> RankSets:
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


def run_queues(tasks: QueueTasks) -> QueueRun:
    """Simulates one launch in rounds; an incomplete run means that tasks wait for ever."""
    number, cores = tasks.ranks * tasks.per_rank, tasks.cores
    # The largest number stands for "no place" (OrderProof).
    word = np.uint16 if tasks.per_rank < np.iinfo(np.uint16).max else np.uint32
    ended = np.zeros((number, cores), dtype=word)
    ranks_before = np.zeros((number, bit_words(tasks.ranks)), dtype=np.uint64)
    core_ended = np.zeros((tasks.ranks * cores, cores), dtype=word)
    core_ranks_before = rank_bits(tasks, np.repeat(np.arange(tasks.ranks), cores) * tasks.per_rank)
    event_ended = np.zeros((len(tasks.thresholds), cores), dtype=word)
    event_ranks_before = np.zeros((len(tasks.thresholds), ranks_before.shape[1]), dtype=np.uint64)
    count = np.zeros(len(tasks.thresholds), dtype=np.int64)
    needed = tasks.needed
    open_events = _OpenJoins(tasks)
    heads = tasks.queue_starts[:-1].copy()
    ends = tasks.queue_starts[1:]
    rounds: list[IntArray] = []
    while True:
        waiting = np.flatnonzero(heads < ends)
        head = tasks.queues[heads[waiting]]
        events = tasks.waits[head]
        ready = ((events == NONE) | (count[events] >= needed[events])).all(axis=1)
        ready &= open_events.closed(head)
        on, now = waiting[ready], head[ready]
        if not now.size:
            break
        rounds.append(now)
        known, known_ranks = core_ended[on], core_ranks_before[on]
        for events in tasks.waits[now].T:
            some = np.flatnonzero(events != NONE)
            known[some] = np.maximum(known[some], event_ended[events[some]])
            known_ranks[some] |= event_ranks_before[events[some]]
        ended[now], ranks_before[now] = known, known_ranks
        known[np.arange(now.size), on % cores] = tasks.place[now]
        core_ended[on], core_ranks_before[on] = known, known_ranks
        heads[on] += 1
        for events, givers in zip(tasks.signals[now].T, tasks.givers[now].T, strict=True):
            np.add.at(count, events[events != NONE], 1)
            some = np.flatnonzero((events != NONE) & (givers == NONE))
            _merge(np.bitwise_or, event_ranks_before, events[some], known_ranks[some])
            own = some[events[some] // tasks.events_per_rank == now[some] // tasks.per_rank]
            _merge(np.maximum, event_ended, events[own], known[own])
            after = givers_before(tasks, ended, now, givers)
            giver = givers[after]
            core_known = ended[giver]
            core_known[np.arange(giver.size), tasks.core[giver] % cores] = tasks.place[giver]
            _merge(np.maximum, event_ended, events[after], core_known)
            _merge(np.bitwise_or, event_ranks_before, events[after], ranks_before[giver])
        for credit in tasks.credits:
            count[credit.events[np.isin(credit.tasks, now)]] += 1
        open_events.update(count >= needed)
    return QueueRun(tasks, ended, ranks_before, rounds, heads)


class _OpenJoins:
    """How many events of each join are not reached yet."""

    def __init__(self, tasks: QueueTasks) -> None:
        self._tasks = tasks
        self._open = np.bincount(self._joins(slice(None)), minlength=tasks.joins)
        self._reached = np.zeros(len(tasks.thresholds), dtype=bool)
        width = max((len(joins) for joins in tasks.joins_of.values()), default=0)
        self._waited = np.full((tasks.ranks * tasks.per_rank, width), NONE)
        for task, joins in tasks.joins_of.items():
            self._waited[task, : len(joins)] = joins

    def closed(self, tasks: IntArray) -> BoolArray:
        """Returns which tasks have all events reached of the joins that they wait for."""
        joins = self._waited[tasks]
        if not joins.size:
            return np.ones(len(tasks), dtype=bool)
        return ((joins == NONE) | (self._open[joins] == 0)).all(axis=1)

    def update(self, reached: BoolArray) -> None:
        """Notes which events are reached now."""
        if self._tasks.joins:
            new = np.flatnonzero(reached & ~self._reached)
            self._open -= np.bincount(self._joins(new), minlength=self._tasks.joins)
            self._reached = reached

    def _joins(self, events: IntArray | slice) -> IntArray:
        joins = self._tasks.join_of[events].ravel()
        return joins[joins != NONE]


def givers_before(tasks: QueueTasks, ended: Places, puts: IntArray, givers: IntArray) -> IntArray:
    """Returns the indices of puts whose credit comes from an earlier task of their own rank.

    `givers[i]` is the task that gives the credit for `puts[i]`, or NONE.
    """
    own = (givers != NONE) & (givers // tasks.per_rank == puts // tasks.per_rank)
    some = np.flatnonzero(own)
    local = tasks.core[givers[some]] % tasks.cores
    return some[ended[puts[some], local] >= tasks.place[givers[some]]]


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
    for now in reversed(run.rounds):
        on = tasks.core[now]
        known = core_ranks_after[on]
        for events, givers in zip(tasks.signals[now].T, tasks.givers[now].T, strict=True):
            some = np.flatnonzero((events != NONE) & (givers == NONE))
            known[some] |= event_ranks_after[events[some]]
        ranks_after[now] = known
        known = known | rank_bits(tasks, now)
        core_ranks_after[on] = known
        for events in tasks.waits[now].T:
            some = np.flatnonzero(events != NONE)
            _merge(np.bitwise_or, event_ranks_after, events[some], known[some])
    with_rows = ranks_after
    if tasks.credits:
        with_rows = ranks_after.copy()
        # Of the tasks that wait for ranges, one on the event's rank waits for a part with rows.
        ranged = (tasks.join_of != NONE).any(axis=1)
        for events, givers in zip(tasks.signals.T, tasks.givers.T, strict=True):
            some = np.flatnonzero((events != NONE) & (givers != NONE))
            with_rows[some] |= event_ranks_after[events[some]]
            some = some[ranged[events[some]]]
            owner = events[some] // tasks.events_per_rank * tasks.per_rank
            with_rows[some] |= rank_bits(tasks, owner)
    return RanksAfter(ranks_after, with_rows)


def _merge(merge: np.ufunc, into: RankSets | Places, at: IntArray, rows: RankSets | Places) -> None:
    """`into[at[i]] = merge(into[at[i]], rows[i])` for all i, where values of `at` may repeat."""
    if not at.size:
        return
    order = np.argsort(at, kind="stable")
    index, starts = np.unique(at[order], return_index=True)
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
        for event in _events_waited(run, head):
            telling = np.append(tasks.signallers_of(event), tasks.givers_of(event))
            for task in telling:
                other = int(tasks.core[task])
                if other in head_of and index[task] >= run.heads[other]:
                    edges[core].setdefault(other, (event, int(task)))
    best: list[tuple[int, int, int]] = []
    for start in list(head_of)[:64]:
        found = _shortest_cycle(start, edges)
        if found and (not best or len(found) < len(best)):
            best = [(head_of[a], *edges[a][b]) for a, b in found]
    return best


def _events_waited(run: QueueRun, task: int) -> Iterator[int]:
    """Yields the events that a task waits for, also those that may be in its ranges."""
    tasks = run.tasks
    yield from (int(event) for event in tasks.waits[task] if event != NONE)
    for join in tasks.joins_of.get(task, ()):
        yield from map(int, tasks.events_of_join(join))


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
