"""Plans of credits: the signals that the task which builds the route adds for empty puts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from xdsl.ir.affine import AffineDimExpr

from hpmoe_ir.dialects.access import RowSegment
from hpmoe_ir.dialects.index import dims_used
from hpmoe_ir.dialects.queue import SignalOp
from hpmoe_ir.dialects.tile.credit import credited_puts, route_of
from hpmoe_ir.lowering.plan.events import EventNumber, plan_event
from hpmoe_ir.lowering.plan.expressions import FlatIndex, IntExpr, SourceRank
from hpmoe_ir.lowering.plan.family import RouteUse, route_use
from hpmoe_ir.lowering.plan.scope import Scope
from hpmoe_ir.lowering.plan.sizes import Size, SizeTable, camel
from hpmoe_ir.lowering.program import LoweredProgram


class CreditSide(StrEnum):
    """The rows by which the receiver recognizes empty puts."""

    RECEIVED = "Received"
    """Rows that it receives for an expert of its own."""
    SENT = "Sent"
    """Rows that it sent to an expert of the put's source rank."""


@dataclass(frozen=True)
class Loop:
    """A loop over the values of a coordinate of the puts."""

    number: int
    """Number of the coordinate in the family's grid."""
    coordinate: str
    end: Size


@dataclass(frozen=True)
class ChunkedPuts:
    """The division of one expert's rows among several puts."""

    index: IntExpr | None
    """The chunk of a put; None if empty chunks are counted in one step."""
    count: Size
    align: Size


@dataclass(frozen=True)
class CreditPlan:
    """The signals that a rank adds to its own events for the empty puts of all ranks to it.

    For each source rank and each value of `outer`, the receiver looks up the rows of the expert.
    For each value of `inner` whose put is empty, it adds the product of the extents of `factors`,
    the coordinates on which neither rows nor events depend.
    """

    function: str
    """Name of the generated function."""
    event: str
    family: str
    """The family of the puts."""
    route: RouteUse
    side: CreditSide
    events: Size
    """Number of events of the family."""
    outer: tuple[Loop, ...]
    inner: tuple[Loop, ...]
    factors: tuple[Loop, ...]
    expert: IntExpr
    chunks: ChunkedPuts | None
    """None if one put has all rows of an expert."""
    index: FlatIndex
    """Index of the event in its family."""
    first: EventNumber


def credited_signals(program: LoweredProgram) -> list[SignalOp]:
    """Returns the signals of a program that have a credit, in order."""
    return [s for s in program.signals if s.credit is not None]


def credit_name(program: LoweredProgram, signal: SignalOp) -> str:
    """Returns the name of the function that adds a signal's credit."""
    same = [s for s in credited_signals(program) if s.event_name == signal.event_name]
    number = f"{same.index(signal)}" if same.index(signal) else ""
    return f"Credit{number}{camel(signal.event_name)}"


def plan_credit(program: LoweredProgram, signal: SignalOp, table: SizeTable) -> CreditPlan:
    """Plans the credit of a signal and adds its sizes to `table`."""
    family = program.families[signal.family_name]
    event = program.events[signal.event_name]
    puts = credited_puts(
        family,
        route_of(family, program.buffers),
        signal.peer_expr,
        signal.index_exprs,
        event.extents,
    )
    assert family.route is not None
    name = credit_name(program, signal)
    scope = Scope(program, family, table, rank=SourceRank(), stem=name)
    route = route_use(scope, family.route.root_reference.data)
    first = plan_event(scope, signal.event_name, None)
    events = table.size(f"{scope.prefix}Events", event.event_count)
    # The segment is of grouped or of sent rows; the source group is that of the put's rank.
    expert_expr, chunk = puts.rows.operands[0], puts.rows.chunk
    received = puts.rows.segment is RowSegment.GROUPED
    outer = sorted(dims_used(expert_expr))
    others = [d for d in range(len(family.dims)) if d not in (*outer, puts.peer_dim)]
    of_event = {d for e in signal.index_exprs for d in dims_used(e)}
    # The first chunks have the rows, so the number of empty ones needs no loop if one coordinate is
    # the chunk and nothing else depends on it.
    counted = chunk.index.position if isinstance(chunk.index, AffineDimExpr) else None
    if chunk.count == 1 or counted in outer or counted in of_event:
        counted = None
    if counted is not None and family.extents[counted] != chunk.count:
        counted = None
    each = chunk.count != 1 and counted is None
    looped = of_event | dims_used(chunk.index) if each else of_event

    def loops(dims: list[int]) -> tuple[Loop, ...]:
        names, extents = family.dim_names, family.extents
        sizes = [table.size(f"{scope.prefix}{camel(names[d])}", extents[d]) for d in dims]
        return tuple(Loop(d, names[d], size) for d, size in zip(dims, sizes, strict=True))

    outer_loops = loops(outer)
    inner_loops = loops([d for d in others if d in looped])
    factors = loops([d for d in others if d not in looped and d != counted])
    count = align = None
    if chunk.count != 1:
        count = scope.constant(chunk.count, "Chunks")
        align = scope.constant(chunk.align, "Align")
    expert = scope.index(expert_expr)
    chunks = None
    if count is not None and align is not None:
        chunks = ChunkedPuts(scope.index(chunk.index) if each else None, count, align)
    return CreditPlan(
        function=name,
        event=signal.event_name,
        family=signal.family_name,
        route=route,
        side=CreditSide.RECEIVED if received else CreditSide.SENT,
        events=events,
        outer=outer_loops,
        inner=inner_loops,
        factors=factors,
        expert=expert,
        chunks=chunks,
        index=scope.flat_index(signal.index_exprs, event.extents, camel(signal.event_name)),
        first=first,
    )
