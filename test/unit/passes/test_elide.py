"""`elide-dependencies` on random programs: nothing that was ordered before is unordered after."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from hpmoe_ir.passes.elide_dependencies import ElideDependenciesPass
from hpmoe_ir.passes.insert_dependencies import Granularity, find_dependences

SEEDS = range(40)


def dependences(program: Any) -> list[str]:
    return [str(op) for op in program.body.block.ops if op.name == "tile.dependence"]


@pytest.mark.parametrize("granularity", ["part", "expert"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_tasks_stays(programs: Any, seed: int, granularity: Granularity):
    program = programs.random(seed)
    program.body.block.add_ops(find_dependences(program, granularity))
    before = programs.order_of(program)
    module = ModuleOp([program])
    ElideDependenciesPass().apply(Context(), module)
    assert programs.order_of(program) == before
    for first, second in programs.must_be_ordered(program, seed):
        assert before.ordered(first, second)
    kept = dependences(program)
    ElideDependenciesPass().apply(Context(), module)
    assert dependences(program) == kept, "a second time has nothing to do"


def test_something_is_elided(programs: Any):
    elided = 0
    for seed in SEEDS:
        program = programs.random(seed)
        program.body.block.add_ops(found := find_dependences(program, "part"))
        ElideDependenciesPass().apply(Context(), ModuleOp([program]))
        elided += len(found) - len(dependences(program))
    assert elided > len(SEEDS) / 2
