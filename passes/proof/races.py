"""Refuses programs with races (unordered conflicting accesses), within and across launches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NoReturn

import numpy as np

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, buffer_bytes, buffers_of
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.passes.analysis.task_uses import PAIRS, Meeting, Use, conflicts, meeting
from hpmoe_ir.passes.proof.order import OrderProof
from hpmoe_ir.passes.proof.ranges import ordered_by_range
from hpmoe_ir.passes.proof.run import RankSets, has_rank, rank_bits
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks


def check_order(proof: OrderProof, uses: dict[str, list[Use]]) -> None:
    """Checks that of two tasks with conflicting accesses, the earlier ends before the other starts.

    Program order decides which one is earlier: family after family, within a family by grid point.
    Raises RefusedError naming the tasks, their accesses, and the missing event.
    """
    for on_buffer in uses.values():
        for first, second in conflicts(on_buffer):
            _check_pair(proof, first, second)
    for first, second in _shared_memory(proof.tasks, uses):
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


def _shared_memory(tasks: QueueTasks, uses: dict[str, list[Use]]) -> Iterator[tuple[Use, Use]]:
    """Yields pairs of uses of two buffers with overlapping memory; the earlier buffer's use first.

    Raises RefusedError where the lifetimes of the two buffers overlap.
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
    """Checks that a rank s in launch n + 1 does not race with a rank q still in launch n.

    Each rank starts a launch when its own previous launch has ended, without a barrier between
    ranks. Two properties are checked. Of two conflicting accesses of a window in two launches, one
    of them a put, that of the earlier launch has ended before the other starts. And an event
    receives all its signals of one launch before the first one of the next launch; otherwise its
    threshold could be reached too early. With two copies, both properties concern launches n and
    n + 2.

    Either of two conditions suffices: the task of rank s in launch n + 1 starts after some task of
    rank q in launch n + 1, since q has then ended launch n; or the task of rank q in launch n ends
    before some task of rank s in launch n starts, since s has ended launch n. Raises RefusedError.
    """
    _check_overwrites(proof, uses)
    _check_counts(proof)


def _check_overwrites(proof: OrderProof, uses: dict[str, list[Use]]) -> None:
    """Checks that no access of a window in a launch races with one of an earlier launch.

    Only puts reach the memory of another rank, so one of the two is a put.
    """
    tasks = proof.tasks
    buffers = buffers_of(tasks.program)
    for name, on_buffer in uses.items():
        if buffers[name].space.data is MemorySpace.WINDOW:
            copies = buffers[name].copies.value.data
            for later, earlier in product(on_buffer, repeat=2):
                _check_overwrite(proof, earlier, later, copies)
    for first, second in _shared_memory(tasks, uses):
        _check_overwrite(proof, first, second, 1, whole=True)
        _check_overwrite(proof, second, first, 1, whole=True)


def _check_overwrite(
    proof: OrderProof, earlier: Use, later: Use, copies: int, *, whole: bool = False
) -> None:
    """Checks `earlier` in launch n against `later` in launch n + `copies` of another rank."""
    if not (earlier.writes or later.writes):
        return
    if earlier.access.peer is None and later.access.peer is None:
        return  # on one rank, whose launches follow each other
    tasks, in_launch = proof.tasks, copies == 2
    if _know_all(proof, tasks.tasks_of(later.family, range(1)).ravel(), in_launch).all():
        return

    def is_before(rank: IntArray, of: IntArray) -> BoolArray:
        return _knows_rank(proof, of, rank, in_launch)

    def is_after(rank: IntArray, of: IntArray) -> BoolArray:
        # The accesses of a task without rows do not happen.
        return has_rank(proof.run.ranks_after.with_rows[of], rank)

    # If one of the two is not a put, its rank is the one whose memory the put accesses.
    first = second = None
    if earlier.access.peer is None:
        far = later.owner != later.tasks // tasks.per_rank
        second = far & ~is_before(later.owner, later.tasks)
        if not second.any():
            return
    elif later.access.peer is None:
        far = earlier.owner != earlier.tasks // tasks.per_rank
        first = far & ~is_after(earlier.owner, earlier.tasks)
        if not first.any():
            return
    met = meeting(earlier, later, whole=whole)
    if first is not None:
        groups = np.unique(met.first_group[first])
    elif second is not None:
        groups = np.unique(met.second_group[second])
    elif earlier is later and np.bincount(met.first_group).max(initial=0) <= 1:
        return
    else:
        groups = np.arange(met.groups)
    for i, j in met.pairs_of(groups):
        b, a = met.first.tasks[i], met.second.tasks[j]
        q, s = b // tasks.per_rank, a // tasks.per_rank
        bad = np.flatnonzero((q != s) & ~is_before(q, a) & ~is_after(s, b))
        if bad.size:
            _refuse_overwrite(tasks, met, int(b[bad[0]]), int(a[bad[0]]), copies)


