"""One launch of all queues of all ranks, as far as they come, and what must have happened when.

Cores take turns in rounds: in each, every core whose next task has all its events runs that task.
What a task knows, and whether all tasks end, does not depend on the turns: queues are fixed and
counters only grow, so a task that can run in one order of events can run in all.

A put that is credited signals or not, as the routing will have it. So an event is taken to need the
signals of all its puts and the credits too, and nobody is taken to know by it what a put came
after; of the task that gives the credit they know if a put of their own rank comes after it, since
then either of the two has counted. The order of the put itself is another matter (`OrderProof`): a
put that sends nothing has touched nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks

RankSets: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
"""[n, words] sets of ranks, a bit for each."""

WORD_BITS = 64
"""Bits of a word of `RankSets`."""

Places: TypeAlias = np.ndarray[Any, np.dtype[np.uint16 | np.uint32]]
"""Places in queues."""


@dataclass(frozen=True)
class QueueRun:
    """What holds at each task, in every execution."""

    tasks: QueueTasks
    ended: Places
    """[N, C] for each core of the task's own rank, how many tasks of its queue have ended before
    the task starts, by chains of queues and events within the rank."""
    heard: RankSets
    """[N, words] bit r: a task of rank r, in this launch, has ended before the task starts."""
    rounds: list[IntArray]
    """The tasks of each round."""
    heads: IntArray
    """[ranks * C] index into `queues` of the first task of a core that could not run."""

    @property
    def complete(self) -> bool:
        """Whether all tasks ended."""
        return bool((self.heads == self.tasks.queue_starts[1:]).all())


def bit_words(ranks: int) -> int:
    """Words of a set of ranks."""
    return ceil_div(ranks, WORD_BITS)


def rank_bits(tasks: QueueTasks, numbers: IntArray) -> RankSets:
    """[n, words] the set that holds each task's own rank."""
    rank = numbers // tasks.per_rank
    bits = np.zeros((numbers.size, bit_words(tasks.ranks)), dtype=np.uint64)
    bit = np.uint64(1) << (rank % WORD_BITS).astype(np.uint64)
    bits[np.arange(numbers.size), rank // WORD_BITS] = bit
    return bits


def has_rank(sets: RankSets, rank: IntArray) -> BoolArray:
    """[n] whether each set ([n, words]) holds the rank at its place."""
    word = sets[np.arange(rank.size), rank // WORD_BITS]
    return (word >> (rank % WORD_BITS).astype(np.uint64)) & np.uint64(1) != 0


def run_queues(tasks: QueueTasks) -> QueueRun:
    """Runs one launch in rounds."""
    number, cores = tasks.ranks * tasks.per_rank, tasks.cores
    # The largest number stands for "no place" (OrderProof).
    word = np.uint16 if tasks.per_rank < np.iinfo(np.uint16).max else np.uint32
    ended = np.zeros((number, cores), dtype=word)
    heard = np.zeros((number, bit_words(tasks.ranks)), dtype=np.uint64)
    core_ended = np.zeros((tasks.ranks * cores, cores), dtype=word)
    core_heard = rank_bits(tasks, np.repeat(np.arange(tasks.ranks), cores) * tasks.per_rank)
    event_ended = np.zeros((len(tasks.thresholds), cores), dtype=word)
    event_heard = np.zeros((len(tasks.thresholds), heard.shape[1]), dtype=np.uint64)
    count = np.zeros(len(tasks.thresholds), dtype=np.int64)
    needed = tasks.needed
    heads = tasks.queue_starts[:-1].copy()
    ends = tasks.queue_starts[1:]
    rounds: list[IntArray] = []
    while True:
        waiting = np.flatnonzero(heads < ends)
        head = tasks.queues[heads[waiting]]
        events = tasks.waits[head]
        ready = ((events == NONE) | (count[events] >= needed[events])).all(axis=1)
        on, now = waiting[ready], head[ready]
        if not now.size:
            break
        rounds.append(now)
        known, known_ranks = core_ended[on], core_heard[on]
        for events in tasks.waits[now].T:
            some = np.flatnonzero(events != NONE)
            known[some] = np.maximum(known[some], event_ended[events[some]])
            known_ranks[some] |= event_heard[events[some]]
        ended[now], heard[now] = known, known_ranks
        known[np.arange(now.size), on % cores] = tasks.place[now]
        core_ended[on], core_heard[on] = known, known_ranks
        heads[on] += 1
        for events, givers in zip(tasks.signals[now].T, tasks.givers[now].T, strict=True):
            np.add.at(count, events[events != NONE], 1)
            some = np.flatnonzero((events != NONE) & (givers == NONE))
            _merge(np.bitwise_or, event_heard, events[some], known_ranks[some])
            own = some[events[some] // tasks.events_per_rank == now[some] // tasks.per_rank]
            _merge(np.maximum, event_ended, events[own], known[own])
            after = givers_before(tasks, ended, now, givers)
            giver = givers[after]
            core_known = ended[giver]
            core_known[np.arange(giver.size), tasks.core[giver] % cores] = tasks.place[giver]
            _merge(np.maximum, event_ended, events[after], core_known)
            _merge(np.bitwise_or, event_heard, events[after], heard[giver])
        for credit in tasks.credits:
            count[credit.events[np.isin(credit.tasks, now)]] += 1
    return QueueRun(tasks, ended, heard, rounds, heads)


def givers_before(tasks: QueueTasks, ended: Places, puts: IntArray, givers: IntArray) -> IntArray:
    """Which puts come after the task on their own rank that counts for them, which they signal."""
    own = (givers != NONE) & (givers // tasks.per_rank == puts // tasks.per_rank)
    some = np.flatnonzero(own)
    local = tasks.core[givers[some]] % tasks.cores
    return some[ended[puts[some], local] >= tasks.place[givers[some]]]


def told_ranks(run: QueueRun) -> RankSets:
    """[N, words] bit r: a task of rank r starts, in this launch, only after the task has ended.

    By signals that are sent whatever the routing.
    """
    tasks = run.tasks
    told = np.zeros_like(run.heard)
    core_told = np.zeros((tasks.ranks * tasks.cores, told.shape[1]), dtype=np.uint64)
    event_told = np.zeros((len(tasks.thresholds), told.shape[1]), dtype=np.uint64)
    for now in reversed(run.rounds):
        on = tasks.core[now]
        known = core_told[on]
        for events, givers in zip(tasks.signals[now].T, tasks.givers[now].T, strict=True):
            some = np.flatnonzero((events != NONE) & (givers == NONE))
            known[some] |= event_told[events[some]]
        told[now] = known
        known = known | rank_bits(tasks, now)
        core_told[on] = known
        for events in tasks.waits[now].T:
            some = np.flatnonzero(events != NONE)
            _merge(np.bitwise_or, event_told, events[some], known[some])
    return told


def _merge(merge: np.ufunc, into: RankSets | Places, at: IntArray, rows: RankSets | Places) -> None:
    """`into[at[i]] = merge(into[at[i]], rows[i])` for all i, where values of `at` may repeat."""
    if not at.size:
        return
    order = np.argsort(at, kind="stable")
    index, starts = np.unique(at[order], return_index=True)
    into[index] = merge(into[index], merge.reduceat(rows[order], starts, axis=0))


def waiting_cycle(run: QueueRun) -> list[tuple[int, int, int]]:
    """A shortest circle of waits of an incomplete run.

    One entry a core: its first task that could not run, an event that this waits for, and a task
    that signals the event, which is that of the next entry's core or behind it in its queue.
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
        found = _circle(start, edges)
        if found and (not best or len(found) < len(best)):
            best = [(head_of[a], *edges[a][b]) for a, b in found]
    return best


def _circle(start: int, edges: dict[int, dict[int, tuple[int, int]]]) -> list[tuple[int, int]]:
    """The edges of a shortest way from `start` back to it."""
    came: dict[int, int] = {}
    level = [start]
    while level:
        following: list[int] = []
        for core in level:
            for other in edges[core]:
                if other == start:
                    way = [(core, start)]
                    while way[0][0] != start:
                        way.insert(0, (came[way[0][0]], way[0][0]))
                    return way
                if other not in came:
                    came[other] = core
                    following.append(other)
        level = following
    return []
