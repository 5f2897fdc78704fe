"""Policy `published`: the static order of HyperParallel-MoE (arXiv 2605.23764).

Derived from the public implementation of that system; the order is re-created, no code is copied.
Other parts of that system's schedule are options of other passes, see docs/schedules.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.analysis.task_roles import (
    FamilyGraph,
    expert_of,
    expert_places,
    is_dispatch,
    is_weight_gradient,
)
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput


@dataclass(frozen=True)
class Published(Policy):
    """Operator after operator on each kind of core, assigned to the cores round robin.

    Puts go expert by expert, part by part, then peer by peer starting with this rank (with
    `rotate`): the system's rank-aware destination order. Matmuls and weight gradients that consume
    dispatched rows alternate expert by expert, the weight gradient first: the system's backward
    interleave. All other matmuls and gradients follow operator by operator.

    Work that the system does outside of its kernel comes first (building the route) and last
    (summing or saving rows); the assignment restarts with the first core for each of the three.
    """

    name = "published"

    def __call__(self, work: SchedulingInput) -> Order:
        families = work.families
        graph = FamilyGraph.of_dependences(families, work.dependences)
        depths, segments = graph.depths(), graph.segments()
        dispatches = {i for i, f in enumerate(families) if is_dispatch(f)}
        keys: list[IntArray] = []
        for i, family in enumerate(families):
            first_product = family.core_kind is CoreKind.AIC and bool(graph.before[i] & dispatches)
            expert = expert_of(family)
            if first_product and expert is not None:
                # Families of one depth share this key, so that their tasks interleave by expert.
                turn = [-1, expert, int(not is_weight_gradient(family)), i]
            else:
                turn = [i, 0, 0, 0]
            columns = [segments[i], depths[i], *turn, expert_places(family, expert)]
            keys.append(np.stack(np.broadcast_arrays(*columns), axis=1).astype(np.int64))
        return Order(keys, segments=True)