def _know_all(proof: OrderProof, of: IntArray, in_launch: bool) -> BoolArray:
    """Returns [n]: whether tasks of every rank certainly end before each task starts.

    With `in_launch`, before its rank ends the launch; with two copies, that is the launch between
    the two that use the same copy. Says only what all ranks have alike; False means unknown.
    """
    if in_launch:
        return np.full(of.shape, proof.know_all.any())
    return proof.know_all[of % proof.tasks.per_rank]


def _knows_rank(proof: OrderProof, of: IntArray, rank: IntArray, in_launch: bool) -> BoolArray:
    """Returns [n]: whether a task of `rank[i]` ends before task `of[i]` starts.

    `in_launch` is that of `_know_all`.
    """
    found = _know_all(proof, of, in_launch)
    open_ = np.flatnonzero(~found)
    if open_.size:
        found[open_] = has_rank(_ranks_before(proof, of[open_], in_launch), rank[open_])
    return found


def _ranks_before(proof: OrderProof, of: IntArray, in_launch: bool) -> RankSets:
    """Returns [n, words]; bit r: whether a task of rank r ends before (see `_know_all`)."""
    tasks, ranks_before = proof.tasks, proof.run.ranks_before
    if not in_launch:
        return ranks_before[of]
    by_rank = ranks_before.reshape(tasks.ranks, tasks.per_rank, -1)
    return np.bitwise_or.reduce(by_rank, axis=1)[of // tasks.per_rank]


def _refuse_overwrite(
    tasks: QueueTasks, met: Meeting, before: int, after: int, copies: int
) -> NoReturn:
    use = "written" if met.first.writes else "read"
    does = "write" if met.second.writes else "read"
    mine, used = met.second.text(after, tasks), met.first.text(before, tasks)
    refuse(
        met.second.family,
        f"verify-queues: {tasks.task_text(after)} may {does} {mine} in launch n + {copies} while "
        f"{tasks.task_text(before)} has not {use} {used} in launch n: in a launch nothing that the "
        f"first waits for comes from rank {tasks.rank_of(before)}, and nothing on rank "
        f"{tasks.rank_of(after)} waits for the second; missing is an event between the two ranks, "
        "or a second copy of the window",
    )


def _check_counts(proof: OrderProof) -> None:
    tasks = proof.tasks
    task, event = _far_signals(tasks)
    given = [c.events.ravel() for c in tasks.credits]
    event = np.concatenate([event, *given])
    task = np.concatenate([task, *(np.repeat(c.tasks, c.events.shape[1]) for c in tasks.credits)])
    in_turn = tasks.in_turn[event]
    if all(_know_all(proof, task[in_turn == turn], turn).all() for turn in (False, True)):
        return
    ranks_after = proof.run.ranks_after.always
    rank = task // tasks.per_rank
    members = np.zeros((len(tasks.thresholds), ranks_after.shape[1]), dtype=np.uint64)
    np.bitwise_or.at(members, event, rank_bits(tasks, task))
    # Per event and rank, the ranks that are ordered after all signallers on that rank.
    order = np.lexsort((rank, event))
    key = event[order] * tasks.ranks + rank[order]
    keys, starts = np.unique(key, return_index=True)
    after_all = (
        np.bitwise_and.reduceat(ranks_after[task[order]], starts, axis=0)
        if keys.size
        else ranks_after
    )
    ranks_before = np.where(
        in_turn[:, None], _ranks_before(proof, task, True), _ranks_before(proof, task, False)
    )
    unordered = members[event] & ~ranks_before & ~rank_bits(tasks, task)
    open_ = np.flatnonzero(unordered.any(axis=1))
    for part in np.array_split(open_, ceil_div(open_.size * tasks.ranks, PAIRS) or 1):
        bits = np.unpackbits(unordered[part].view(np.uint8), axis=1, bitorder="little")
        row, slow_rank = np.nonzero(bits)
        at = part[row]
        entry = np.searchsorted(keys, event[at] * tasks.ranks + slow_rank)
        bad = np.flatnonzero(~has_rank(after_all[entry], rank[at]))
        if bad.size:
            fast, q = int(task[at[bad[0]]]), int(slow_rank[bad[0]])
            _refuse_count(tasks, int(event[at[bad[0]]]), fast, q)


def _far_signals(tasks: QueueTasks) -> tuple[IntArray, IntArray]:
    """Returns all signals of events that another rank than their own signals: tasks and events,
    in the order of the tasks.

    Signals of other events are of one rank, whose launches follow each other.
    """
    size, events, unlike = tasks.per_rank, tasks.events_per_rank, tasks.unlike_signals
    rank = np.arange(tasks.ranks, dtype=np.int64)[:, None]
    far = np.zeros(len(tasks.thresholds), dtype=np.bool_)
    far[tasks.signals_apart[tasks.signals_apart // events != rank]] = True
    # Events of rank 0 that are far on some rank: few, so that their signals are few.
    candidates = unlike | (
        (tasks.own_signals != NONE)
        & far.reshape(tasks.ranks, events).any(axis=0)[tasks.own_signals]
    )
    point, column = np.nonzero(candidates)
    task = (rank * size + point).ravel()
    event = tasks.signals[task, np.tile(column, tasks.ranks)].astype(np.int64)
    return task[far[event]], event[far[event]]


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
