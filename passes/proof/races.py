"""Refuses programs in which tasks meet without order: within a launch, and across launches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, buffer_bytes, buffers_of
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.passes.analysis.task_uses import PAIRS, Meeting, Use, conflicts, meeting
from hpmoe_ir.passes.proof.order import OrderProof
from hpmoe_ir.passes.proof.run import RankSets, has_rank, rank_bits, told_ranks
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks


def check_order(proof: OrderProof, uses: dict[str, list[Use]]) -> None:
    """Of two tasks that meet, the one of the earlier family has ended before the other starts.

    The program's text is the order that counts: family after family, the points of each in their
    order. Raises RefusedError naming the tasks, what they use, and the event that is missing.
    """
    for on_buffer in uses.values():
        for first, second in conflicts(on_buffer):
            _check_pair(proof, first, second, meeting(first, second))
    for first, second in _shared_memory(proof.tasks, uses):
        _check_pair(proof, first, second, meeting(first, second, whole=True))


def _check_pair(proof: OrderProof, first: Use, second: Use, met: Meeting) -> None:
    if first.family is second.family:
        if first is second and np.bincount(met.first_group).max(initial=0) <= 1:
            return
        groups = np.arange(met.groups)
    elif second.access.peer is not None:
        groups = np.arange(met.groups)
    elif first.access.peer is not None:
        groups = _unknown_groups(proof, met)
    else:
        groups = _unordered_groups(proof, met)
    if groups.size:
        _check_each(proof, met, groups)


def _unordered_groups(proof: OrderProof, met: Meeting) -> IntArray:
    """Groups of one rank in which a task of the second use may start before all of the first."""
    tasks, ended = proof.tasks, proof.run.ended
    need = np.zeros((met.groups, tasks.cores), dtype=ended.dtype)
    a = met.first.tasks
    np.maximum.at(need, (met.first_group, tasks.core[a] % tasks.cores), tasks.place[a])
    order = np.argsort(met.second_group, kind="stable")
    groups, starts = np.unique(met.second_group[order], return_index=True)
    have = np.minimum.reduceat(ended[met.second.tasks[order]], starts, axis=0)
    return groups[(have < need[groups]).any(axis=1)]


def _unknown_groups(proof: OrderProof, met: Meeting) -> IntArray:
    """Groups in which a task of the second use does not know that all of the first have ended."""
    tasks = proof.tasks
    bad = np.ones(met.groups, dtype=bool)
    sizes = np.bincount(met.second_group, minlength=met.groups)
    order = np.argsort(met.second_group, kind="stable")
    starts = np.cumsum(sizes) - sizes
    for events in tasks.signals[met.first.tasks].T:
        here = (events != NONE) & (events // tasks.events_per_rank == met.first.owner)
        unknown = np.zeros(met.groups, dtype=bool)
        unknown[met.first_group[~here]] = True
        pairs = np.unique(np.stack([met.first_group[here], events[here]], axis=1), axis=0)
        for group, event in _in_chunks(pairs, sizes):
            times = sizes[group]
            within = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
            b = met.second.tasks[order[np.repeat(starts[group], times) + within]]
            known = proof.knows(b, np.repeat(event, times))
            unknown[np.repeat(group, times)[~known]] = True
        bad &= unknown
    return np.flatnonzero(
        bad & (sizes > 0) & (np.bincount(met.first_group, minlength=met.groups) > 0)
    )


def _in_chunks(pairs: IntArray, sizes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    total = np.cumsum(sizes[pairs[:, 0]]) // PAIRS
    for part in np.split(pairs, np.flatnonzero(np.diff(total)) + 1):
        yield part[:, 0], part[:, 1]


def _check_each(proof: OrderProof, met: Meeting, groups: IntArray) -> None:
    # Every task looks at its route; what else it uses are rows.
    rows = met.first.writes or bool(met.first.access.selectors)
    for i, j in met.pairs_of(groups):
        a, b = met.first.tasks[i], met.second.tasks[j]
        if met.first.family is met.second.family:
            i, j = np.where(a < b, i, j), np.where(a < b, j, i)
            a, b = np.minimum(a, b), np.maximum(a, b)
        open_ = np.flatnonzero(~proof.ended(a, b, rows=rows))
        for k in open_[np.argsort(b[open_], kind="stable")]:
            if not proof.certainly_ended(int(a[k]), int(b[k]), rows=rows):
                _refuse_pair(proof.tasks, met, int(a[k]), int(b[k]))


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
    """What is signalled by task `a`, what task `b` waits for, and what would join them."""
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


def _shared_memory(tasks: QueueTasks, uses: dict[str, list[Use]]) -> Iterator[tuple[Use, Use]]:
    """Uses of two buffers that have bytes in common, those of the buffer that is used first first.

    Raises RefusedError where the families that use them alternate.
    """
    buffers = [b for b in buffers_of(tasks.program).values() if b.offset is not None]
    for i, buffer in enumerate(buffers):
        for other in buffers[:i]:
            if other.space.data != buffer.space.data or not _overlap(other, buffer):
                continue
            mine, theirs = uses[buffer.sym_name.data], uses[other.sym_name.data]
            if not mine or not theirs:
                continue
            place = {f.sym_name.data: n for n, f in enumerate(tasks.families)}
            spans = [[place[u.family.sym_name.data] for u in some] for some in (mine, theirs)]
            if max(spans[0]) < min(spans[1]):
                mine, theirs = theirs, mine
            elif max(spans[1]) >= min(spans[0]):
                refuse(
                    buffer,
                    f"verify-queues: @{buffer.sym_name.data} and @{other.sym_name.data} share "
                    f"memory, and the program uses both at the same time: "
                    f"@{tasks.families[min(spans[0])].sym_name.data} uses the first before "
                    f"@{tasks.families[max(spans[1])].sym_name.data} uses the second, and the "
                    "other way round",
                )
            yield from (
                (first, second)
                for first in theirs
                for second in mine
                if first.writes or second.writes
            )


def _overlap(a: BufferOp, b: BufferOp) -> bool:
    assert a.offset is not None
    assert b.offset is not None
    begin, other = a.offset.value.data, b.offset.value.data
    return begin < other + buffer_bytes(b) and other < begin + buffer_bytes(a)


def check_launches(proof: OrderProof, uses: dict[str, list[Use]]) -> None:
    """What rank s does in launch n + 1 may not disturb what rank q does in launch n.

    Each rank starts a launch when its own last one has ended, and no rank waits for the others'.
    Two things must hold. A window is not overwritten before its uses in the launch before (in the
    launch before that, where it has two copies) have ended. And an event has all its signals of one
    launch before the first of the next (of the one after that, where it has two copies), or its
    count would be reached without some of them.

    Either of two things is enough: what rank s does comes after some task of rank q in the same
    launch, which q began when it had ended the last; or what rank q did comes before some task of
    rank s in launch n, which s has ended.
    """
    told = told_ranks(proof.run)
    _check_overwrites(proof, uses, told)
    _check_counts(proof, told)


def _check_overwrites(proof: OrderProof, uses: dict[str, list[Use]], told: RankSets) -> None:
    tasks = proof.tasks
    buffers = buffers_of(tasks.program)
    for name, on_buffer in uses.items():
        if buffers[name].space.data is not MemorySpace.WINDOW:
            continue
        copies = buffers[name].copies.value.data
        for later in (u for u in on_buffer if u.writes and u.access.peer is not None):
            for earlier in on_buffer:
                _check_overwrite(proof, told, meeting(earlier, later), copies)
    for first, second in _shared_memory(tasks, uses):
        for earlier, later in ((first, second), (second, first)):
            if later.writes and later.access.peer is not None:
                _check_overwrite(proof, told, meeting(earlier, later, whole=True), 1)


def _check_overwrite(proof: OrderProof, told: RankSets, met: Meeting, copies: int) -> None:
    tasks = proof.tasks
    heard = _heard_in_launch(proof) if copies == 2 else proof.run.heard
    if met.first.access.peer is None:
        writer = met.second.tasks
        far = met.second.owner != writer // tasks.per_rank
        unheard = far & ~has_rank(heard[writer], met.second.owner)
        groups = np.unique(met.second_group[unheard])
    elif met.first is met.second and np.bincount(met.first_group).max(initial=0) <= 1:
        return
    else:
        groups = np.arange(met.groups)
    for i, j in met.pairs_of(groups):
        b, a = met.first.tasks[i], met.second.tasks[j]
        q, s = b // tasks.per_rank, a // tasks.per_rank
        bad = np.flatnonzero((q != s) & ~has_rank(heard[a], q) & ~has_rank(told[b], s))
        if bad.size:
            _refuse_overwrite(tasks, met, int(b[bad[0]]), int(a[bad[0]]), copies)


def _heard_in_launch(proof: OrderProof) -> RankSets:
    """[N, words] the ranks of which the task's rank has heard by the end of a launch.

    With two copies that is the launch in between.
    """
    tasks, heard = proof.tasks, proof.run.heard
    by_rank = heard.reshape(tasks.ranks, tasks.per_rank, -1)
    return np.repeat(np.bitwise_or.reduce(by_rank, axis=1), tasks.per_rank, axis=0)


def _refuse_overwrite(
    tasks: QueueTasks, met: Meeting, before: int, after: int, copies: int
) -> NoReturn:
    use = "written" if met.first.writes else "read"
    written, used = met.second.text(after, tasks), met.first.text(before, tasks)
    refuse(
        met.second.family,
        f"verify-queues: {tasks.task_text(after)} may write {written} in launch n + {copies} while "
        f"{tasks.task_text(before)} has not {use} {used} in launch n: in a launch nothing that the "
        f"first waits for comes from rank {tasks.rank_of(before)}, and nothing on rank "
        f"{tasks.rank_of(after)} waits for the second; missing is an event between the two ranks, "
        "or a second copy of the window",
    )


def _check_counts(proof: OrderProof, told: RankSets) -> None:
    tasks = proof.tasks
    task, column = np.nonzero(tasks.signals != NONE)
    event = tasks.signals[task, column]
    given = [c.events.ravel() for c in tasks.credits]
    event = np.concatenate([event, *given])
    task = np.concatenate([task, *(np.repeat(c.tasks, c.events.shape[1]) for c in tasks.credits)])
    rank = task // tasks.per_rank
    members = np.zeros((len(tasks.thresholds), told.shape[1]), dtype=np.uint64)
    np.bitwise_or.at(members, event, rank_bits(tasks, task))
    # What every signaller of an event on one rank has told.
    order = np.lexsort((rank, event))
    key = event[order] * tasks.ranks + rank[order]
    keys, starts = np.unique(key, return_index=True)
    all_told = np.bitwise_and.reduceat(told[task[order]], starts, axis=0) if keys.size else told
    heard = np.where(
        tasks.in_turn[event, None], _heard_in_launch(proof)[task], proof.run.heard[task]
    )
    unheard = members[event] & ~heard & ~rank_bits(tasks, task)
    open_ = np.flatnonzero(unheard.any(axis=1))
    for part in np.array_split(open_, ceil_div(open_.size * tasks.ranks, PAIRS) or 1):
        bits = np.unpackbits(unheard[part].view(np.uint8), axis=1, bitorder="little")
        row, slow_rank = np.nonzero(bits)
        at = part[row]
        entry = np.searchsorted(keys, event[at] * tasks.ranks + slow_rank)
        bad = np.flatnonzero(~has_rank(all_told[entry], rank[at]))
        if bad.size:
            fast, q = int(task[at[bad[0]]]), int(slow_rank[bad[0]])
            _refuse_count(tasks, int(event[at[bad[0]]]), fast, q)


def _refuse_count(tasks: QueueTasks, event: int, fast: int, slow_rank: int) -> NoReturn:
    counted = np.append(tasks.signallers_of(event), tasks.givers_of(event))
    slow = next(int(t) for t in counted if tasks.rank_of(int(t)) == slow_rank)
    rank = tasks.rank_of(fast)
    copies, missing = 1, "an event between the two ranks, or a second copy of the event"
    if tasks.in_turn[event]:
        copies, missing = 2, "an event between the two ranks"
    refuse(
        tasks.family_of(fast)[0],
        f"verify-queues: {tasks.event_text(event)} may count {tasks.task_text(fast)} in launch "
        f"n + {copies} before {tasks.task_text(slow)} in launch n, and be reached without it: in a "
        f"launch nothing that the first waits for comes from rank {slow_rank}, and nothing on rank "
        f"{rank} waits for the second; missing is {missing}",
    )
