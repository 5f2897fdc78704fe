"""Checks of the queues of a whole program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.queue.order import POINT_BITS, POINT_MASK, OrderOp
from hpmoe_ir.dialects.tile.tasks import TasksOp
from hpmoe_ir.machines.machine import Machine


def verify_queues_cover(
    orders: Sequence[OrderOp], families: dict[str, TasksOp], machine: Machine
) -> None:
    """Checks that each task of each family is in exactly one queue, of a core of its kind.

    A program without any `queue.order` is accepted: it is incomplete, or its tasks are expanded.
    Raises VerifyException naming the task, or the core kind whose orders are wrong.
    """
    if not orders:
        return
    seen: set[str] = set()
    for order in orders:
        core = order.core_kind
        if core in seen:
            raise VerifyException(f"two orders for the {core} cores")
        seen.add(core)
        if order.core_count != machine.cores(core):
            raise VerifyException(
                f"machine '{machine.name}' has {machine.cores(core)} {core} cores, the order "
                f"has {order.core_count}"
            )
    for order in orders:
        core = order.core_kind
        slots = order.slot_values
        for number, name in enumerate(order.family_names):
            family = families.get(name)
            if family is None:
                raise VerifyException(
                    f"the order of the {core} cores names @{name}: no such family"
                )
            if family.core_kind is not core:
                raise VerifyException(
                    f"@{name} runs on {family.core_kind}, found in the order of the {core} cores"
                )
            points = slots[slots >> POINT_BITS == number] & POINT_MASK
            if points.size and points.max() >= family.task_count:
                raise VerifyException(
                    f"task {int(points.max())} of @{name} does not exist, it has "
                    f"{family.task_count}"
                )
            times = np.bincount(points, minlength=family.task_count)
            wrong = np.flatnonzero(times != 1)
            if wrong.size:
                raise VerifyException(
                    f"task {int(wrong[0])} of @{name} must be in one queue once, found "
                    f"{int(times[wrong[0]])} times"
                )
    placed = {name for order in orders for name in order.family_names}
    missing = [name for name in families if name not in placed]
    if missing:
        raise VerifyException(f"no queue has the tasks of @{missing[0]}")
