"""Policy `published`: the static order of HyperParallel-MoE (arXiv 2605.23764).

Read from the public implementation of that system; the order is a re-creation, no code is copied.
The other parts of that system's schedule are options of other passes, see docs/schedules.md.
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
    """Operator after operator on each kind of core, dealt to the cores in turn.

    Puts go expert by expert, part by part, then peer by peer beginning with the own rank (with
    `rotate`): its rank-aware destination order. The products and weight gradients that take what
    dispatch brings alternate expert by expert, the weight gradient first: its backward interleave.
    All other products and gradients follow operator by operator.

    What that system does outside of its kernel, building the route before and adding up or saving
    rows after, comes before all and after all; dealing begins with the first core for each.
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
                # Families of one depth share a place, so that their tasks mix by expert.
                turn = [-1, expert, int(not is_weight_gradient(family)), i]
            else:
                turn = [i, 0, 0, 0]
            columns = [segments[i], depths[i], *turn, expert_places(family, expert)]
            keys.append(np.stack(np.broadcast_arrays(*columns), axis=1).astype(np.int64))
        return Order(keys, segments=True)
