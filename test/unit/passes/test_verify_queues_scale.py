"""What `verify-queues` decides on one rank holds on all, and its work doesn't grow with the ranks.

Whatever is concluded from what all ranks have alike is compared with the tables of each rank; the
same programs get the same verdict when ranks are looked at one by one.
"""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir.affine import AffineExpr
from xdsl.utils.exceptions import DiagnosticException

from hpmoe_ir.dialects import queue
from hpmoe_ir.dialects.index import RANK
from hpmoe_ir.dialects.tile import families_of
from hpmoe_ir.dialects.tile.types import AccessAttr, IndexAttr, dense_i32
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.passes.analysis import task_uses
from hpmoe_ir.passes.analysis.pass_kinds import expanded
from hpmoe_ir.passes.analysis.task_uses import uses_of
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.arrival import Arrival
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.passes.policies.overlap import Overlap
from hpmoe_ir.passes.proof import coverage, order, run
from hpmoe_ir.passes.proof.clocks import Round
from hpmoe_ir.passes.proof.coverage import check_written
from hpmoe_ir.passes.proof.known_ranks import ranks_after, ranks_before
from hpmoe_ir.passes.proof.order import OrderProof
from hpmoe_ir.passes.proof.races import check_order
from hpmoe_ir.passes.proof.rank_sets import has_rank
from hpmoe_ir.passes.proof.run import (
    QueueRun,
    clocks_of,
    run_queues,
    shared_rounds,
)
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks, queue_tasks
from hpmoe_ir.passes.verify_queues import VerifyQueuesPass, verify_queues

LOWERINGS = {
    "depth-first": LowerMoePass(),
    "not rotated": LowerMoePass(rotate=False, granularity="expert", policy=OperatorOrder()),
    "arrival": LowerMoePass(return_cols=16, policy=Arrival(), rotate_sources=True),
    "overlap": LowerMoePass(return_cols=16, policy=Overlap(), rotate_sources=True),
    "no credits": LowerMoePass(credit=False, row_chunks=2),
    "four groups": LowerMoePass(credit=False, source_groups=4, elide=False),
}


@cache
def programs(name: str, ranks: int, backward: bool = True) -> list[queue.ProgramOp]:
    """Both directions of a small layer in queues, not verified."""
    layer = preset_layer("deepseek-v3-tiny").with_sizes(ranks=ranks, experts=2 * ranks, tokens=16)
    module = layer_module(layer)
    if backward:
        DeriveBackwardPass().apply(Context(), module)
    for module_pass in expanded([LOWERINGS[name]]):
        if not isinstance(module_pass, VerifyQueuesPass):
            module_pass.apply(Context(), module)
    return [op for op in module.ops if isinstance(op, queue.ProgramOp)]


def not_shared(tasks: QueueTasks) -> None:
    """Stands for the attempt to run all ranks in the same rounds."""


