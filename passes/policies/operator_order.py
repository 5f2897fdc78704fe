"""Policy `operator-order`: one operator after the other, as frameworks run them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput


@dataclass(frozen=True)
class OperatorOrder(Policy):
    """Family after family, in program order; for tests and as a plain reference."""

    name = "operator-order"

    def __call__(self, work: SchedulingInput) -> Order:
        return Order(
            [
                np.stack([np.full(f.task_count, i), np.arange(f.task_count)], axis=1)
                for i, f in enumerate(work.families)
            ]
        )
