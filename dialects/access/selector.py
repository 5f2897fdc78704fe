"""Selectors: the part of one dimension of a buffer that an access covers.

This module has the base classes and the selectors of static dimensions; module `rows` has those of
token rows, whose number is known at run time only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeAlias

from xdsl.ir.affine import AffineExpr
from xdsl.parser import AttrParser

from hpmoe_ir.dialects.index import MOST_CONSTANT, format_index, parse_index
from hpmoe_ir.integers import ceil_div

Range: TypeAlias = tuple[int, int]
"""Half-open range of elements: first, one past the last."""

IndexValue: TypeAlias = Callable[[AffineExpr], int]
"""Value of an index expression at one grid point of one rank."""

ZERO = AffineExpr.constant(0)


@dataclass(frozen=True)
class Chunk:
    """Chunk `index` of `count` of a segment of rows, cut at multiples of `align` rows."""

    index: AffineExpr = ZERO
    count: int = 1
    align: int = 1

    def text(self, names: Sequence[str]) -> str:
        """Returns `, chunk c of 4 by 128`, or "" for a whole segment; `parse` reads it back."""
        if self == Chunk():
            return ""
        return f", chunk {format_index(self.index, names)} of {self.count} by {self.align}"

    @classmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> Chunk:
        """Parses the optional chunk at the end of a row selector."""
        if not parser.parse_optional_punctuation(","):
            return cls()
        parser.parse_keyword("chunk")
        index = parse_index(parser, names)
        parser.parse_keyword("of")
        count = parse_count(parser)
        parser.parse_keyword("by")
        return cls(index, count, parse_count(parser))


@dataclass(frozen=True)
class TileCut:
    """`of 300 by 128` - at most 300 tiles of 128 rows, or of a multiple of that.

    See `hpmoe_ir.dialects.access.tile_rows`.
    """

    count: int
    rows: int

    def text(self) -> str:
        """Returns the text; `parse` reads it back."""
        return f"of {self.count} by {self.rows}"

    @classmethod
    def parse(cls, parser: AttrParser) -> TileCut:
        """Parses the cut at the end of a selector of tiles."""
        parser.parse_keyword("of")
        count = parse_count(parser)
        parser.parse_keyword("by")
        return cls(count, parse_count(parser))

    def problem(self, local_experts: int) -> str | None:
        """Returns an error message if the tiles may be too few, else None."""
        if local_experts <= self.count:
            return None
        return f"expected a tile for each of {local_experts} local experts, found {self.count}"


WHOLE_SEGMENT = Chunk()
"""The chunk that is a whole segment."""


@dataclass(frozen=True)
class AxisRange:
    """The range that an access covers on one axis of a buffer.

    Two accesses of one buffer overlap only if their ranges overlap on every axis that both have
    with the same `cut`.
    """

    name: str
    """Name of the axis: `expert`, `source` or `chunk` of token rows; `dim1` for dimension 1."""
    index: AffineExpr
    """Number of the range, 0 to `count` - 1."""
    count: int
    bounds: Callable[[int], Range]
    """Maps a value of `index` to its range of the axis, monotonically."""
    cut: tuple[int, ...] = ()
    """Parameters by which the axis is cut; ranges of different cuts are not compared."""

    @property
    def extent(self) -> int:
        """Length of the axis."""
        return self.bounds(self.count - 1)[1] if self.count else 0


def one_element(value: int) -> Range:
    """Returns the range of one element, for an axis whose index counts elements."""
    return value, value + 1


@dataclass(frozen=True)
class Selector(ABC):
    """The part of one dimension that an access covers, by grid point and rank.

    A subclass is a frozen dataclass. Its index expressions are its fields of type `AffineExpr` and
    those of its `Chunk`.
    """

    drops_dimension: ClassVar[bool] = False
    """Whether it selects one element, so that the tile has no such dimension."""

    @abstractmethod
    def text(self, names: Sequence[str]) -> str:
        """Returns the selector's text with the names of the coordinates."""

    @abstractmethod
    def axes(self, dim: int, extent: int, ranks: int, experts: int) -> tuple[AxisRange, ...]:
        """Returns the ranges covered on the axes of dimension `dim`, except axes covered whole.

        `extent` is that of the dimension; `experts` is the number of experts of all `ranks`, 0
        without a route.
        """

    @property
    def exprs(self) -> tuple[AffineExpr, ...]:
        """The selector's index expressions."""
        values = (getattr(self, f.name) for f in fields(self))
        return tuple(
            v.index if isinstance(v, Chunk) else v
            for v in values
            if isinstance(v, AffineExpr | Chunk)
        )

    def map_exprs(self, change: Callable[[AffineExpr], AffineExpr]) -> Self:
        """Returns the selector with `change` applied to each index expression."""
        changed: dict[str, Any] = {}
        for field in fields(self):
            match getattr(self, field.name):
                case AffineExpr() as expr:
                    changed[field.name] = change(expr)
                case Chunk() as chunk:
                    changed[field.name] = replace(chunk, index=change(chunk.index))
                case _:
                    pass
        return replace(self, **changed)


