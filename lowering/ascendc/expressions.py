"""Prints expressions, events, row ranges and tiles of a plan as Ascend C."""

from __future__ import annotations

from xdsl.ir.affine import AffineBinaryOpKind

from hpmoe_ir.dialects.access import RowSegment
from hpmoe_ir.dialects.tile import MemorySpace
from hpmoe_ir.lowering.plan.elements import ElementType
from hpmoe_ir.lowering.plan.events import EventNumber, PartsPlan, RangeWait, Signal, TilesPlan
from hpmoe_ir.lowering.plan.expressions import (
    Binary,
    Coordinate,
    ExpertOfTile,
    FlatIndex,
    IntExpr,
    Number,
    OwnRank,
    PeerRank,
    SourceRank,
)
from hpmoe_ir.lowering.plan.sizes import Offset, Size
from hpmoe_ir.lowering.plan.tiles import (
    Address,
    ArgumentAddress,
    BlockExtent,
    ChunkOf,
    CutPlan,
    Extent,
    MatrixShape,
    PlannedAddress,
    RowRange,
    RowsExtent,
    Tile,
    TileDefinition,
    VectorShape,
    WholeExtent,
    WordsShape,
)

ELEMENTS = {
    ElementType.BF16: "bfloat16_t",
    ElementType.F16: "half",
    ElementType.F32: "float",
    ElementType.I32: "int32_t",
}
"""Element types in Ascend C."""

_OPERATORS = {
    AffineBinaryOpKind.Add: "+",
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.Mod: "%",
    AffineBinaryOpKind.FloorDiv: "/",
}

_SPACES = {MemorySpace.WORKSPACE: "Workspace", MemorySpace.WINDOW: "Window"}


def enumerator(size: Size | Offset) -> str:
    """Returns the C++ enumerator of a word of the task table."""
    return f"k{size.name}"


def expression(expr: IntExpr) -> str:
    """Returns the C++ text of an integer expression."""
    match expr:
        case Number():
            return str(expr.value)
        case Size():
            return f"env.Size({enumerator(expr)})"
        case Coordinate():
            return expr.name
        case OwnRank():
            return "env.Rank()"
        case SourceRank():
            return "source"
        case PeerRank():
            return "peer"
        case ExpertOfTile(tile):
            return f"{tile}.expert"
        case Binary(AffineBinaryOpKind.CeilDiv, lhs, rhs):
            return f"hpmoe::CeilDiv({_operand(lhs)}, {_operand(rhs)})"
        case Binary(kind, lhs, rhs):
            return f"{_operand(lhs)} {_OPERATORS[kind]} {_operand(rhs)}"


def _operand(expr: IntExpr) -> str:
    text = expression(expr)
    return f"({text})" if isinstance(expr, Binary) else text


def flat_index(flat: FlatIndex) -> str:
    """Returns the C++ text of the row-major number of an index; `0` without dimensions."""
    if not flat.indices:
        return "0"
    text = expression(flat.indices[0])
    for index, extent in zip(flat.indices[1:], flat.extents, strict=True):
        outer = f"({text})" if " " in text else text
        text = f"{outer} * {expression(extent)} + {expression(index)}"
    return text


def _counter(event: EventNumber) -> str:
    """Returns the C++ text of the number of an event's first counter."""
    first = expression(event.first)
    return first if event.index is None else f"{first} + {flat_index(event.index)}"


def event_number(event: EventNumber) -> str:
    """Returns the C++ text of the number of the event's counter that this launch uses."""
    counter = _counter(event)
    return counter if event.copy is None else f"env.InTurn({counter}, {expression(event.copy)})"


def wait_statement(event: EventNumber) -> str:
    """Returns the C++ statement that waits for an event."""
    counter = _counter(event)
    if event.copy is None:
        return f"env.Wait({counter});"
    return f"env.WaitInTurn({counter}, {expression(event.copy)});"


def signal_statement(signal: Signal) -> str:
    """Returns the C++ statement that signals an event."""
    event = event_number(signal.event)
    if signal.peer is None:
        return f"env.Signal({event});"
    return f"env.SignalPeer({event}, {expression(signal.peer)});"


def tile_of_rows(tile: TileDefinition) -> str:
    """Returns a C++ expression of type `hpmoe::RouteTile`."""
    return f"route.Tile({expression(tile.index)}, {_cut(tile.cut)})"


def _cut(cut: CutPlan) -> str:
    """Returns a C++ expression of type `hpmoe::TileCut`."""
    return f"{{{', '.join(expression(size) for size in (cut.count, cut.rows, cut.experts))}}}"


