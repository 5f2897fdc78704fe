"""Policy `overlap`: which cores put rows into other ranks, and which begin a shared product."""

from __future__ import annotations

from itertools import pairwise, product

from hpmoe_ir.dialects.queue import POINT_BITS, POINT_MASK
from hpmoe_ir.driver.compiler import compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.passes.policies.overlap import Overlap
from hpmoe_ir.passes.policies.policy import Policy

LAYER = preset_layer("deepseek-v3-tiny").with_sizes(ranks=4, tokens=64)
EXPERTS = LAYER.local_experts


def queues(
    core: CoreKind, source_groups: int, matrix_shares: int, policy: Policy = Overlap()
) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Family and grid point of the tasks of each core."""
    lowering = LowerMoePass(policy=policy, source_groups=source_groups, matrix_shares=matrix_shares)
    compiled = compile_module(make_context(), layer_module(LAYER), lowering)
    program = compiled.forward.program
    order = program.orders[core]
    points: dict[str, list[tuple[int, ...]]] = {
        name: list(product(*map(range, f.extents))) for name, f in program.families.items()
    }
    found: list[list[tuple[str, tuple[int, ...]]]] = []
    for begin, end in pairwise(order.first_slots.tolist()):
        tasks: list[tuple[str, tuple[int, ...]]] = []
        for slot in order.slot_values[begin:end].tolist():
            name = order.family_names[int(slot) >> POINT_BITS]
            tasks.append((name, points[name][int(slot) & POINT_MASK]))
        found.append(tasks)
    return found


def test_a_core_that_puts_to_another_rank_puts_to_one_and_does_nothing_else_meanwhile():
    """Three other ranks, and 15 cores fill the link: five cores for each."""
    cores_of_peer: dict[int, int] = {}
    for queue in queues(CoreKind.AIV, 4, 0):
        away = [i for i, (name, point) in enumerate(queue) if name == "dispatch" and point[0]]
        if not away:
            continue
        peers = {queue[i][1][0] for i in away}
        assert len(peers) == 1
        between = queue[away[0] : away[-1] + 1]
        assert {name for name, _ in between} == {"dispatch"}
        experts = [point[1] for _, point in between if point[0]]
        assert experts == sorted(experts)
        (peer,) = peers
        cores_of_peer[peer] = cores_of_peer.get(peer, 0) + 1
    assert cores_of_peer == {1: 5, 2: 5, 3: 5}


def test_shared_products_begin_with_another_core_each_time():
    """The first of 24 tasks may have a block more than the last: dealt in turn, always one core."""

    def most(policy: Policy) -> int:
        firsts = [
            sum(name == "matmul" and point[-1] == 0 for name, point in queue)
            for queue in queues(CoreKind.AIC, 1, 24, policy)
        ]
        assert sum(firsts) == EXPERTS
        return max(firsts)

    assert most(OperatorOrder()) == EXPERTS
    assert most(Overlap()) <= EXPERTS // 3
