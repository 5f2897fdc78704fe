"""Every policy on layers of random sizes, cut at random: its queues are proved right, and each
does what it is for.
"""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.dialects.access import format_access
from hpmoe_ir.dialects.queue import POINT_BITS, POINT_MASK, ProgramOp, orders_of
from hpmoe_ir.dialects.tile import families_of
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.options.options import option_types
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.arrival import Arrival
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.fill import Fill
from hpmoe_ir.passes.policies.list_order import ListOrder
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.policies.registry import built_in_policies
from hpmoe_ir.passes.policies.serial import Serial
from hpmoe_ir.passes.policies.waves import Waves
from hpmoe_ir.timing.serial_stages import serial_stages

SEEDS = range(8)
POLICIES = built_in_policies()
TWO_CORES = Path(__file__).parents[2] / "filecheck" / "passes" / "inputs" / "two-cores.toml"


def lowered(
    config: LayerConfig, lowering: LowerMoePass, recompute: tuple[str, ...] = ()
) -> list[ProgramOp]:
    """The queue programs of both directions; lower-moe ends with a proof that they are right."""
    ctx, module = make_context(), layer_module(config)
    DeriveBackwardPass(recompute=recompute).apply(ctx, module)
    lowering.apply(ctx, module)
    return [op for op in module.ops if isinstance(op, ProgramOp)]


def order(program: ProgramOp, core: CoreKind) -> list[tuple[str, int]]:
    """The tasks of one kind of core, first those at the heads of the queues, and so on."""
    queues = orders_of(program)[core]
    slots, first = queues.slot_values, queues.first_slots
    place = np.arange(len(slots)) - np.repeat(first[:-1], np.diff(first))
    names = queues.family_names
    by_place = slots[np.argsort(place, kind="stable")].tolist()
    return [(names[slot >> POINT_BITS], slot & POINT_MASK) for slot in by_place]


def with_numbers(policy: type[Policy], draw: random.Random) -> Policy:
    """A policy with small numbers, or truth values, for its options."""
    values: dict[str, Any] = {
        name: draw.random() < 0.5 if kind is bool else draw.randrange(4)
        for name, (kind, _) in option_types(policy).items()
    }
    return policy(**values)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_orders_are_right_for_any_layer_and_tiling(seed: int, policy: str):
    draw = random.Random(seed)
    ranks = draw.choice([1, 2, 3, 4, 8])
    config = preset_layer("deepseek-v3-tiny").with_sizes(
        ranks=ranks,
        experts=ranks * draw.choice([1, 2, 5]),
        top_k=1,
        tokens=draw.choice([1, 33, 200]),
    )
    shares = draw.choice([0, 0, 3])
    lowering = LowerMoePass(
        source_groups=draw.choice([g for g in (1, 2, ranks) if ranks % g == 0]),
        row_chunks=draw.choice([1, 3]),
        put_rows=draw.choice([0, 16]),
        return_cols=draw.choice([0, 48]),
        vector_rows=draw.choice([0, 32]),
        matrix_shares=shares,
        task_cols=0 if shares else draw.choice([0, 48]),
        tile_m=16,
        tile_n=32,
        granularity=draw.choice(["part", "expert"]),
        elide=draw.choice([True, False]),
        policy=with_numbers(POLICIES[policy], draw),
        rotate=draw.choice([True, False]),
        rotate_sources=draw.choice([True, False]),
        vector_cores=draw.choice(["both", "one"]),
    )
    lowered(config, lowering, draw.choice([(), ("swiglu",), ("up",), ("dispatch", "up")]))


def small(policy: Policy, **options: object) -> list[ProgramOp]:
    config = preset_layer("deepseek-v3-tiny").with_sizes(ranks=4, experts=16, tokens=64)
    changed = {"machine": str(TWO_CORES), "tile_m": 16, "tile_n": 32, "task_cols": 32, **options}
    return lowered(config, LowerMoePass(policy=policy, **changed))  # pyright: ignore[reportArgumentType]


def stages_fall(program: ProgramOp) -> bool:
    """Whether a queue of the program goes back to an earlier stage."""
    stages = serial_stages(program)
    for queues in orders_of(program).values():
        numbers = np.array([stages.stage[n] for n in queues.family_names])
        stage = numbers[queues.slot_values >> POINT_BITS]
        if any((np.diff(stage[a:b]) < 0).any() for a, b in pairwise(queues.first_slots.tolist())):
            return True
    return False