def event_range(among: PartsPlan | TilesPlan) -> str:
    """Returns a C++ expression of type `hpmoe::Rows` for the first coordinates of events."""
    match among:
        case PartsPlan(tile):
            return f"route.Parts({tile})"
        case TilesPlan(expert, group, groups, cut):
            sources = ", ".join(_sources(group, groups))
            return f"route.Tiles({expression(expert)}, {sources}, {_cut(cut)})"


def range_wait_statement(wait: RangeWait) -> str:
    """Returns the C++ statement that waits for one event, number `i`, of a range."""
    number = f"{wait.name}.begin + i"
    if wait.size is not None and wait.index is not None:
        number = f"({number}) * {expression(wait.size)} + {flat_index(wait.index)}"
    return f"env.Wait({expression(wait.first)} + {number});"


def _sources(group: IntExpr, groups: IntExpr) -> tuple[str, str]:
    """Returns the first source rank of a source group and one past its last."""
    of = f"env.Ranks() / {expression(groups)}"
    return f"{_operand(group)} * {of}", f"({_operand(group)} + 1) * {of}"


def row_range(rows: RowRange | TileDefinition) -> str:
    """Returns a C++ expression of type `hpmoe::Rows`."""
    if isinstance(rows, TileDefinition):
        return f"{rows.name}.rows"
    match rows.segment, rows.operands:
        case RowSegment.TOKENS, (part, parts):
            text = f"env.TokenChunk({expression(part)}, {expression(parts)})"
            return f"route.Ok() ? {text} : hpmoe::Rows{{0, 0}}" if rows.needs_route else text
        case RowSegment.GROUPED, (group, groups, expert):
            first, last = _sources(group, groups)
            text = f"route.Grouped({expression(expert)}, {first}, {last})"
        case RowSegment.SENT, (expert,):
            text = f"route.Sent({expression(expert)})"
        case RowSegment.DEST, (local, peer, expert):
            text = f"route.Dest({_operand(peer)} * {expression(local)} + {_operand(expert)})"
        case RowSegment.RETURN, (expert, local, peer):
            index = f"{_operand(expert)} - env.Rank() * {expression(local)}"
            text = f"route.Return({index}, {expression(peer)})"
        case _:
            raise AssertionError(f"not a row range: {rows}")
    return _chunk(text, rows.chunk)


def _chunk(rows: str, chunk: ChunkOf | None) -> str:
    if chunk is None:
        return rows
    index, count, align = (expression(e) for e in (chunk.index, chunk.count, chunk.align))
    return f"hpmoe::Chunk({rows}, {index}, {count}, {align})"


def _extent(extent: Extent) -> tuple[str, str]:
    """Returns C++ texts of the first element and the number of elements of a dimension."""
    match extent:
        case WholeExtent(size):
            return "0", expression(size)
        case BlockExtent(index, size, whole):
            begin = f"{_operand(index)} * {expression(size)}"
            return begin, f"hpmoe::Min({expression(size)}, {expression(whole)} - {begin})"
        case RowsExtent(rows):
            return f"{rows}.begin", f"{rows}.count"


def tile(tile: Tile) -> str:
    """Returns a C++ expression of type `hpmoe::Tile`."""
    element = ELEMENTS[tile.element]
    address = _address(tile.address, element)
    for step in tile.steps:
        index = f"static_cast<uint64_t>({expression(step.index)})"
        address += f" + {index} * {expression(step.elements)}"
    match tile.shape:
        case WordsShape(words):
            return f"hpmoe::Whole({address}, 1, {expression(words)})"
        case VectorShape(columns):
            begin, count = _extent(columns)
            return f"hpmoe::Slice({address}, 0, hpmoe::Rows{{0, 1}}, {begin}, {count})"
        case MatrixShape(pitch, rows, columns):
            begin, count = _extent(columns)
            place = f"{expression(pitch)}, {_rows(rows)}, {begin}, {count}"
            return f"hpmoe::Slice({address}, {place})"


def _rows(extent: Extent) -> str:
    if isinstance(extent, RowsExtent):
        return extent.rows
    return f"hpmoe::Rows{{{', '.join(_extent(extent))}}}"


def _address(address: Address, element: str) -> str:
    match address:
        case ArgumentAddress(buffer):
            return f"reinterpret_cast<__gm__ {element}*>(args.{buffer})"
        case PlannedAddress(space, offset, copy, peer):
            base = f"env.{_SPACES[space]}<{element}>({enumerator(offset)})"
            if copy is not None:
                base += f" + static_cast<uint64_t>(env.Launch() % 2) * {expression(copy)}"
            return base if peer is None else f"env.Peer({base}, {expression(peer)})"
