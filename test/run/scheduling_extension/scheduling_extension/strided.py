"""Policy `strided`: each stride-th expert, then the ones after these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from hpmoe_ir.options.options import Range
from hpmoe_ir.passes.analysis.task_roles import FamilyGraph, expert_of
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.scheduling.order import Keys, Order, SchedulingInput


@dataclass(frozen=True)
class Strided(Policy):
    """Family after family by depth, in each the experts 0, n, 2n and so on, then 1, n + 1."""

    name = "strided"

    stride: Annotated[int, Range(1, 64, "experts")] = 2
    """Experts from one to the next."""

    def __call__(self, work: SchedulingInput) -> Order:
        depths = FamilyGraph.of_dependences(work.families, work.dependences).depths()
        keys: Keys = []
        for i, family in enumerate(work.families):
            points = np.arange(family.task_count)
            expert = expert_of(family)
            turns = (0, 0) if expert is None else (expert % self.stride, expert // self.stride)
            columns = [depths[i], i, *turns, points]
            keys.append(np.stack(np.broadcast_arrays(*columns), axis=1).astype(np.int64))
        return Order(keys)
