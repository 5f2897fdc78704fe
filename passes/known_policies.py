"""The policies of `assign-queues` by name."""

from __future__ import annotations

from hpmoe_ir.passes.order_depth_first import depth_first
from hpmoe_ir.passes.order_operator import operator_order
from hpmoe_ir.passes.order_policy import Policy
from hpmoe_ir.passes.order_published import published

POLICIES: dict[str, Policy] = {
    "depth-first": depth_first,
    "operator-order": operator_order,
    "published": published,
}
