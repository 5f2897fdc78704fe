"""Policy `waves`: waves of experts, the matrix products alternating within each.

The idea is that of DeepGEMM's Mega MoE, a fused kernel for another chip whose scheduler issues all
blocks of the first product of some experts, then all blocks of the second product of the same
experts, and goes on to the next experts: what the second product reads is then still in L2, while
dispatch runs ahead. It has one direction and does SwiGLU and combine in the epilogues of the
products; that weight gradients come last in a wave, and the vector queues, are this project's.
"""

from __future__ import annotations

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.passes.analysis.task_roles import (
    FamilyGraph,
    Segment,
    expert_of,
    expert_places,
    is_dispatch,
    is_weight_gradient,
)
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput

TASKS_OF_A_WAVE = 2
"""Tasks of the first product that a wave should have for each matrix core."""


def waves(work: SchedulingInput) -> Order:
    """Wave after wave of `wave` experts: products in the order of the graph, then gradients.

    With `wave=0` a wave has as many experts as give each matrix core two tasks of the product with
    fewest tasks. Puts to the experts are a wave early, or more where `ahead` says so.
    """
    graph = FamilyGraph.of_dependences(work.families, work.dependences)
    segments, depths = graph.segments(), graph.depths()
    size = work.wave or _wave_size(work)
    early = max(1, ceil_div(work.ahead, size))
    keys: list[IntArray] = []
    for i, family in enumerate(work.families):
        expert = expert_of(family) if segments[i] is Segment.LAYER else None
        wave: IntArray | int = 0
        if expert is not None:
            wave = expert // size - (early if is_dispatch(family) else 0)
        columns = [
            segments[i],
            wave,
            int(is_weight_gradient(family)),
            depths[i],
            i,
            expert_places(family, expert),
        ]
        keys.append(np.stack(np.broadcast_arrays(*columns), axis=1).astype(np.int64))
    return Order(keys)


def _wave_size(work: SchedulingInput) -> int:
    """Experts whose products keep all matrix cores busy."""
    products = [
        (f.task_count, int(expert.max()) + 1)
        for f in work.families
        if f.core.data == "aic" and not is_weight_gradient(f)
        for expert in (expert_of(f),)
        if expert is not None
    ]
    if not products:
        return 1
    tasks, experts = min(products)
    wanted = TASKS_OF_A_WAVE * work.cores["aic"]
    return max(1, min(experts, ceil_div(wanted * experts, tasks)))
