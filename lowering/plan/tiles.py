"""Tiles and row ranges of a plan: where the operands of a kernel are, and how large they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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
class TokenRange:
    """Part `index` of `count` of the rank's tokens."""

    index: IntExpr
    count: Size
    needs_route: bool
    """Whether it has no rows where the route is not valid, as on a rank over its capacity."""


@dataclass(frozen=True)
class GroupedRange:
    """Rows that this rank received for one of its experts from source group `group`."""

    expert: IntExpr
    """Local expert."""
    group: IntExpr
    groups: Size
    chunk: ChunkOf | None


@dataclass(frozen=True)
class SentRange:
    """Rows that this rank sends to one expert, in its own send order."""

    expert: IntExpr
    """Global expert."""
    chunk: ChunkOf | None


@dataclass(frozen=True)
class PutRange:
    """Rows of a peer's receive buffer that this rank puts there for one of the peer's experts."""

    peer: IntExpr
    local: Size
    """Experts of a rank."""
    expert: IntExpr
    """Local expert of the peer."""
    chunk: ChunkOf | None


@dataclass(frozen=True)
class ReturnRange:
    """Rows in a peer's send order that this rank returns for one of its own experts."""

    expert: IntExpr
    """Global expert, one of this rank's."""
    local: Size
    """Experts of a rank."""
    peer: IntExpr
    chunk: ChunkOf | None


RowRange: TypeAlias = TokenRange | GroupedRange | SentRange | PutRange | ReturnRange


@dataclass(frozen=True)
class RowsDefinition:
    """A row range that is known once the route is built, with the name it has in the task."""

    name: str
    rows: RowRange


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
    """Elements from one copy to the next, where launches alternate between two."""
    peer: IntExpr | None
    """The rank whose memory it is, where that is not the one that runs the task."""


Address: TypeAlias = ArgumentAddress | PlannedAddress


@dataclass(frozen=True)
class Step:
    """An index of an outer dimension, and the elements from one index to the next."""

    index: IntExpr
    elements: Size


@dataclass(frozen=True)
class WordsShape:
    """All 32-bit words of a buffer that is no tensor, such as a route."""

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
    """The part of a buffer that a kernel is given as one operand."""

    element: ElementType
    address: Address
    steps: tuple[Step, ...]
    shape: Shape
