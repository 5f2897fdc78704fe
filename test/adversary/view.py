"""A queue program as plain lists: tasks, buffers, events, queues. The judge reads nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from math import gcd, prod

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir.affine import AffineExpr

from adversary.routings import Span
from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    GroupedRows,
    IndexSelector,
    Selector,
    SentRows,
    TokenRows,
)
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.queue import (
    POINT_BITS,
    POINT_MASK,
    EventOp,
    OrderOp,
    ProgramOp,
    SignalOp,
    WaitOp,
)
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, TasksOp
from hpmoe_ir.dialects.tile.types import BufferType

LINE = 64
"""Bytes of a cache line."""


def _lines(words: int) -> int:
    return -(-words // 16) * 16


@dataclass(frozen=True)
class Buffer:
    """A buffer, in bytes."""

    name: str
    space: MemorySpace
    rows: str
    """Kind of its rows, empty where they are static."""
    dims: tuple[int, ...]
    element: int
    """Bytes of an element."""
    copies: int
    offset: int | None
    route: RouteType | None

    @property
    def copy_bytes(self) -> int:
        """From one copy to the next."""
        return -(-prod(self.dims) * self.element // LINE) * LINE

    @property
    def end(self) -> int:
        """One past the last byte of the last copy."""
        assert self.offset is not None
        return self.offset + self.copies * self.copy_bytes


@dataclass(frozen=True)
class Family:
    """A family of tasks."""

    number: int
    name: str
    kernel: str
    options: dict[str, int]
    points: list[tuple[int, ...]]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    route: str | None
    scalars: tuple[AffineExpr, ...]
    core: str


@dataclass(frozen=True)
class Event:
    """A family of events."""

    name: str
    extents: tuple[int, ...]
    thresholds: list[int]
    copies: int
    line: int
    """Line of the first counter."""

    @property
    def count(self) -> int:
        """Number of events."""
        return prod(self.extents)

    @property
    def lines(self) -> int:
        """Number of counters."""
        return self.count * self.copies


@dataclass(frozen=True)
class Use:
    """A wait or a signal of a family."""

    family: str
    event: str
    index: tuple[AffineExpr, ...]
    peer: AffineExpr | None = None
    credit: str | None = None


@dataclass(frozen=True)
class View:
    """A whole program."""

    ranks: int
    buffers: dict[str, Buffer]
    families: dict[str, Family]
    events: dict[str, Event]
    waits: list[Use]
    signals: list[Use]
    queues: list[list[tuple[str, int]]]
    """Of each core: family and point of each task."""
    counters: int
    """Byte offset of the counters in the windows."""
    given_up: int
    """Lines behind the counters in which cores report a wait that was given up."""

    @property
    def copied(self) -> bool:
        """Whether launches alternate between two copies of something."""
        return any(b.copies > 1 for b in self.buffers.values()) or any(
            e.copies > 1 for e in self.events.values()
        )

    @property
    def end_line(self) -> int:
        """Number of lines from the first counter to behind the last."""
        return max((e.line + e.lines for e in self.events.values()), default=0)

    @cached_property
    def granule(self) -> int:
        """A number of bytes that divides the bounds of every access."""
        return _granule_of(self)


def value(expr: AffineExpr, point: tuple[int, ...], rank: int) -> int:
    """Returns the value of an index expression."""
    return expr.eval(point, (rank,))


def view_of(program: ProgramOp) -> View:
    """Reads a program whose memory and events are placed."""
    buffers: dict[str, Buffer] = {}
    families: dict[str, Family] = {}
    events: dict[str, Event] = {}
    waits: list[Use] = []
    signals: list[Use] = []
    queues: list[list[tuple[str, int]]] = []
    free = 0
    for op in program.body.block.ops:
        match op:
            case BufferOp():
                buffers[op.sym_name.data] = _buffer(op)
            case TasksOp():
                name = op.sym_name.data
                families[name] = Family(
                    len(families),
                    name,
                    op.kernel.data.removeprefix("cann_like_"),
                    op.int_options,
                    list(product(*map(range, op.extents))),
                    op.read_accesses,
                    op.write_accesses,
                    None if op.route is None else op.route.root_reference.data,
                    tuple(s.data for s in op.scalars),
                    op.core.data,
                )
            case EventOp():
                counts = list(op.counts.get_values())
                if len(counts) == 1:
                    counts *= prod(op.extents)
                line = free if op.line is None else op.line.value.data
                copies = 1 if op.copies is None else op.copies.value.data
                events[op.sym_name.data] = Event(op.sym_name.data, op.extents, counts, copies, line)
                free = line + events[op.sym_name.data].lines
            case WaitOp():
                waits.append(Use(op.family_name, op.event_name, op.index_exprs))
            case SignalOp():
                signals.append(
                    Use(op.family_name, op.event_name, op.index_exprs, op.peer_expr, op.credit_name)
                )
            case OrderOp():
                names, slots = op.family_names, op.slot_values.tolist()
                bounds = op.first_slots.tolist()
                for begin, end in pairwise(bounds):
                    queues.append(
                        [(names[s >> POINT_BITS], s & POINT_MASK) for s in slots[begin:end]]
                    )
            case _:
                pass
    cores = len(queues)
    return View(
        program.ranks.value.data,
        buffers,
        families,
        events,
        waits,
        signals,
        queues,
        0 if program.counters is None else program.counters.value.data,
        cores if program.ticks("budget") else 0,
    )


def _buffer(op: BufferOp) -> Buffer:
    offset = None if op.offset is None else op.offset.value.data
    space, copies = op.space.data, op.copies.value.data
    if isinstance(op.type, RouteType):
        experts, ranks = op.type.experts.data, op.type.ranks.data
        local = experts // ranks
        words = 16 + _lines(experts + 1) + _lines(experts)
        words += _lines(local * ranks + 1) + _lines(local * ranks)
        return Buffer(op.sym_name.data, space, "", (words,), 4, copies, offset, op.type)
    assert isinstance(op.type, BufferType)
    assert isinstance(op.type.element_type, FixedBitwidthType)
    element = op.type.element_type.size
    return Buffer(
        op.sym_name.data, space, op.type.rows.data, op.type.dims, element, copies, offset, None
    )


def _granule_of(view: View) -> int:
    found = LINE
    for buffer in view.buffers.values():
        run = buffer.dims[-1] if len(buffer.dims) > 1 else 1
        found = gcd(found, run * buffer.element)
    for family in view.families.values():
        for access in (*family.reads, *family.writes):
            buffer = view.buffers[access.buffer]
            found = gcd(found, _step(access.selectors[-1:], buffer) * buffer.element)
        if family.kernel.endswith("_share"):
            found = gcd(found, family.options["tile_n"] * 2)
        if "scaled" in family.kernel:
            found = gcd(found, 4)
    return found


def _step(last: tuple[Selector, ...], buffer: Buffer) -> int:
    match last:
        case (BlockSelector(size=size),):
            return gcd(size, buffer.dims[-1])
        case (IndexSelector() | TokenRows() | GroupedRows() | SentRows(),):
            return 1
        case _:
            return buffer.dims[-1]


def span_text(span: Span) -> str:
    """`3 to 7`."""
    return f"{span[0]} to {span[1]}"
