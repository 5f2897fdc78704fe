"""The schedule `published` has the queues of the published system, task by task."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.dialects.queue import (
    POINT_BITS,
    POINT_MASK,
    ProgramOp,
    events_of,
    orders_of,
    waits_of,
)
from hpmoe_ir.dialects.tile import TasksOp, families_of
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.schedule.named import NAMED

ORDER_FILE = Path(__file__).parents[2] / "data" / "published-order.json.gz"

OPERATORS = {
    "forward": {
        "dispatch": "dispatch",
        "matmul": "up_proj",
        "swiglu": "swiglu",
        "matmul_1": "down_proj",
        "return": "combine",
    },
    "backward": {
        "dispatch": "dispatch",
        "matmul": "act_grad",
        "weight_gradient": "w2_grad",
        "swiglu_grad": "swiglu_grad",
        "matmul_1": "gate_grad",
        "weight_gradient_1": "w1_grad",
        "return": "combine",
    },
}
"""The published system's names of our families."""


@pytest.fixture(scope="module")
def programs_by_direction() -> dict[str, ProgramOp]:
    config = preset_layer("deepseek-v3").with_sizes(
        ranks=8, tokens=4096, experts=64, top_k=8, hidden=7168, width=2048
    )
    ctx, module = make_context(), layer_module(config)
    DeriveBackwardPass().apply(ctx, module)
    # That system takes one vector core of each pair, the schedule both: it is a baseline.
    (lowering,) = NAMED["published"].passes(load_machine("ascend-a3"))
    assert isinstance(lowering, LowerMoePass)
    replace(lowering, vector_cores="one").apply(ctx, module)
    forward, backward = (op for op in module.ops if isinstance(op, ProgramOp))
    return {"forward": forward, "backward": backward}


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    with gzip.open(ORDER_FILE, "rt") as file:
        return json.load(file)


def published_task(family: TasksOp, point: int, rank: int) -> int:
    """The number that the published system gives to a task."""
    at = dict(
        zip(
            family.dim_names, (int(i) for i in np.unravel_index(point, family.extents)), strict=True
        )
    )
    peer = at.get("p", at.get("s"))
    if peer is None:
        return point
    ranks, experts, tiles = 8, 8, 32
    assert sorted(family.extents) == sorted((ranks, experts, tiles))
    return ((rank + peer) % ranks * experts + at["e"]) * tiles + at["c"]


def our_queues(
    program: ProgramOp, core: CoreKind, operators: dict[str, str], rank: int
) -> Iterator[list[tuple[str, int]]]:
    """For each core that has tasks, the published operators and numbers of those it shares."""
    order, families = orders_of(program)[core], families_of(program)
    slots, first = order.slot_values, order.first_slots
    for begin, end in pairwise(first.tolist()):
        queue: list[tuple[str, int]] = []
        for slot in map(int, slots[begin:end]):
            name = order.family_names[slot >> POINT_BITS]
            if name in operators:
                task = published_task(families[name], slot & POINT_MASK, rank)
                queue.append((operators[name], task))
        if begin < end:
            yield queue


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("core", [CoreKind.AIC, CoreKind.AIV])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_queues_are_those_of_the_published_system(
    programs_by_direction: dict[str, ProgramOp],
    published: dict[str, Any],
    direction: str,
    core: CoreKind,
    rank: int,
):
    items = [
        (operator, first + i * step)
        for operator, first, step, count in published[f"{direction}-rank{rank}"][core]
        for i in range(count)
    ]
    assert (
        len(items)
        == {CoreKind.AIC: {"forward": 384, "backward": 768}[direction], CoreKind.AIV: 6144}[core]
    )
    program = programs_by_direction[direction]
    found = list(our_queues(program, core, OPERATORS[direction], rank))
    assert found == [items[lane::24] for lane in range(24)]


def test_one_vector_core_of_each_pair_has_tasks(programs_by_direction: dict[str, ProgramOp]):
    for program in programs_by_direction.values():
        lengths = np.diff(orders_of(program)[CoreKind.AIV].first_slots)
        assert not lengths[0::2].any()
        assert lengths[1::2].all()


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_events_have_the_thresholds_of_the_published_system(
    programs_by_direction: dict[str, ProgramOp], published: dict[str, Any], direction: str
):
    """All tasks of an expert are joined: rows of all ranks, or all matrix cores."""
    expected = published[f"{direction}-rank0"]["counts_waited_for"]
    program = programs_by_direction[direction]
    events = events_of(program)
    for family, operator in OPERATORS[direction].items():
        counts = [
            set(events[wait.event_name].thresholds.tolist())
            for wait in waits_of(program)
            if wait.family_name == family and events[wait.event_name].extents == (8,)
        ]
        if operator == "w1_grad":
            # It waits for gate_grad there, which has waited for what w1_grad needs.
            assert (expected[operator], counts) == (24, [{256}])
        else:
            assert counts == ([{expected[operator]}] if operator != "dispatch" else [])
