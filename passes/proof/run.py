"""Simulates one launch of all ranks.

In each round, every core whose next task has all its events reached runs that task. The result does
not depend on the interleaving: queues are fixed and counters only grow, so a task that can run in
one order of events can run in all. Therefore it is first tried to run each task on all ranks in the
same round (`shared_rounds`), which needs the queues of one rank only. If that gets stuck, ranks
are simulated one by one.

The vector clocks of all tasks (`clocks_of`) are a table of ranks x tasks x cores. They follow from
the rounds and from events within each rank only, and are computed for a few ranks when they are
needed. So are the sets of ranks that a task knows (`known_ranks`).

A wait for a range of events is for some that the route names. The simulated task waits for all that
can be in the range: if all tasks end so, they do under every routing. `ranges` says what the range
orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.passes.proof.clocks import Clocks, Round
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks, TaskArray


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
