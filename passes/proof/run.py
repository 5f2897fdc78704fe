"""Simulates one launch of all ranks and computes which ranks are known to each task.

In each round, every core whose next task has all its events reached runs that task. The result does
not depend on the interleaving: queues are fixed and counters only grow, so a task that can run in
one order of events can run in all. Therefore it is first tried to run each task on all ranks in the
same round (`shared_rounds`), which needs the queues of one rank only. If that gets stuck, ranks
are simulated one by one.

A credited put signals only where it has rows, which depends on the routing. An event therefore
needs the signals of all its puts as well as the credits, and its waiters inherit no clock from a
credited put. They inherit the clock of the task that gives the credit where a put of the same rank
comes after that task, since whichever of the two counts, that task has ended. Accesses of the put
itself are ordered by `OrderProof`: a put that sends no signal has accessed no rows.

The vector clocks of all tasks (`clocks_of`) are a table of ranks x tasks x cores. They follow from
the rounds and from events within each rank only, and are computed for a few ranks when they are
needed. So are the sets of ranks that a task knows.

A wait for a range of events is for some that the route names. The simulated task waits for all that
can be in the range: if all tasks end so, they do under every routing. It inherits no clock from
them, since the range may be empty; `passes.proof.ranges` says what it orders.
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


@dataclass(frozen=True)
class QueueRun:
    """A simulated launch: an order in which the tasks can run."""

    tasks: QueueTasks
    rounds: list[TaskArray]
    """The tasks of each round, ascending by core; those of rank 0 if `is_shared`."""
    is_shared: bool
    """Whether each rank runs the same tasks in a round as rank 0."""
    heads: IntArray
    """[ranks * C] index into `queues` of each core's first task that could not run."""
    every: QueueTasks | None = None
    """The program of all ranks, if this is a run of what they have alike."""

    @property
    def complete(self) -> bool:
        """Whether all tasks ended."""
        return bool((self.heads == self.tasks.queue_starts[1:]).all())

    def rounds_of(self, ranks: range, *, backwards: bool = False) -> Iterator[Round]:
        """Yields each round of some ranks that has tasks, optionally the last one first."""
        tasks = self.tasks
        rank = np.arange(ranks.start, ranks.stop, dtype=tasks.core.dtype)[:, None]
        first, last = ranks.start * tasks.cores, ranks.stop * tasks.cores
        for now in reversed(self.rounds) if backwards else self.rounds:
            if self.is_shared:
                part = (rank * tasks.per_rank + now).ravel()
            elif len(ranks) == tasks.ranks:
                part = now
            else:
                core = tasks.core[now]
                part = now[(core >= first) & (core < last)]
            if part.size:
                yield Round.of(tasks, part)

    def on_all_ranks(self) -> QueueRun:
        """Returns the run of `QueueTasks.on_all_ranks`, in the rounds of rank 0."""
        rounds = [now.tasks for now in self.rounds_of(range(1))]
        return QueueRun(self.tasks.on_all_ranks(), rounds, True, self.heads, self.tasks)

    @cached_property
    def ranks_before(self) -> RankSets:
        """[N, words] bit r: some task of rank r in this launch has ended before the task starts."""
        return _ranks_before(self)

    @cached_property
    def ranks_after(self) -> RanksAfter:
        """The ranks of which a task starts after each task ends."""
        return _ranks_after(self)


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


def clocks_of(run: QueueRun, ranks: range) -> Clocks:
    """Returns the clocks of all tasks of some ranks, for all cores."""
    clocks = Clocks(run.tasks, ranks, np.arange(run.tasks.cores), run.every)
    for now in run.rounds_of(ranks):
        clocks.start(now)
        clocks.end(now)
    return clocks


def run_queues(tasks: QueueTasks) -> QueueRun:
    """Simulates one launch in rounds; an incomplete run means that tasks wait for ever."""
    shared = shared_rounds(tasks)
    if shared is not None:
        return QueueRun(tasks, shared, True, tasks.queue_starts[1:])
    givers = np.zeros(len(tasks.core), dtype=np.bool_)
    for credit in tasks.credits:
        givers[credit.tasks] = True
    missing = tasks.needed
    joins = _open_joins(tasks)
    heads = tasks.queue_starts[:-1].copy()
    ends = tasks.queue_starts[1:]
    rounds: list[TaskArray] = []
    while True:
        waiting = np.flatnonzero(heads < ends)
        head = tasks.queues[heads[waiting]]
        waits = tasks.waits[head]
        ready = ((waits == NONE) | (missing[waits] <= 0)).all(axis=1)
        ready = np.flatnonzero(ready & joins.closed(head))
        if not ready.size:
            break
        now = head[ready]
        rounds.append(now)
        heads[waiting[ready]] += 1
        signals = tasks.signals[now]
        np.subtract.at(missing, signals[signals != NONE], 1)
        giving = now[givers[now]]
        for credit in tasks.credits if giving.size else ():
            missing[credit.events[np.isin(credit.tasks, giving)]] -= 1
        joins.update(missing <= 0)
    return QueueRun(tasks, rounds, False, heads)


