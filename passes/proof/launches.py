"""Refuses programs in which a launch of one rank races with the previous one of another."""

from __future__ import annotations

from itertools import product
from typing import NoReturn

import numpy as np

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.dialects.tile import MemorySpace, buffers_of
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.passes.analysis.task_uses import PAIRS, Meeting, Use, meeting
from hpmoe_ir.passes.proof.order import OrderProof
from hpmoe_ir.passes.proof.rank_sets import RankSets, has_rank, rank_bits
from hpmoe_ir.passes.proof.shared_memory import shared_memory
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks


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
    for first, second in shared_memory(tasks, uses):
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
        return has_rank(proof.ranks_after.with_rows[of], rank)

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
    tasks, ranks_before = proof.tasks, proof.ranks_before
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
    ranks_after = proof.ranks_after.always
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
