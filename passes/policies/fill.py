"""Policy `fill`: weight gradients fill the idle time of the matrix cores.

The idea is Lancet's (Jiang and others, MLSys 2024, arXiv 2404.19429): nothing in the layer waits
for a weight gradient, so it is scheduled where communication leaves the matrix cores idle. Lancet
moves whole operators, by estimated times; this policy moves single tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.passes.analysis.task_roles import is_weight_gradient
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.list_order import priorities
from hpmoe_ir.passes.policies.policy import LookAheadPolicy
from hpmoe_ir.passes.scheduling.list_schedule import Times, list_schedule
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput
from hpmoe_ir.passes.scheduling.task_graph import task_graph


@dataclass(frozen=True)
class Fill(LookAheadPolicy):
    """`depth-first`, but a matrix core takes a weight gradient only if nothing else is ready.

    The two weight gradients of an expert are adjacent, expert by expert. Ready times are simulated
    as for `list`.
    """

    name = "fill"

    def __call__(self, work: SchedulingInput) -> Order:
        graph = task_graph(work.families, work.dependences, work.ranks)
        keys = DepthFirst(self.ahead)(work).keys
        if not keys:
            return Order(keys)
        late = np.concatenate(
            [np.full(f.task_count, is_weight_gradient(f), dtype=np.int64) for f in work.families]
        )
        by = [late, *np.concatenate(keys).T]
        return list_schedule(work, graph, Times.of(work), priorities(work, by))