def shared_rounds(tasks: QueueTasks) -> list[TaskArray] | None:
    """Simulates a launch in which each task runs on all ranks in the same round.

    Returns the tasks of rank 0 in each round; None if not all tasks can run in this way. A task
    runs when the events that it waits for are reached on all ranks. Events that each rank signals
    alike on itself are counted on rank 0 only.
    """
    size, events, ranks = tasks.per_rank, tasks.events_per_rank, tasks.ranks
    signals = tasks.signals.reshape(ranks, size, -1)
    has_unlike = tasks.unlike_signals.any(axis=1)
    apart = np.zeros(events, dtype=np.bool_)
    apart[tasks.signals_apart % events] = True
    for credit in tasks.credits:
        apart[credit.events[0]] = True
    of_rank = np.arange(ranks)[:, None]
    missing = tasks.needed.reshape(ranks, events)
    by_event = missing.reshape(-1)
    reached = (missing <= 0).all(axis=0)
    joins = _open_joins_of_all(tasks)
    heads, ends = tasks.queue_starts[: tasks.cores].copy(), tasks.queue_starts[1 : tasks.cores + 1]
    rounds: list[TaskArray] = []
    while True:
        waiting = np.flatnonzero(heads < ends)
        if not waiting.size:
            return rounds
        head = tasks.queues[heads[waiting]]
        own = tasks.own_waits[head]
        ready = ((own == NONE) | reached[own]).all(axis=1) & joins.closed(head)
        for some, event in tasks.unlike_events(head):
            reached_there = missing[of_rank, event] <= 0
            ready[some] &= (reached[event] | reached_there).all(axis=0)
        if not ready.any():
            return None
        now = head[ready]
        rounds.append(now)
        heads[waiting[ready]] += 1
        own = tasks.own_signals[now]
        own = own[own != NONE]
        split = apart[own]
        alike, each = own[~split], own[split]
        np.subtract.at(missing[0], alike, 1)
        reached[alike] = missing[0, alike] <= 0
        unlike = now[has_unlike[now]]
        told = [(each + of_rank * events).ravel()]
        if unlike.size:
            told.append(signals[:, unlike][:, tasks.unlike_signals[unlike]].ravel())
        told += [c.events.ravel() for c in tasks.credits if (now == c.tasks[0]).any()]
        event = np.concatenate(told)
        if event.size:
            np.subtract.at(by_event, event, 1)
            changed = np.unique(event % events)
            reached[changed] = (missing[:, changed] <= 0).all(axis=0)
        joins.update(reached)


class _OpenJoins:
    """How many events of each join are not reached yet."""

    def __init__(self, join_of: IntArray, joins: int, waited: IntArray) -> None:
        """Takes the joins of each event, their number, and [tasks, n] those that tasks wait for."""
        self._join_of, self._waited, self._joins = join_of, waited, joins
        self._reached = np.zeros(len(join_of), dtype=np.bool_)
        self._open = self._count(join_of)

    def closed(self, tasks: TaskArray) -> BoolArray:
        """Returns which tasks have all events reached of the joins that they wait for."""
        joins = self._waited[tasks]
        return ((joins == NONE) | (self._open[joins] == 0)).all(axis=1)

    def update(self, reached: BoolArray) -> None:
        """Notes which events are reached now."""
        if self._joins:
            self._open -= self._count(self._join_of[reached & ~self._reached])
            self._reached = reached.copy()

    def _count(self, joins: IntArray) -> IntArray:
        return np.bincount(joins[joins != NONE], minlength=max(1, self._joins))


def _open_joins(tasks: QueueTasks) -> _OpenJoins:
    """Returns the joins of all ranks."""
    width = max((len(joins) for joins in tasks.joins_of.values()), default=0)
    waited = np.full((tasks.ranks * tasks.per_rank, width), NONE)
    for task, joins in tasks.joins_of.items():
        waited[task, : len(joins)] = joins
    return _OpenJoins(tasks.join_of, tasks.joins, waited)


def _open_joins_of_all(tasks: QueueTasks) -> _OpenJoins:
    """Returns the joins of rank 0; a task waits for those that it waits for on any rank, as joins
    of rank 0."""
    waited = np.full((tasks.per_rank, len(tasks.ranges) * tasks.ranks), NONE)
    for n, wait in enumerate(tasks.ranges):
        begin = wait.joins[:1] - wait.last[:1]
        own = slice(n * tasks.ranks, (n + 1) * tasks.ranks)
        waited[wait.tasks[0], own] = (wait.last + begin).T
    return _OpenJoins(tasks.join_of[: tasks.events_per_rank], tasks.joins, waited)


