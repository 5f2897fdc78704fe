"""Counter numbers of events, for waits and signals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineExpr

from hpmoe_ir.lowering.plan.expressions import FlatIndex, IntExpr
from hpmoe_ir.lowering.plan.scope import Scope
from hpmoe_ir.lowering.plan.sizes import Size, camel
from hpmoe_ir.lowering.plan.tiles import CutPlan


@dataclass(frozen=True)
class EventNumber:
    """The counter of an event of a family of events."""

    first: Size
    """Number of the family's first counter."""
    index: FlatIndex | None
    """Index of the event in its family; None for the first."""
    copy: Size | None
    """Number of counters from one copy to the next, for events with two copies."""


@dataclass(frozen=True)
class RangeWait:
    """A wait for all events of a range, whose first coordinates the route gives."""

    name: str
    """Name of the range in the task."""
    first: Size
    """Number of the family's first counter."""
    among: PartsPlan | TilesPlan
    index: FlatIndex | None
    """The last coordinates of the events; None without."""
    size: Size | None
    """Number of events with the same first coordinates; None for one."""


@dataclass(frozen=True)
class PartsPlan:
    """The parts that have rows of a tile."""

    tile: str
    """Name of the tile's definition."""


@dataclass(frozen=True)
class TilesPlan:
    """The tiles that have rows of an expert from a source group."""

    expert: IntExpr
    group: IntExpr
    groups: Size
    cut: CutPlan


@dataclass(frozen=True)
class Signal:
    """Adds one to the counter of an event."""

    event: EventNumber
    peer: IntExpr | None
    """The rank of the event; None is the rank that runs the task."""


def plan_event(scope: Scope, event: str, index: Sequence[AffineExpr] | None) -> EventNumber:
    """Returns the counter number of event `index` of a family, its first event for None."""
    op = scope.program.events[event]
    name = camel(event)
    assert op.line is not None
    first = scope.table.size(name, op.line.value.data)
    flat = scope.flat_index(index, op.extents, name) if index else None
    copy = scope.table.size(f"{name}Events", op.event_count) if op.copy_count == 2 else None
    return EventNumber(first, flat, copy)
