"""The policies of `assign-queues` by name."""

from __future__ import annotations

from hpmoe_ir.passes.policies.arrival import arrival
from hpmoe_ir.passes.policies.depth_first import depth_first
from hpmoe_ir.passes.policies.fill import fill
from hpmoe_ir.passes.policies.list_order import list_order
from hpmoe_ir.passes.policies.operator_order import operator_order
from hpmoe_ir.passes.policies.overlap import overlap
from hpmoe_ir.passes.policies.published import published
from hpmoe_ir.passes.policies.serial import serial
from hpmoe_ir.passes.policies.waves import waves
from hpmoe_ir.passes.scheduling.order import Policy

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
