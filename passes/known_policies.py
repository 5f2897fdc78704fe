"""The policies of `assign-queues` by name."""

from __future__ import annotations

from hpmoe_ir.passes.order_arrival import arrival
from hpmoe_ir.passes.order_depth_first import depth_first
from hpmoe_ir.passes.order_fill import fill
from hpmoe_ir.passes.order_list import list_order
from hpmoe_ir.passes.order_operator import operator_order
from hpmoe_ir.passes.order_overlap import overlap
from hpmoe_ir.passes.order_policy import Policy
from hpmoe_ir.passes.order_published import published
from hpmoe_ir.passes.order_serial import serial
from hpmoe_ir.passes.order_waves import waves

POLICIES: dict[str, Policy] = {
    "arrival": arrival,
    "depth-first": depth_first,
    "fill": fill,
    "list": list_order,
    "operator-order": operator_order,
    "overlap": overlap,
    "published": published,
    "serial": serial,
    "waves": waves,
}