def one_by_one(tasks: QueueTasks) -> QueueRun:
    """The run without the attempt to run all ranks in the same rounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "shared_rounds", not_shared)
        return run_queues(tasks)


@pytest.mark.parametrize("name", LOWERINGS)
def test_all_ranks_share_the_rounds_of_compiled_programs(name: str) -> None:
    for program in programs(name, 4):
        tasks = queue_tasks(program)
        found, other = run_queues(tasks), one_by_one(tasks)
        assert found.is_shared
        assert not other.is_shared
        assert found.complete
        assert other.complete
        ran = np.sort(np.concatenate([now.tasks for now in found.rounds_of(range(4))]))
        assert (ran == np.arange(len(tasks.core))).all()
        assert (ranks_before(found) == ranks_before(other)).all()
        after, other_after = ranks_after(found), ranks_after(other)
        assert (after.always == other_after.always).all()
        assert (after.with_rows == other_after.with_rows).all()
        for rank in range(4):
            own = range(rank, rank + 1)
            assert (clocks_of(found, own).ended == clocks_of(other, own).ended).all()


@pytest.mark.parametrize("name", LOWERINGS)
def test_what_all_ranks_have_alike_holds_on_each(name: str) -> None:
    known = same = 0
    for program in programs(name, 4):
        tasks = queue_tasks(program)
        proof = OrderProof(one_by_one(tasks))
        shared = OrderProof(run_queues(tasks)).on_all_ranks.tables_of(0).clocks.ended
        common = proof.on_all_ranks.tables_of(0).clocks.ended
        for rank in range(4):
            ended = clocks_of(proof.run, range(rank, rank + 1)).ended
            assert (common <= ended).all()
            assert (shared <= ended).all()
            same += int((common == ended).all(axis=1).sum())
            every = np.arange(tasks.per_rank) + rank * tasks.per_rank
            for other in range(4):
                before = has_rank(proof.ranks_before[every], np.full(every.size, other))
                assert before[proof.know_all].all()
        known += int(proof.know_all.sum())
    assert known
    assert same > 40


def test_unlike_waits_and_signals_are_not_taken_for_alike() -> None:
    """The tables of rank 0 hold only what each rank does with its own events."""
    (program,) = programs("not rotated", 4, backward=False)
    tasks = queue_tasks(program)
    size, events = tasks.per_rank, tasks.events_per_rank
    for alike, table in ((tasks.own_waits, tasks.waits), (tasks.own_signals, tasks.signals)):
        own = table.reshape(4, size, -1) - np.arange(4)[:, None, None] * events
        same = (own == own[0]).all(axis=0) & (table[:size] != NONE)
        same &= (own[0] >= 0) & (own[0] < events)
        assert ((alike != NONE) == same).all()
        assert (alike[same] == own[0][same]).all()
        assert same.any()
    assert tasks.unlike_signals.any()


def verdict(program: queue.ProgramOp) -> str:
    """The refusal, empty if there is none."""
    try:
        verify_queues(program)
    except DiagnosticException as e:
        return str(e)
    return ""


def broken(program: queue.ProgramOp, seed: int) -> queue.ProgramOp:
    """A program without one of its waits, or with another threshold."""
    draw = random.Random(seed)
    program = program.clone()
    if seed % 4:
        op = draw.choice(queue.waits_of(program))
        op.detach()
        op.erase()
    else:
        event = draw.choice(list(queue.events_of(program).values()))
        event.counts = dense_i32(event.thresholds + 1)
    return program


@pytest.mark.parametrize("name", [name for name in LOWERINGS if name != "four groups"])
def test_verdicts_are_those_of_ranks_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With batches of one rank, and with nothing concluded from what ranks have alike."""
    right = programs(name, 3)
    cases = [*right, *(broken(program, seed) for program in right for seed in range(3))]
    expected = [verdict(program) for program in cases]
    assert not any(expected[: len(right)])
    assert Counter(map(bool, expected))[True] >= 3
    monkeypatch.setattr(order, "BATCH_TASKS", 1)
    monkeypatch.setattr(coverage, "MOST_CELLS", 1)
    monkeypatch.setattr(coverage, "MOST_READERS", 1)
    assert [verdict(program) for program in cases] == expected
    nothing = property(lambda _: False)
    monkeypatch.setattr(task_uses.Use, "is_uniform", nothing)
    monkeypatch.setattr(task_uses.Use, "has_same_parts", nothing)
    monkeypatch.setattr(run, "shared_rounds", not_shared)
    monkeypatch.setattr(
        OrderProof, "know_all", property(lambda p: np.zeros(p.tasks.per_rank, dtype=np.bool_))
    )
    assert [verdict(program) for program in cases] == expected


def test_parts_of_ranks_are_compared() -> None:
    """Rotated accesses reach the same parts of each rank, those of one part by rank do not."""
    (program,) = programs("arrival", 4, backward=False)
    uses = [use for found in uses_of(queue_tasks(program)).values() for use in found]
    assert all(use.has_same_parts for use in uses)
    rotated = [u for u in uses if u.access.peer is None and not u.is_uniform]
    assert len(rotated) >= 2
    found = 0
    for use in rotated:
        for name, axis in use.spans.items():
            if len(axis.spans) == 4:
                other = replace(use, spans={name: replace(axis, index=RANK)})
                assert not other.is_uniform
                assert not other.has_same_parts
                found += 1
    assert found
    puts = [u for u in uses if u.access.peer is not None]
    assert puts
    for use in puts:
        assert not use.is_uniform
        # All to rank 0: the other ranks are not written.
        first = replace(use.access, peer=AffineExpr.constant(0))
        assert not replace(use, access=first).has_same_parts


def changed(program: queue.ProgramOp, what: str) -> queue.ProgramOp:
    """A copy that is right on rank 0 and wrong on the others."""
    program = program.clone()
    by_rank = (AffineExpr.dimension(1) + RANK) % 4
    if what == "wait":  # for another source group on each rank
        op = next(w for w in queue.waits_of(program) if w.family_name == "swiglu")
        op.index = ArrayAttr([op.index.data[0], IndexAttr(by_rank)])
        return program
    family = families_of(program)["swiglu" if what == "read" else "dispatch"]
    if what == "read":
        (read,) = family.read_accesses
        source = read.map_exprs(lambda e: by_rank if e == AffineExpr.dimension(1) else e)
        family.reads = ArrayAttr([AccessAttr(source)])
    else:  # all puts go to rank 0
        (write,) = family.write_accesses
        family.writes = ArrayAttr([AccessAttr(replace(write, peer=AffineExpr.constant(0)))])
    return program


