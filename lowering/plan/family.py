"""The plan of a task family: waits, row ranges, tiles, kernel call, signals, credits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from xdsl.ir.affine import AffineConstantExpr

from hpmoe_ir.dialects.access import Access, PartsOfTile, TilesOfPart
from hpmoe_ir.dialects.queue import SignalOp, WaitOp
from hpmoe_ir.dialects.tile import TasksOp, buffer_route_type, buffer_type
from hpmoe_ir.kernels.kernel import Element, Kernel, TileOperand
from hpmoe_ir.lowering.plan.access import AccessPlanner
from hpmoe_ir.lowering.plan.elements import OPERAND_TYPES, ElementType, element_type
from hpmoe_ir.lowering.plan.events import (
    EventNumber,
    PartsPlan,
    RangeWait,
    Signal,
    TilesPlan,
    plan_event,
)
from hpmoe_ir.lowering.plan.expressions import IntExpr, PeerRank
from hpmoe_ir.lowering.plan.scope import Scope
from hpmoe_ir.lowering.plan.sizes import Offset, Size, SizeTable, camel
from hpmoe_ir.lowering.plan.tiles import RowsDefinition, Tile, TileDefinition
from hpmoe_ir.lowering.program import LoweredProgram
from hpmoe_ir.machines.core_kind import CoreKind


@dataclass(frozen=True)
class Dimension:
    """A coordinate of the grid and its extent, which the first coordinate does not need."""

    name: str
    extent: Size | None


@dataclass(frozen=True)
class RouteUse:
    """The route in which the tasks look up row ranges."""

    offset: Offset
    """Offset of the route in the workspace."""
    experts: Size
    """Number of experts of all ranks."""


@dataclass(frozen=True)
class Operand:
    """One tile argument of the kernel."""

    name: str
    """Name of the kernel's parameter."""
    access: str
    """`read` or `write`."""
    variable: str
    """Name of the tile's variable in the task: `read0`."""
    buffer: str
    rows: tuple[RowsDefinition, ...]
    """Row ranges that no earlier operand has defined."""
    tile: Tile


@dataclass(frozen=True)
class KernelCall:
    """The call of a kernel's function."""

    function: str
    element: ElementType | None
    """Activation type, the first template argument of templated kernels."""
    options: tuple[int, ...]
    """Further template arguments."""
    tiles: tuple[str, ...]
    """Names of the tiles' variables, reads first."""
    scalars: tuple[IntExpr, ...]


@dataclass(frozen=True)
class Stage:
    """A part of a task that runs as a whole or is skipped: tiles of `reads`, call, signals."""

    guard: tuple[str, ...]
    """Row ranges that must all be non-empty, else the stage is skipped."""
    reads: tuple[Operand, ...] = ()
    call: KernelCall | None = None
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True)
class FamilyPlan:
    """The steps of each task of a family, in order."""

    name: str
    function: str
    """Name of the generated function."""
    core: CoreKind
    kernel: str
    header: str
    """Header of the kernel, as in the `#include`."""
    include: Path | None
    """Include directory of the header, for a kernel of another package."""
    dimensions: tuple[Dimension, ...]
    """Dimensions of the grid; a task's number is the row-major number of its grid point."""
    peer: IntExpr | None
    """The rank that the tasks write to; None is their own."""
    waits: tuple[EventNumber, ...]
    route: RouteUse | None
    tiles: tuple[TileDefinition, ...]
    """Tiles of rows, looked up in the route."""
    ranges: tuple[RangeWait, ...]
    """Waits for ranges of events, which the route gives."""
    writes: tuple[Operand, ...]
    """Written tiles. They come first, since they determine whether the task has rows."""
    stages: tuple[Stage, ...]
    credits: tuple[str, ...]
    """Names of the credit functions that the task calls last."""


def plan_family(
    program: LoweredProgram, family: TasksOp, credits: Sequence[str], table: SizeTable
) -> FamilyPlan:
    """Plans a family of tasks and adds its sizes to `table`.

    `credits` names the credit functions that its task calls. Raises LoweringError for a family that
    cannot be lowered.
    """
    kernel = family.find_kernel()
    scope = Scope(program, family, table)
    planner = AccessPlanner(scope)
    name = family.sym_name.data
    dimensions = _dimensions(scope)
    peer = family.target_peer
    peer_rank = None if peer is None else scope.index(peer)
    if peer is not None:
        scope.known[peer] = PeerRank()
    waits = tuple(
        plan_event(scope, wait.event_name, wait.index_exprs)
        for wait in program.waits
        if wait.family_name == name and wait.event_range is None
    )
    route = _route(scope)
    ranges = tuple(
        _range_wait(planner, wait, f"among{i}")
        for i, wait in enumerate(w for w in program.waits if w.family_name == name and w.among)
    )
    writes = _operands(planner, family.write_accesses, kernel.writes, "write")
    guard = planner.guard(family.write_accesses)
    reads = _operands(planner, family.read_accesses, kernel.reads, "read")
    call = _call(scope, kernel, [o.variable for o in (*reads, *writes)])
    return FamilyPlan(
        name=name,
        function=camel(name),
        core=family.core_kind,
        kernel=kernel.name,
        header=kernel.ascendc.header,
        include=kernel.ascendc.include,
        dimensions=dimensions,
        peer=peer_rank,
        waits=waits,
        route=route,
        tiles=tuple(planner.tiles.values()),
        ranges=ranges,
        writes=writes,
        stages=_stages(scope, Stage(guard, reads, call), program.signals_of_family(name)),
        credits=tuple(credits),
    )


