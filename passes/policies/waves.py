"""Policy `waves`: waves of experts, with both matmuls of a wave before the next wave.

The idea is that of DeepGEMM's Mega MoE, a fused GPU kernel whose scheduler issues all blocks of the
first matmul of some experts, then all blocks of the second matmul of the same experts, before the
next experts: the inputs of the second matmul are then still in L2, while dispatch runs ahead. Mega
MoE has the forward direction only and does SwiGLU and combine in the epilogues of the matmuls; the
vector queues and the weight gradients at the end of each wave are this project's additions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.options.options import Range
from hpmoe_ir.passes.analysis.task_roles import (
    FamilyGraph,
    Segment,
    expert_of,
    expert_places,
    is_dispatch,
    is_weight_gradient,
)
from hpmoe_ir.passes.policies.policy import LookAheadPolicy
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput

TASKS_OF_A_WAVE = 2
"""Target size of a wave where `experts` is 0, in tasks of one matmul per matrix core."""


@dataclass(frozen=True)
class Waves(LookAheadPolicy):
    """Wave after wave of `experts` experts: matmuls in graph order, then weight gradients.

    With `experts=0` a wave has as many experts as give each matrix core two tasks of the matmul
    with the fewest tasks. Dispatch puts are issued one wave early, or more for a larger `ahead`.
    """

    name = "waves"

    experts: Annotated[int, Range(0, unit="experts")] = 0
    """Experts of a wave; 0: as many as give each AIC two tasks of a matmul."""

    def __call__(self, work: SchedulingInput) -> Order:
        graph = FamilyGraph.of_dependences(work.families, work.dependences)
        segments, depths = graph.segments(), graph.depths()
        size = self.experts or _wave_size(work)
        early = max(1, ceil_div(self.ahead, size))
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

    @classmethod
    def search_space(cls) -> Mapping[str, Sequence[object]]:
        return {**super().search_space(), "experts": (0, 1, 2, 4, 8)}


def _wave_size(work: SchedulingInput) -> int:
    """Returns the number of experts that gives each AIC `TASKS_OF_A_WAVE` tasks of a matmul."""
    products = [
        (f.task_count, int(expert.max()) + 1)
        for f in work.families
        if f.core_kind is CoreKind.AIC and not is_weight_gradient(f)
        for expert in (expert_of(f),)
        if expert is not None
    ]
    if not products:
        return 1
    tasks, experts = min(products)
    wanted = TASKS_OF_A_WAVE * work.cores[CoreKind.AIC]
    return max(1, min(experts, ceil_div(wanted * experts, tasks)))