def says(check: Callable[[QueueTasks], None], program: queue.ProgramOp) -> str:
    """The refusal of one check, empty if there is none."""
    try:
        check(queue_tasks(program))
    except DiagnosticException as e:
        return str(e)
    return ""


def in_order(tasks: QueueTasks) -> None:
    check_order(OrderProof(run_queues(tasks)), uses_of(tasks))


def written(tasks: QueueTasks) -> None:
    check_written(tasks, uses_of(tasks))


def waits_of_rank_0(tasks: QueueTasks) -> None:
    in_order(replace(tasks, own_waits=tasks.waits[: tasks.per_rank]))


@pytest.mark.parametrize("what", ["wait", "read", "put"])
def test_what_is_wrong_on_other_ranks_than_0_is_refused(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is accepted by a proof that takes all ranks for alike."""
    (right,) = programs("four groups", 4, backward=False)
    wrong = changed(right, what)
    check = written if what == "put" else in_order
    assert says(check, right) == ""
    assert "on rank 1" in says(check, wrong)
    if what == "wait":
        check = waits_of_rank_0
    elif what == "read":
        monkeypatch.setattr(
            task_uses.Use, "is_uniform", property(lambda use: use.access.peer is None)
        )
    else:
        monkeypatch.setattr(task_uses.Use, "has_same_parts", property(lambda _: True))
    assert says(check, wrong) == ""


class Counts:
    """Counts the tasks of rounds and the tasks of which accesses are evaluated."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.in_rounds = self.in_uses = 0
        self.exact_clocks = 0
        of = Round.of.__func__
        tasks = task_uses.Use.tasks.func
        clocks = order.clocks_of

        def counted_round(cls: type[Round], queues: QueueTasks, now: Any) -> Round:
            self.in_rounds += len(now)
            return of(cls, queues, now)

        def counted_tasks(use: task_uses.Use) -> Any:
            found = tasks(use)
            self.in_uses += found.size
            return found

        def counted_clocks(found: QueueRun, ranks: range) -> Any:
            self.exact_clocks += found.tasks.ranks > 1
            return clocks(found, ranks)

        patch.setattr(Round, "of", classmethod(counted_round))
        patch.setattr(task_uses.Use, "tasks", property(counted_tasks))
        patch.setattr(order, "clocks_of", counted_clocks)


def fine(ranks: int, cols: int) -> tuple[queue.ProgramOp, int]:
    """A layer with narrow matrix tasks, and its number of tasks on a rank."""
    layer = preset_layer("deepseek-v3-tiny").with_sizes(ranks=ranks, experts=2 * ranks, tokens=16)
    module = layer_module(layer)
    lowering = LowerMoePass(task_cols=cols, tile_n=16, source_groups=2)
    for module_pass in expanded([lowering]):
        if not isinstance(module_pass, VerifyQueuesPass):
            module_pass.apply(Context(), module)
    (program,) = (op for op in module.ops if isinstance(op, queue.ProgramOp))
    return program, sum(f.task_count for f in queue_tasks(program).families)


def test_work_of_a_task_does_not_grow_with_the_ranks() -> None:
    """More matrix tasks on a rank: as many rounds and clocks on 16 ranks as on 4.

    Accesses of all ranks are evaluated only where they meet puts, or where ranks differ.
    """
    rounds: dict[int, int] = {}
    for ranks in (4, 16):
        found: list[tuple[int, int, int]] = []
        for cols in (64, 16):
            program, size = fine(ranks, cols)
            with pytest.MonkeyPatch.context() as patch:
                counts = Counts(patch)
                verify_queues(program)
            assert counts.exact_clocks == 0
            assert counts.in_rounds <= 4 * size
            found.append((size, counts.in_rounds, counts.in_uses))
        more, more_in_rounds, more_in_uses = np.subtract(found[1], found[0])
        rounds[ranks] = int(more_in_rounds)
        assert more > 0
        assert more_in_uses <= (2 * ranks + 8) * more
    assert rounds[4] == rounds[16]


def test_memory_of_a_task_is_bounded() -> None:
    program, size = fine(16, 16)
    tracemalloc.start()
    verify_queues(program)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert shared_rounds(queue_tasks(program)) is not None
    assert peak < 200 * 16 * size + (1 << 21), peak
