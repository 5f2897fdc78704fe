"""Changes of buffers: their sizes, spaces, places and copies."""

from __future__ import annotations

import random

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    i64,
)
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from adversary.event_changes import insert_before, pack_lines, remove
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.queue import (
    EventOp,
    ProgramOp,
    events_of,
)
from hpmoe_ir.dialects.tile import (
    BufferOp,
    MemorySpace,
    buffer_bytes,
    buffers_of,
    families_of,
)
from hpmoe_ir.dialects.tile.types import BufferType, IndexAttr

ROUTING_KERNELS = frozenset({"count_tokens", "exchange_counts", "place_tokens", "build_route"})
"""Kernels whose values the judge takes for granted: what they read and write stays."""


def fewer_rows(program: ProgramOp, chance: random.Random) -> bool:
    """A buffer has fewer rows, or more, than what is written there."""
    fixed = {
        a.buffer
        for f in families_of(program).values()
        if f.kernel.data in ROUTING_KERNELS
        for a in (*f.read_accesses, *f.write_accesses)
    }
    choice = [
        b
        for n, b in buffers_of(program).items()
        if isinstance(b.type, BufferType) and (n not in fixed or b.type.rows.data == "sent")
    ]
    if not choice:
        return False
    buffer = chance.choice(choice)
    assert isinstance(buffer.type, BufferType)
    dims = list(buffer.type.dims)
    dims[0] = max(1, dims[0] + chance.choice((-1, -1, -2, -dims[0] // 2, 1)))
    buffer.type = BufferType(dims, buffer.type.element_type, buffer.type.rows.data)
    return True


def other_space(program: ProgramOp, chance: random.Random) -> bool:
    """A buffer of the workspace is a window, or the other way round."""
    put = {
        a.buffer
        for f in families_of(program).values()
        for a in f.write_accesses
        if a.peer is not None
    }
    choice = [
        b
        for n, b in buffers_of(program).items()
        if b.offset is not None and n not in put and isinstance(b.type, BufferType)
    ]
    if not choice:
        return False
    old = chance.choice(choice)
    space = MemorySpace.WORKSPACE
    if old.space.data is MemorySpace.WORKSPACE:
        space = MemorySpace.WINDOW
    ends = [
        b.offset.value.data + buffer_bytes(b)
        for b in buffers_of(program).values()
        if b.space.data is space and b.offset is not None
    ]
    offset = max(ends, default=0) if chance.random() < 0.9 else 0
    new = BufferOp(old.sym_name.data, space, old.content, old.copies.value.data, offset)
    insert_before(new, old)
    remove(old)
    move_counters(program)
    return True


def move_counters(program: ProgramOp) -> None:
    """Puts the counters behind the windows."""
    ends = [
        b.offset.value.data + buffer_bytes(b)
        for b in buffers_of(program).values()
        if b.space.data is MemorySpace.WINDOW and b.offset is not None
    ]
    program.counters = IntegerAttr(-(-max(ends, default=0) // 64) * 64, i64)


def copies(program: ProgramOp, chance: random.Random) -> bool:
    """A window or an event has one copy instead of two, or two instead of one."""
    windows = [b for b in buffers_of(program).values() if b.offset is not None]
    events = list(events_of(program).values())
    choice: list[BufferOp | EventOp] = [*windows, *events]
    if not choice:
        return False
    op = chance.choice(choice)
    if isinstance(op, EventOp):
        op.copies = IntegerAttr(2, i64) if op.copies is None else None
        pack_lines(program)
        return True
    op.copies = IntegerAttr(3 - op.copies.value.data, i64)
    if op.copies.value.data == 2 and chance.random() < 0.8:
        space = op.space.data
        ends = [
            b.offset.value.data + buffer_bytes(b)
            for b in buffers_of(program).values()
            if b.space.data is space and b.offset is not None and b is not op
        ]
        op.offset = IntegerAttr(max(ends, default=0), i64)
        move_counters(program)
    return True


def window_behind(program: ProgramOp, chance: random.Random) -> bool:
    """A window, or all of them, come behind the counters, near or far."""
    lines = sum(e.line_count for e in events_of(program).values())
    windows = [b for b in buffers_of(program).values() if b.space.data is MemorySpace.WINDOW]
    if not windows or program.counters is None:
        return False
    begin = program.counters.value.data + 64 * max(0, lines + chance.choice((-1, 0, 0, 3, 6, 8)))
    chance.choice(windows).offset = IntegerAttr(begin, i64)
    if chance.random() < 0.6:
        program.properties["budget"] = IntegerAttr(1000000, i64)
    return True


def _most_rows(program: ProgramOp) -> int:
    """The most rows that a rank can receive under any routing."""
    types = (b.type for b in buffers_of(program).values())
    return next(t.lossless_rows for t in types if isinstance(t, RouteType))


def other_capacity(program: ProgramOp, chance: random.Random) -> bool:
    """The task that builds the route lets more rows pass, or fewer."""
    for family in families_of(program).values():
        if family.kernel.data == "build_route":
            rank, capacity = (s.data for s in family.scalars)
            assert isinstance(capacity, AffineConstantExpr)
            rows = max(1, capacity.value + chance.choice((-1, -2, 1, 2, 8, -capacity.value // 2)))
            rows = min(rows, _most_rows(program))
            if rows == capacity.value:
                return False
            family.scalars = ArrayAttr([IndexAttr(rank), IndexAttr(AffineExpr.constant(rows))])
            return True
    return False


def other_place(program: ProgramOp, chance: random.Random) -> bool:
    """A family comes earlier or later in the text, while the queues stay."""
    families = list(families_of(program).values())
    if len(families) < 2:
        return False
    at = chance.randrange(len(families) - 1)
    op = families[at + 1]
    op.detach()
    insert_before(op, families[at])
    return True


def alias(program: ProgramOp, chance: random.Random) -> bool:
    """A buffer begins at the bytes of another one of its space."""
    placed = [b for b in buffers_of(program).values() if b.offset is not None]
    pairs = [(a, b) for a in placed for b in placed if a is not b and a.space == b.space]
    if not pairs:
        return False
    moved, onto = chance.choice(pairs)
    assert onto.offset is not None
    inside = chance.choice((0, 0, 64 * chance.randrange(max(1, buffer_bytes(onto) // 64))))
    moved.offset = IntegerAttr(onto.offset.value.data + inside, i64)
    return True