def test_stages_of_serial_follow_each_other():
    """In every queue; those of another policy mix them."""
    assert not any(stages_fall(program) for program in small(Serial()))
    assert all(stages_fall(program) for program in small(DepthFirst()))


def test_stages_of_serial_that_communicate():
    forward, backward = (serial_stages(p) for p in small(Serial()))
    putting = {"exchange", "dispatch", "return"}
    for stages in (forward, backward):
        found = {f for f, number in stages.stage.items() if stages.communicates[number]}
        assert found == putting
    assert forward.stage["weighted_sum"] == forward.stage["save_recv"]
    names = ["dispatch", "matmul", "weight_gradient", "swiglu_grad", "matmul_1", "return"]
    numbers = [backward.stage[n] for n in names]
    assert numbers == sorted(set(numbers))


def test_waves_alternate_the_products():
    """All of the first product of two experts, all of the second, then the next two."""
    forward, backward = small(Waves(experts=2))
    families = families_of(forward)
    of_expert = families["matmul"].task_count // 4
    tasks = [(name, point // of_expert) for name, point in order(forward, CoreKind.AIC)]
    runs = [name for i, (name, _) in enumerate(tasks) if i == 0 or tasks[i - 1][0] != name]
    assert runs == ["matmul", "matmul_1", "matmul", "matmul_1"]
    first = [expert for name, expert in tasks if name == "matmul"]
    assert set(first[: 2 * of_expert]) == {0, 1}
    names = [name for name, _ in order(backward, CoreKind.AIC)]
    runs = [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]
    wave = ["matmul", "matmul_1", "weight_gradient", "weight_gradient_1"]
    assert runs == wave + wave


def test_arrival_takes_own_rows_first_and_columns_last():
    forward, _ = small(Arrival(), rotate_sources=True, source_groups=4, return_cols=32)
    families = families_of(forward)
    extents = families["matmul"].extents
    groups = [
        int(np.unravel_index(point, extents)[1])
        for name, point in order(forward, CoreKind.AIC)
        if name == "matmul"
    ]
    assert groups == sorted(groups)
    read = format_access(families["matmul"].read_accesses[0], families["matmul"].dim_names)
    assert "grouped(e, (rank + g * 3) mod 4 of 4)" in read
    for family, core in (("matmul_1", CoreKind.AIC), ("return", CoreKind.AIV)):
        extents = families[family].extents
        columns = [
            int(np.unravel_index(point, extents)[3])
            for name, point in order(forward, core)
            if name == family
        ]
        assert max(columns) > 1
        assert columns == sorted(columns)
    peers = [
        int(np.unravel_index(point, families["dispatch"].extents)[0])
        for name, point in order(forward, CoreKind.AIV)
        if name == "dispatch"
    ]
    assert peers == sorted(peers)


def places(program: ProgramOp, names: set[str]) -> float:
    """Mean place of the tasks of some families among those of the matrix cores."""
    return float(
        np.mean([i for i, (name, _) in enumerate(order(program, CoreKind.AIC)) if name in names])
    )


def overtaken(program: ProgramOp, names: set[str]) -> int:
    """Pairs of tasks of the matrix cores of which the second, but not the first, is in `names`."""
    late = np.array([name in names for name, _ in order(program, CoreKind.AIC)])
    return int(np.cumsum(~late)[late].sum())


def test_fill_puts_weight_gradients_where_nothing_else_is_ready():
    """Products come earlier than with depth-first; on few cores nearly all before the weight
    gradients, on many some core does a weight gradient between two products.
    """
    products = {"matmul", "matmul_1"}
    (_, before), (_, after) = small(DepthFirst()), small(Fill())
    assert places(after, products) < places(before, products)
    assert 4 * overtaken(after, products) < overtaken(before, products)
    _, many = small(Fill(), machine="ascend-a3")
    queues = orders_of(many)[CoreKind.AIC]
    numbers = queues.slot_values >> POINT_BITS
    falls = False
    for begin, end in pairwise(queues.first_slots.tolist()):
        names = [queues.family_names[n] for n in map(int, numbers[begin:end])]
        falls |= names != sorted(names, key=lambda name: name not in products)
    assert falls


def test_list_takes_what_is_far_from_the_end_first():
    """Without waiting, the first product of all experts goes before the second of any."""
    forward, backward = small(ListOrder())
    assert places(forward, {"matmul"}) < places(forward, {"matmul_1"})
    assert places(backward, {"matmul_1"}) < places(backward, {"weight_gradient_1"})
