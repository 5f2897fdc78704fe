"""Tiles and row ranges of a plan: addresses and shapes of a kernel's operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hpmoe_ir.dialects.access import RowSegment
from hpmoe_ir.dialects.tile import MemorySpace
from hpmoe_ir.lowering.plan.elements import ElementType
from hpmoe_ir.lowering.plan.expressions import IntExpr
from hpmoe_ir.lowering.plan.sizes import Offset, Size


@dataclass(frozen=True)
class ChunkOf:
    """Part `index` of `count` of a row range, cut at multiples of `align` rows."""

    index: IntExpr
    count: Size
    align: Size


@dataclass(frozen=True)
class RowRange:
    """Rows of a segment, or a chunk of them.

    | segment   | operands                                                         |
    | --------- | ---------------------------------------------------------------- |
    | `TOKENS`  | part, number of parts                                            |
    | `GROUPED` | source group, number of groups, local expert                     |
    | `SENT`    | global expert                                                    |
    | `DEST`    | experts of a rank, peer, local expert of the peer                |
    | `RETURN`  | global expert, one of the rank's own; experts of a rank; peer    |

    Those of a tile are of a `TileDefinition`.
    """

    segment: RowSegment
    operands: tuple[IntExpr, ...]
    chunk: ChunkOf | None
    needs_route: bool = False
    """Whether a range of tokens is empty if the route is invalid, as after a capacity overflow."""


@dataclass(frozen=True)
class CutPlan:
    """How the rows of a rank's experts are cut into tiles."""

    count: Size
    rows: Size
    experts: Size
    """Number of experts of a rank."""


@dataclass(frozen=True)
class TileDefinition:
    """A named tile of rows of a task, computed at run time from the route."""

    name: str
    index: IntExpr
    cut: CutPlan


@dataclass(frozen=True)
class RowsDefinition:
    """A named row range of a task, computed at run time from the route."""

    name: str
    rows: RowRange | TileDefinition


@dataclass(frozen=True)
class WholeExtent:
    """A whole dimension."""

    size: Size


@dataclass(frozen=True)
class BlockExtent:
    """Block `index` of `size` elements of a dimension of `whole`; the last may be shorter."""

    index: IntExpr
    size: Size
    whole: Size


@dataclass(frozen=True)
class RowsExtent:
    """The rows of a `RowsDefinition`."""

    rows: str


Extent: TypeAlias = WholeExtent | BlockExtent | RowsExtent


@dataclass(frozen=True)
class ArgumentAddress:
    """Start of a buffer of the caller."""

    buffer: str


@dataclass(frozen=True)
class PlannedAddress:
    """Start of a buffer in the workspace or the window memory."""

    space: MemorySpace
    offset: Offset
    copy: Size | None
    """Elements from one copy to the next, for buffers with two copies."""
    peer: IntExpr | None
    """The rank whose memory is addressed; None is the rank that runs the task."""


Address: TypeAlias = ArgumentAddress | PlannedAddress


@dataclass(frozen=True)
class Step:
    """An index of an outer dimension, and the elements from one index to the next."""

    index: IntExpr
    elements: Size


@dataclass(frozen=True)
class WordsShape:
    """All 32-bit words of a buffer without a tensor shape, such as a route."""

    words: Size


@dataclass(frozen=True)
class VectorShape:
    """Elements of one dimension."""

    columns: Extent


@dataclass(frozen=True)
class MatrixShape:
    """Rows and columns; rows are `pitch` elements apart."""

    pitch: Size
    rows: Extent
    columns: Extent


Shape: TypeAlias = WordsShape | VectorShape | MatrixShape


@dataclass(frozen=True)
class Tile:
    """The part of a buffer that is one operand of a kernel."""

    element: ElementType
    address: Address
    steps: tuple[Step, ...]
    shape: Shape
