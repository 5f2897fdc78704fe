"""Which ranks are known to have started a launch before a task starts, or after it ends.

Both follow from the rounds of a simulated launch (`QueueRun`), as vector clocks do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import BoolArray
from hpmoe_ir.passes.proof.clocks import Clocks, merge_rows
from hpmoe_ir.passes.proof.rank_sets import RankSets, bit_words, rank_bits
from hpmoe_ir.passes.proof.run import QueueRun
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks


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


def ranks_before(run: QueueRun) -> RankSets:
    """Returns [N, words]; bit r: some task of rank r in this launch ends before the task starts."""
    tasks, all_ranks = run.tasks, range(run.tasks.ranks)
    givers = np.array([int(c.tasks[0]) for c in tasks.credits], dtype=np.int64)
    clocks = Clocks(tasks, all_ranks, np.unique(tasks.core[givers]))
    found = np.zeros((len(tasks.core), bit_words(tasks.ranks)), dtype=np.uint64)
    core_rank = np.repeat(np.arange(tasks.ranks), tasks.cores)
    by_core = rank_bits(tasks, core_rank * tasks.per_rank)
    by_event = np.zeros((len(tasks.thresholds), found.shape[1]), dtype=np.uint64)
    for now in run.rounds_of(all_ranks):
        clocks.start(now)
        known = by_core[now.cores]
        for events in now.waits.T:
            some = np.flatnonzero(events != NONE)
            known[some] |= by_event[events[some]]
        found[now.tasks] = by_core[now.cores] = known
        for events, givers in zip(now.signals.T, now.givers.T, strict=True):
            some = np.flatnonzero((events != NONE) & (givers == NONE))
            merge_rows(np.bitwise_or, by_event, events[some], known[some])
            after = clocks.after_givers(now.tasks, givers)
            merge_rows(np.bitwise_or, by_event, events[after], found[givers[after]])
        clocks.end(now)
    return found


@dataclass(frozen=True)
class RanksAfter:
    """Ranks of which some task in the same launch starts after a task ends."""

    always: RankSets
    """[N, words] by signals that are sent under every routing."""
    with_rows: RankSets
    """[N, words] by all signals, for a task that has rows: it then sends its credited signals."""


def ranks_after(run: QueueRun) -> RanksAfter:
    """Returns the ranks of which a task starts after each task ends."""
    tasks = run.tasks
    found = np.zeros((len(tasks.core), bit_words(tasks.ranks)), dtype=np.uint64)
    by_core = np.zeros((tasks.ranks * tasks.cores, found.shape[1]), dtype=np.uint64)
    by_event = np.zeros((len(tasks.thresholds), found.shape[1]), dtype=np.uint64)
    own = rank_bits(tasks, np.arange(tasks.ranks) * tasks.per_rank)
    for now in run.rounds_of(range(tasks.ranks), backwards=True):
        known = by_core[now.cores]
        for events, givers in zip(now.signals.T, now.givers.T, strict=True):
            some = np.flatnonzero((events != NONE) & (givers == NONE))
            known[some] |= by_event[events[some]]
        found[now.tasks] = known
        known |= own[now.cores // tasks.cores]
        by_core[now.cores] = known
        for events in now.waits.T:
            some = np.flatnonzero(events != NONE)
            merge_rows(np.bitwise_or, by_event, events[some], known[some])
    with_rows = found
    if tasks.credits:
        with_rows = found.copy()
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
    return RanksAfter(found, with_rows)
