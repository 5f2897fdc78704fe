"""Makes a program smaller as long as it stays wrong in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hpmoe_ir.dialects.queue import (
    POINT_BITS,
    POINT_MASK,
    EventOp,
    OrderOp,
    ProgramOp,
    SignalOp,
    WaitOp,
    events_of,
    orders_of,
    signals_of,
    waits_of,
)
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, TasksOp, buffers_of, families_of


def reduced(module: ModuleOp, is_wrong: Callable[[ModuleOp], bool]) -> ModuleOp:
    """Returns a program without what can be left out, one op or family after the other.

    `is_wrong` is asked about each attempt, which need not verify.
    """
    again = True
    while again:
        again = False
        for at in reversed(range(len(_removable(module)))):
            attempt = module.clone()
            ops = _removable(attempt)
            if at >= len(ops):
                continue  # others went with an op
            _remove(_program(attempt), ops[at])
            if is_wrong(attempt):
                module, again = attempt, True
    return module


def _program(module: ModuleOp) -> ProgramOp:
    (program,) = module.ops
    assert isinstance(program, ProgramOp)
    return program


def _removable(module: ModuleOp) -> list[Operation]:
    kinds = (BufferOp, TasksOp, EventOp, WaitOp, SignalOp)
    return [op for op in _program(module).body.block.ops if isinstance(op, kinds)]


def _remove(program: ProgramOp, op: Operation) -> None:
    """Removes an op with all that names it.

    Outputs that no task writes and events that no task signals go, too.
    """
    _erase(program, op)
    written = {a.buffer for f in families_of(program).values() for a in f.write_accesses}
    for name, buffer in buffers_of(program).items():
        if buffer.space.data is MemorySpace.OUTPUT and name not in written:
            _erase(program, buffer)
    signalled = {s.event_name for s in signals_of(program)}
    unused = [event for name, event in events_of(program).items() if name not in signalled]
    for event in unused:
        _erase(program, event)


def _erase(program: ProgramOp, op: Operation) -> None:
    gone = [op, *_users(program, op)]
    for other in gone:
        other.detach()
        other.erase()


def _users(program: ProgramOp, op: Operation) -> Iterator[Operation]:
    uses = (*waits_of(program), *signals_of(program))
    match op:
        case TasksOp():
            name = op.sym_name.data
            _drop_from_orders(program, name)
            yield from (u for u in uses if u.family_name == name)
        case EventOp():
            yield from (u for u in uses if u.event_name == op.sym_name.data)
        case _:
            return


def _drop_from_orders(program: ProgramOp, family: str) -> None:
    for order in orders_of(program).values():
        names = order.family_names
        left = [n for n in names if n != family]
        slots: list[int] = order.slot_values.tolist()
        queues = [
            [
                (left.index(names[s >> POINT_BITS]) << POINT_BITS) + (s & POINT_MASK)
                for s in slots[a:b]
                if names[s >> POINT_BITS] != family
            ]
            for a, b in pairwise(order.first_slots.tolist())
        ]
        first = np.cumsum([0, *map(len, queues)])
        flat = np.array([s for q in queues for s in q], dtype=np.int64)
        new = OrderOp(order.core_kind, left, first, flat)
        order.families, order.first, order.slots = new.families, new.first, new.slots
