"""Mutants of the queues: tasks in another place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.queue import POINT_BITS, POINT_MASK, OrderOp, ProgramOp, orders_of
from hpmoe_ir.dialects.tile.types import dense_i32
from hpmoe_ir.machines.core_kind import CoreKind
from mutants.mutant import Change


def _queues(order: OrderOp) -> list[list[int]]:
    slots = order.slot_values.tolist()
    return [slots[a:b] for a, b in pairwise(order.first_slots.tolist())]


def _set_queues(order: OrderOp, queues: list[list[int]]) -> None:
    slots: IntArray = np.array([s for q in queues for s in q], dtype=np.int64)
    order.slots = dense_i32(np.where(slots < 1 << 31, slots, slots - (1 << 32)))
    order.first = dense_i32(np.cumsum([0, *(len(q) for q in queues)]))


def _task(order: OrderOp, slot: int) -> str:
    return f"@{order.family_names[slot >> POINT_BITS]}[{slot & POINT_MASK}]"


def _change(core: CoreKind, what: str, queues: list[list[int]]) -> Change:
    return Change(what, lambda p: _set_queues(orders_of(p)[core], queues))


def swap_tasks(program: ProgramOp) -> Iterator[Change]:
    """Two tasks of a core are swapped: neighbours, or two apart."""
    for core, order in orders_of(program).items():
        for number, queue in enumerate(_queues(order)):
            for step in (1, 2, 5):
                for at in range(len(queue) - step):
                    queues = _queues(order)
                    q = queues[number]
                    q[at], q[at + step] = q[at + step], q[at]
                    one, two = _task(order, queue[at]), _task(order, queue[at + step])
                    yield _change(core, f"{one} and {two} on {core} {number}", queues)


def move_task(program: ProgramOp) -> Iterator[Change]:
    """A task moves to the next core: to the same slot of its queue, its front or its end."""
    for core, order in orders_of(program).items():
        for number, queue in enumerate(_queues(order)):
            for at, slot in enumerate(queue):
                to = (number + 1) % order.core_count
                for where, place in (("", at), (", first", 0), (", last", 1 << 30)):
                    queues = _queues(order)
                    queues[number].pop(at)
                    queues[to].insert(place, slot)
                    what = f"{_task(order, slot)} from {core} {number} to {to}{where}"
                    yield _change(core, what, queues)


def repeat_task(program: ProgramOp) -> Iterator[Change]:
    """A task is twice in its queue, in place of its neighbour."""
    for core, order in orders_of(program).items():
        for number, queue in enumerate(_queues(order)):
            for at in range(len(queue) - 1):
                queues = _queues(order)
                queues[number][at + 1] = queue[at]
                yield _change(core, f"{_task(order, queue[at])} on {core} {number}", queues)


def more_cores(program: ProgramOp) -> Iterator[Change]:
    """An order is for one core more, or one fewer, than the machine has."""
    for core, order in orders_of(program).items():
        queues = _queues(order)
        yield _change(core, f"one {core} core more", [*queues, []])
        joined = [*queues[:-2], [*queues[-2], *queues[-1]]]
        yield _change(core, f"one {core} core fewer", joined)
