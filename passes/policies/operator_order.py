"""Policy `operator-order`: one operator after the other, as frameworks run them."""

from __future__ import annotations

import numpy as np

from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput


def operator_order(work: SchedulingInput) -> Order:
    """Family after family, in the order of the program."""
    return Order(
        [
            np.stack([np.full(f.task_count, i), np.arange(f.task_count)], axis=1)
            for i, f in enumerate(work.families)
        ]
    )
