"""Refuses programs with races within a launch: unordered conflicting accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn

import numpy as np

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.passes.analysis.task_uses import PAIRS, Meeting, Use, conflicts, meeting
from hpmoe_ir.passes.proof.order import OrderProof
from hpmoe_ir.passes.proof.ranges import ordered_by_range
from hpmoe_ir.passes.proof.shared_memory import shared_memory
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks


def check_order(proof: OrderProof, uses: dict[str, list[Use]]) -> None:
    """Checks that of two tasks with conflicting accesses, the earlier ends before the other starts.

    Program order decides which one is earlier: family after family, within a family by grid point.
    Raises RefusedError naming the tasks, their accesses, and the missing event.
    """
    for on_buffer in uses.values():
        for first, second in conflicts(on_buffer):
            _check_pair(proof, first, second)
    for first, second in shared_memory(proof.tasks, uses):
        _check_pair(proof, first, second, whole=True)


def _check_pair(proof: OrderProof, first: Use, second: Use, *, whole: bool = False) -> None:
    if ordered_alike(proof, first, second, whole=whole):
        return
    batches = proof.batches()
    if second.access.peer is not None or (
        first.family is second.family and first.access.peer is not None
    ):
        batches = [range(proof.tasks.ranks)]  # the later tasks of a group are of several ranks
    for owners in batches:
        one = first.part(owners)
        met = meeting(one, one if first is second else second.part(owners), whole=whole)
        groups = _open_groups(proof, met)
        if groups.size:
            groups = groups[~ordered_by_range(proof.tasks, met)[groups]]
        if groups.size:
            _check_each(proof, met, groups)


def ordered_alike(proof: OrderProof, first: Use, second: Use, *, whole: bool = False) -> bool:
    """Returns whether all pairs are in order by waits and signals that all ranks have alike.

    If tasks access their own rank, and the same part on each rank, then the tasks of each rank meet
    as those of rank 0 do. False means unknown.
    """
    local = first.access.peer is None and second.access.peer is None
    if not local or not (whole or (first.is_uniform and second.is_uniform)):
        return False
    common, rank = proof.on_all_ranks, range(1)
    one = first.part(rank)
    met = meeting(one, one if first is second else second.part(rank), whole=whole)
    groups = _open_groups(common, met)
    return not groups.size or all(
        common.ended(a, b, rows=met.of_rows).all() for a, b in _pairs(met, groups)
    )


def _open_groups(proof: OrderProof, met: Meeting) -> IntArray:
    """Returns groups whose pairs are not all known to be in order; they may yet be."""
    first, second = met.first, met.second
    if first.family is second.family:
        if first is second and np.bincount(met.first_group).max(initial=0) <= 1:
            return np.zeros(0, dtype=np.int64)
        return np.arange(met.groups)
    if second.access.peer is not None:
        return np.arange(met.groups)
    groups = _unknown_groups(proof, met, np.arange(met.groups), proof.knows_alike)
    if groups.size:
        groups = groups[~ordered_by_range(proof.tasks, met)[groups]]
    if not groups.size:
        return groups
    if first.access.peer is None:
        return _unordered_groups(proof, met, groups)
    return _unknown_groups(proof, met, groups, proof.knows)


def _unordered_groups(proof: OrderProof, met: Meeting, groups: IntArray) -> IntArray:
    """Returns those of some groups where a second task may start before all first tasks end.

    All tasks of a group are of one rank.
    """
    tasks = proof.tasks
    number = np.full(met.groups, NONE)
    number[groups] = np.arange(groups.size)
    first = np.flatnonzero(number[met.first_group] != NONE)
    second = np.flatnonzero(number[met.second_group] != NONE)
    a, b = met.first.tasks[first], met.second.tasks[second]
    need = np.zeros((groups.size, tasks.cores), dtype=np.int64)
    at = number[met.first_group[first]]
    np.maximum.at(need, (at, tasks.core[a] % tasks.cores), tasks.place[a])
    bad = np.zeros(groups.size, dtype=np.bool_)
    for tables, some in proof.by_batch(b):
        group = number[met.second_group[second[some]]]
        late = (tables.clocks.of(b[some]) < need[group]).any(axis=1)
        bad[group[late]] = True
    return groups[bad]


def _unknown_groups(
    proof: OrderProof,
    met: Meeting,
    groups: IntArray,
    knows: Callable[[IntArray, IntArray], BoolArray],
) -> IntArray:
    """Returns those of some groups where a second task may start before an event, for each event
    that all first tasks signal.

    Second tasks access their own rank. `knows` returns whether tasks start after events.
    """
    tasks = proof.tasks
    sizes = np.bincount(met.second_group, minlength=met.groups)
    bad = np.zeros(met.groups, dtype=np.bool_)
    bad[groups] = True
    bad &= (sizes > 0) & (np.bincount(met.first_group, minlength=met.groups) > 0)
    order = np.argsort(met.second_group, kind="stable")
    starts = np.cumsum(sizes) - sizes
    put = met.first.access.peer is not None
    a = met.first.tasks
    for events, givers in zip(tasks.signals[a].T, tasks.givers[a].T, strict=True):
        here = (events != NONE) & (events // tasks.events_per_rank == met.first.owner)
        if not put and not met.of_rows:
            here &= givers == NONE
        unknown = np.zeros(met.groups, dtype=np.bool_)
        unknown[met.first_group[~here]] = True
        here &= bad[met.first_group] & ~unknown[met.first_group]
        numbered: IntArray = met.first_group[here] * len(tasks.thresholds) + events[here]
        codes: IntArray = np.unique(numbered)
        pairs: IntArray = np.stack(
            [codes // len(tasks.thresholds), codes % len(tasks.thresholds)], axis=1
        )
        # One second task of each group first: most groups that fail, do so with any.
        known = knows(met.second.tasks[order[starts[pairs[:, 0]]]], pairs[:, 1])
        unknown[pairs[~known, 0]] = True
        pairs = pairs[~unknown[pairs[:, 0]]]
        for group, event in _in_chunks(pairs, sizes):
            times = sizes[group]
            within = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
            b = met.second.tasks[order[np.repeat(starts[group], times) + within]]
            known = knows(b, np.repeat(event, times))
            unknown[np.repeat(group, times)[~known]] = True
        bad &= unknown
    return np.flatnonzero(bad)


def _in_chunks(pairs: IntArray, sizes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    total = np.cumsum(sizes[pairs[:, 0]]) // PAIRS
    for part in np.split(pairs, np.flatnonzero(np.diff(total)) + 1):
        yield part[:, 0], part[:, 1]


def _check_each(proof: OrderProof, met: Meeting, groups: IntArray) -> None:
    for a, b in _pairs(met, groups):
        open_ = np.flatnonzero(~proof.ended(a, b, rows=met.of_rows))
        for k in open_[np.argsort(b[open_], kind="stable")]:
            if not proof.certainly_ended(int(a[k]), int(b[k]), rows=met.of_rows):
                _refuse_pair(proof.tasks, met, int(a[k]), int(b[k]))


def _pairs(met: Meeting, groups: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yields the tasks of all pairs of some groups that meet, the earlier task first."""
    for i, j in met.pairs_of(groups):
        a, b = met.first.tasks[i], met.second.tasks[j]
        if met.first.family is met.second.family:
            a, b = np.minimum(a, b), np.maximum(a, b)
        yield a, b


