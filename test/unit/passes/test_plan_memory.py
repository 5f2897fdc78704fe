"""`plan-memory` on random programs: whoever shares bytes is ordered."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from hpmoe_ir.dialects.tile import (
    BufferOp,
    MemorySpace,
    ProgramOp,
    buffer_bytes,
    buffers_of,
    families_of,
)
from hpmoe_ir.passes.elide_dependencies import ElideDependenciesPass
from hpmoe_ir.passes.insert_dependencies import find_dependences
from hpmoe_ir.passes.plan_memory import PlanMemoryPass

SEEDS = range(60)


def planned(programs: Any, seed: int, *, elide: bool = False, reuse: bool = True) -> ProgramOp:
    program = programs.random(seed)
    program.body.block.add_ops(find_dependences(program, "expert"))
    module = ModuleOp([program])
    if elide:
        ElideDependenciesPass().apply(Context(), module)
    PlanMemoryPass(reuse=reuse).apply(Context(), module)
    return program


def bytes_of(buffer: BufferOp) -> tuple[int, int]:
    assert buffer.offset is not None
    begin = buffer.offset.value.data
    return begin, begin + buffer_bytes(buffer)


def shared(program: ProgramOp, space: MemorySpace) -> list[tuple[str, str]]:
    """Pairs of buffers of a space that have a byte in common."""
    spans = [(n, bytes_of(b)) for n, b in buffers_of(program).items() if b.space.data == space]
    return [
        (a, b) for (a, x), (b, y) in combinations(spans, 2) if max(x[0], y[0]) < min(x[1], y[1])
    ]


def users(program: ProgramOp, buffer: str) -> list[tuple[str, int]]:
    return [
        (name, point)
        for name, family in families_of(program).items()
        if any(r.buffer == buffer for r in (*family.read_accesses, *family.write_accesses))
        or (family.route is not None and family.route.root_reference.data == buffer)
        for point in range(family.task_count)
    ]


@pytest.mark.parametrize("elide", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_buffers_that_share_bytes_are_never_in_use_together(programs: Any, seed: int, elide: bool):
    program = planned(programs, seed, elide=elide)
    assert shared(program, MemorySpace.WINDOW) == []
    order = programs.order_of(program)
    for a, b in shared(program, MemorySpace.WORKSPACE):
        for rank in range(program.ranks.value.data):
            first = [(rank, *task) for task in users(program, a)]
            second = [(rank, *task) for task in users(program, b)]
            forward = all(order.ordered(x, y) for x in first for y in second)
            backward = all(order.ordered(y, x) for x in first for y in second)
            assert forward or backward, f"@{a} and @{b} on rank {rank}"


def test_some_buffers_share_bytes(programs: Any):
    assert any(shared(planned(programs, seed), MemorySpace.WORKSPACE) for seed in SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_offsets(programs: Any, seed: int):
    program = planned(programs, seed, reuse=False)
    assert shared(program, MemorySpace.WORKSPACE) == shared(program, MemorySpace.WINDOW) == []
    for buffer in buffers_of(program).values():
        assert bytes_of(buffer)[0] % 512 == 0