@dataclass(frozen=True)
class KeywordSelector(Selector):
    """A selector whose text is `keyword(...)`."""

    keyword: ClassVar[str]

    @classmethod
    @abstractmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> Self:
        """Parses the text between the parentheses."""


@dataclass(frozen=True)
class StaticSelector(Selector):
    """A selector of a dimension whose extent is known at compile time."""

    @abstractmethod
    def bounds(self, at: IndexValue, extent: int) -> Range:
        """Returns the selected elements of a dimension of `extent` elements, for one task."""


@dataclass(frozen=True)
class WholeSelector(StaticSelector):
    """`:` - the whole dimension."""

    def text(self, names: Sequence[str]) -> str:
        return ":"

    def axes(self, dim: int, extent: int, ranks: int, experts: int) -> tuple[AxisRange, ...]:
        return ()

    def bounds(self, at: IndexValue, extent: int) -> Range:
        return 0, extent


@dataclass(frozen=True)
class IndexSelector(StaticSelector):
    """`e` - one index of a static dimension; the dimension is dropped from the tile."""

    drops_dimension = True

    index: AffineExpr

    def text(self, names: Sequence[str]) -> str:
        return format_index(self.index, names)

    def axes(self, dim: int, extent: int, ranks: int, experts: int) -> tuple[AxisRange, ...]:
        return (AxisRange(f"dim{dim}", self.index, extent, one_element),)

    def bounds(self, at: IndexValue, extent: int) -> Range:
        return one_element(at(self.index))


@dataclass(frozen=True)
class BlockSelector(StaticSelector, KeywordSelector):
    """`block(n by 256)` - elements n * 256 to (n + 1) * 256, clipped to the dimension."""

    keyword = "block"

    index: AffineExpr
    size: int

    def text(self, names: Sequence[str]) -> str:
        return f"block({format_index(self.index, names)} by {self.size})"

    @classmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> BlockSelector:
        index = parse_index(parser, names)
        parser.parse_keyword("by")
        return cls(index, parse_count(parser))

    def axes(self, dim: int, extent: int, ranks: int, experts: int) -> tuple[AxisRange, ...]:
        count = ceil_div(extent, self.size)
        return (AxisRange(f"dim{dim}", self.index, count, lambda b: self._block(b, extent)),)

    def bounds(self, at: IndexValue, extent: int) -> Range:
        return self._block(at(self.index), extent)

    def _block(self, index: int, extent: int) -> Range:
        return min(index * self.size, extent), min((index + 1) * self.size, extent)


def parse_count(parser: AttrParser) -> int:
    """Parses a positive integer below 2^31."""
    start = parser.pos
    value = parser.parse_integer(allow_boolean=False)
    if value <= 0:
        parser.raise_error(f"expected a positive number, found {value}", start, parser.pos)
    if value > MOST_CONSTANT:
        parser.raise_error(
            f"expected a number of at most {MOST_CONSTANT}, found {value}", start, parser.pos
        )
    return value