def _refuse_pair(tasks: QueueTasks, met: Meeting, a: int, b: int) -> NoReturn:
    first, second = met.first, met.second
    if first.family is second.family and tasks.rank_of(a) != tasks.rank_of(b):
        refuse(
            second.family,
            f"verify-queues: {tasks.task_text(a)} and {tasks.task_text(b)} both use "
            f"{second.text(b, tasks)}, and nothing orders them; each rank must write parts of its "
            "own",
        )
    did, does = ("writes" if use.writes else "reads" for use in (first, second))
    here, there = second.text(b, tasks), first.text(a, tasks)
    shared = f", which shares memory with {there}" if met.whole else ""
    named = "" if met.whole or here == there else f" as {there}"
    refuse(
        second.family,
        f"verify-queues: {tasks.task_text(b)} {does} {here}{shared}, which "
        f"{tasks.task_text(a)} {did}{named}; it may start before that has ended: "
        f"{missing_edge(tasks, a, b)}",
    )


def missing_edge(tasks: QueueTasks, a: int, b: int) -> str:
    """Describes the signals of task `a`, the waits of task `b`, and the missing dependence."""
    signals = [int(e) for e in tasks.signals[a] if e != NONE]
    waits = [int(e) for e in tasks.waits[b] if e != NONE]
    here = [e for e in signals if e // tasks.events_per_rank == tasks.rank_of(b)]
    ends = f"the first signals {_listed(tasks, signals)}"
    starts = f"the second waits for {_listed(tasks, waits)}"
    if here:
        return f"{ends}, {starts}; missing is its wait for {tasks.event_text(here[0])}"
    return f"{ends}, {starts}; missing is a signal of the first to rank {tasks.rank_of(b)}"


def _listed(tasks: QueueTasks, events: list[int]) -> str:
    return " and ".join(tasks.event_text(e) for e in events) or "nothing"
