"""Orders of tasks: what a policy says comes after what it waits for, on every rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpmoe_ir.dialects.tile import BufferOp, DependenceOp, ProgramOp, TasksOp, buffers_of
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.options.options import option_types
from hpmoe_ir.passes.insert_dependencies import find_dependences
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.passes.policies.registry import built_in_policies
from hpmoe_ir.passes.scheduling.order import Keys, SchedulingInput, first_violation

SEEDS = range(40)
MACHINE = load_machine("ascend-a3")


def work_of(
    families: list[TasksOp],
    dependences: list[DependenceOp],
    buffers: dict[str, BufferOp],
    ranks: int,
) -> SchedulingInput:
    """What a policy is given, for all cores of an ascend-a3."""
    cores = {kind: MACHINE.cores(kind) for kind in CoreKind}
    return SchedulingInput(families, dependences, buffers, ranks, MACHINE, cores)


def parts_of(program: ProgramOp) -> tuple[list[TasksOp], list[DependenceOp]]:
    """The families, and their dependences by parts."""
    program.body.block.add_ops(find_dependences(program, "part"))
    ops = list(program.body.block.ops)
    families = [op for op in ops if isinstance(op, TasksOp)]
    return families, [op for op in ops if isinstance(op, DependenceOp)]


def places(families: list[TasksOp], keys: Keys) -> dict[tuple[str, int], int]:
    """The place of each task in the order of the keys."""
    names = [(f.sym_name.data, p) for f in families for p in range(f.task_count)]
    rows = [tuple(row) for k in keys for row in k.tolist()]
    assert len(set(rows)) == len(rows), "two tasks have the same key"
    return {names[i]: n for n, i in enumerate(sorted(range(len(rows)), key=rows.__getitem__))}


POLICIES = built_in_policies()

ALWAYS_RIGHT = ("fill", "list", "operator-order", "published", "serial")
"""Policies whose orders are right for any program whose families are in a right order."""


@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_task_comes_after_those_that_it_waits_for(
    programs: Any, seed: int, policy: str, ahead: int
):
    program = programs.random(seed)
    families, dependences = parts_of(program)
    ranks = program.ranks.value.data
    work = work_of(families, dependences, buffers_of(program), ranks)
    options = {"ahead": ahead} if "ahead" in option_types(POLICIES[policy]) else {}
    keys = POLICIES[policy](**options)(work).keys
    violation = first_violation(families, dependences, keys, ranks)
    assert policy not in ALWAYS_RIGHT or violation is None
    place = places(families, keys)
    wrong = [
        (first, second)
        for d in dependences
        for signals, waits in (programs.signals_and_waits(d, program),)
        for second, event in waits.items()
        for first in signals[event]
        if place[first[1:]] >= place[second[1:]]
    ]
    assert (violation is None) == (not wrong)
    if violation is not None:
        d, producer, consumer = violation
        first = (d.producer.root_reference.data, producer)
        assert place[first] >= place[d.consumer.root_reference.data, consumer]


def test_a_reversed_order_is_a_violation(programs: Any):
    program = programs.random(0)
    families, dependences = parts_of(program)
    ranks = program.ranks.value.data
    work = work_of(families, dependences, buffers_of(program), ranks)
    keys = [-k for k in OperatorOrder()(work).keys]
    violation = first_violation(families, dependences, keys, ranks)
    assert violation is not None


def test_without_experts_depth_first_is_the_order_of_the_program():
    families = [TasksOp("p", [("i", 3)], CoreKind.AIV, "copy_rows", [], [])]
    (keys,) = DepthFirst()(work_of(families, [], {}, 1)).keys
    np.testing.assert_array_equal(keys[:, -1], [0, 1, 2])