def _range_wait(planner: AccessPlanner, wait: WaitOp, name: str) -> RangeWait:
    """Returns the plan of a wait for a range of events. Raises LoweringError."""
    scope, among = planner.scope, wait.event_range
    event = scope.program.events[wait.event_name]
    if event.copy_count != 1:
        raise scope.error(
            f"@{wait.event_name}: expected one copy of events of which some are waited for"
        )
    match among:
        case PartsOfTile():
            plan = PartsPlan(planner.tile_of(among.index, among.cut).name)
        case TilesOfPart():
            groups = scope.constant(among.groups, "Groups")
            expert, group = scope.index(among.expert), scope.index(among.group)
            plan = TilesPlan(expert, group, groups, planner.cut(among.cut))
        case _:
            raise AssertionError(f"not a range of events: {among}")
    last = event.extents[among.dims :]
    number = plan_event(scope, wait.event_name, None)
    stem = camel(wait.event_name)
    size = scope.table.size(f"{stem}Each", prod(last)) if last else None
    index = scope.flat_index(wait.index_exprs, last, f"{stem}Last") if last else None
    return RangeWait(name, number.first, plan, index, size)


def _stages(scope: Scope, work: Stage, signals: Sequence[SignalOp]) -> tuple[Stage, ...]:
    """Returns the stages of a task; signals with a credit are sent only if the task has rows.

    Unconditional signals come before those with a credit.
    """
    always = tuple(_signal(scope, s) for s in signals if s.credit is None)
    credited = tuple(_signal(scope, s) for s in signals if s.credit is not None)
    if not always:
        return (replace(work, signals=credited),)
    if not work.guard:
        return (replace(work, signals=always),)
    last = (Stage(work.guard, signals=credited),) if credited else ()
    return (work, Stage((), signals=always), *last)


def _dimensions(scope: Scope) -> tuple[Dimension, ...]:
    """Returns the grid's dimensions; sizes are added from the last one, in the order of use."""
    names, extents = scope.family.dim_names, scope.family.extents
    found = [
        Dimension(names[i], scope.table.size(f"{scope.prefix}{camel(names[i])}", extents[i]))
        for i in reversed(range(1, len(names)))
    ]
    if names:
        found.append(Dimension(names[0], None))
    return tuple(reversed(found))


def _route(scope: Scope) -> RouteUse | None:
    if scope.family.route is None:
        return None
    return route_use(scope, scope.family.route.root_reference.data)


def route_use(scope: Scope, route: str) -> RouteUse:
    """Returns the use of the route in a buffer."""
    experts = buffer_route_type(scope.program.buffers[route]).experts.data
    offset = scope.buffer_offset(route)
    return RouteUse(offset, scope.table.size(f"{camel(route)}Experts", experts))


def _operands(
    planner: AccessPlanner,
    accesses: tuple[Access, ...],
    operands: tuple[TileOperand, ...],
    access_kind: str,
) -> tuple[Operand, ...]:
    scope = planner.scope
    planned: list[Operand] = []
    for i, (access, operand) in enumerate(zip(accesses, operands, strict=True)):
        known = len(planner.rows)
        tile = planner.tile(access)
        rows = tuple(planner.rows.values())[known:]
        expected = OPERAND_TYPES[operand.element]
        if tile.element not in expected:
            raise scope.error(
                f"operand {operand.name} of kernel '{scope.family.kernel.data}' has elements of "
                f"{' or '.join(expected)}, found {tile.element}"
            )
        variable = f"{access_kind}{i}"
        planned.append(Operand(operand.name, access_kind, variable, access.buffer, rows, tile))
    return tuple(planned)


def _call(scope: Scope, kernel: Kernel, tiles: Sequence[str]) -> KernelCall:
    family = scope.family
    options = family.int_options
    element = _activation(scope, kernel) if kernel.ascendc.templated else None
    scalars = tuple(
        scope.constant(s.data.value, f"Argument{i}")
        if isinstance(s.data, AffineConstantExpr)
        else scope.index(s.data)
        for i, s in enumerate(family.scalars)
    )
    return KernelCall(
        kernel.ascendc.name,
        element,
        tuple(options[o] for o in kernel.options),
        tuple(tiles),
        scalars,
    )


def _activation(scope: Scope, kernel: Kernel) -> ElementType:
    """Returns the common activation type of a kernel's tiles."""
    family = scope.family
    accesses = (*family.read_accesses, *family.write_accesses)
    operands = (*kernel.reads, *kernel.writes)
    found = {
        element_type(buffer_type(scope.program.buffers[a.buffer]).element_type)
        for a, o in zip(accesses, operands, strict=True)
        if o.element is Element.ACTIVATION
    }
    names = sorted(str(e) for e in found)
    element = found.pop() if len(found) == 1 else None
    if element is None:
        raise scope.error(f"expected one activation type, found {', '.join(names) or 'none'}")
    return element


def _signal(scope: Scope, signal: SignalOp) -> Signal:
    event = plan_event(scope, signal.event_name, signal.index_exprs)
    peer = None if signal.peer_expr is None else scope.index(signal.peer_expr)
    return Signal(event, peer)