def know_all(run: QueueRun, clocks: Clocks) -> BoolArray:
    """Returns [T]: whether on each rank a task starts after some task of every rank in the launch.

    Follows only what all ranks have alike; False means unknown. `clocks` are those of
    `QueueRun.on_all_ranks`, with all cores.
    """
    tasks = clocks.tasks
    known = np.zeros(tasks.per_rank, dtype=np.bool_)
    by_core = np.zeros(tasks.cores, dtype=np.bool_)
    by_event = _signalled_by_all(run.tasks)
    for now in run.on_all_ranks().rounds_of(range(1)):
        found = by_core[now.cores] | ((now.waits != NONE) & by_event[now.waits]).any(axis=1)
        for some, events in run.tasks.unlike_events(now.tasks):
            found[some] |= by_event[events].all(axis=0)
        known[now.tasks] = by_core[now.cores] = found
        for events, givers in zip(now.signals.T, now.givers.T, strict=True):
            by_event[events[(events != NONE) & (givers == NONE) & found]] = True
            after = clocks.after_givers(now.tasks, givers)
            by_event[events[after[known[givers[after]]]]] = True
    return known


def _signalled_by_all(tasks: QueueTasks) -> BoolArray:
    """Returns [E of a rank] whether on each rank an event has a signal of every rank that is sent
    under every routing."""
    events, ranks = tasks.events_per_rank, tasks.ranks
    of_rank = np.arange(ranks, dtype=np.int64)[:, None]
    always = tasks.givers[: tasks.per_rank] == NONE
    far = tasks.signals_apart[:, always[tasks.unlike_signals]]
    own = tasks.own_signals[always & np.isin(tasks.own_signals, far % events)]
    pairs = [event * ranks + of_rank for event in (far, own + of_rank * events)]
    found = np.unique(np.concatenate([p.ravel() for p in pairs])) // ranks
    signallers = np.bincount(found, minlength=ranks * events).reshape(ranks, events)
    return (signallers == ranks).all(axis=0)


def _ranks_before(run: QueueRun) -> RankSets:
    tasks, all_ranks = run.tasks, range(run.tasks.ranks)
    givers = np.array([int(c.tasks[0]) for c in tasks.credits], dtype=np.int64)
    clocks = Clocks(tasks, all_ranks, np.unique(tasks.core[givers]))
    ranks_before = np.zeros((len(tasks.core), bit_words(tasks.ranks)), dtype=np.uint64)
    core_rank = np.repeat(np.arange(tasks.ranks), tasks.cores)
    by_core = rank_bits(tasks, core_rank * tasks.per_rank)
    by_event = np.zeros((len(tasks.thresholds), ranks_before.shape[1]), dtype=np.uint64)
    for now in run.rounds_of(all_ranks):
        clocks.start(now)
        known = by_core[now.cores]
        for events in now.waits.T:
            some = np.flatnonzero(events != NONE)
            known[some] |= by_event[events[some]]
        ranks_before[now.tasks] = by_core[now.cores] = known
        for events, givers in zip(now.signals.T, now.givers.T, strict=True):
            some = np.flatnonzero((events != NONE) & (givers == NONE))
            merge_rows(np.bitwise_or, by_event, events[some], known[some])
            after = clocks.after_givers(now.tasks, givers)
            merge_rows(np.bitwise_or, by_event, events[after], ranks_before[givers[after]])
        clocks.end(now)
    return ranks_before


@dataclass(frozen=True)
class RanksAfter:
    """Ranks of which some task in the same launch starts after a task ends."""

    always: RankSets
    """[N, words] by signals that are sent under every routing."""
    with_rows: RankSets
    """[N, words] by all signals, for a task that has rows: it then sends its credited signals."""


def _ranks_after(run: QueueRun) -> RanksAfter:
    tasks = run.tasks
    ranks_after = np.zeros((len(tasks.core), bit_words(tasks.ranks)), dtype=np.uint64)
    by_core = np.zeros((tasks.ranks * tasks.cores, ranks_after.shape[1]), dtype=np.uint64)
    by_event = np.zeros((len(tasks.thresholds), ranks_after.shape[1]), dtype=np.uint64)
    own = rank_bits(tasks, np.arange(tasks.ranks) * tasks.per_rank)
    for now in run.rounds_of(range(tasks.ranks), backwards=True):
        known = by_core[now.cores]
        for events, givers in zip(now.signals.T, now.givers.T, strict=True):
            some = np.flatnonzero((events != NONE) & (givers == NONE))
            known[some] |= by_event[events[some]]
        ranks_after[now.tasks] = known
        known |= own[now.cores // tasks.cores]
        by_core[now.cores] = known
        for events in now.waits.T:
            some = np.flatnonzero(events != NONE)
            merge_rows(np.bitwise_or, by_event, events[some], known[some])
    with_rows = ranks_after
    if tasks.credits:
        with_rows = ranks_after.copy()
        # If tasks on the event's rank wait for all ranges, one of them waits for a part with rows.
        complete = [np.unique(wait.joins) for wait in tasks.ranges if wait.is_complete]
        ranged = np.isin(tasks.join_of, np.concatenate([np.zeros(0, np.int64), *complete]))
        ranged = ranged.any(axis=1)
        for events, givers in zip(tasks.signals.T, tasks.givers.T, strict=True):
            some = np.flatnonzero((events != NONE) & (givers != NONE))
            with_rows[some] |= by_event[events[some]]
            some = some[ranged[events[some]]]
            owner = events[some] // tasks.events_per_rank * tasks.per_rank
            with_rows[some] |= rank_bits(tasks, owner)
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
