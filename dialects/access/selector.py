"""Selectors: what an access takes of one dimension of its buffer.

This module has the base class and the selectors of static dimensions; `rows` has those of token
rows, whose number is known at run time only.
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
"""First element, one past the last."""

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
        """Returns `, chunk c of 4 by 128`, nothing for the only chunk; `parse` reads it back."""
        if self == Chunk():
            return ""
        return f", chunk {format_index(self.index, names)} of {self.count} by {self.align}"

    @classmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> Chunk:
        """Reads the chunk at the end of a row selector, where there is one."""
        if not parser.parse_optional_punctuation(","):
            return cls()
        parser.parse_keyword("chunk")
        index = parse_index(parser, names)
        parser.parse_keyword("of")
        count = parse_count(parser)
        parser.parse_keyword("by")
        return cls(index, count, parse_count(parser))


WHOLE_SEGMENT = Chunk()
"""The only chunk of a segment that is not cut."""


@dataclass(frozen=True)
class AxisRange:
    """What an access covers on one static axis of a buffer.

    Accesses of one buffer meet only where they overlap on every axis that both have, cut alike.
    """

    name: str
    """`expert`, `source` or `chunk` of token rows; `dim1` for dimension 1."""
    index: AffineExpr
    """Which of the ranges; 0 to `count` - 1."""
    count: int
    bounds: Callable[[int], Range]
    """Range of the axis for a value of `index`. Ranges ascend with it."""
    cut: tuple[int, ...] = ()
    """How the axis is cut; ranges of different cuts are not compared."""

    @property
    def extent(self) -> int:
        """Length of the axis."""
        return self.bounds(self.count - 1)[1] if self.count else 0


def one_element(value: int) -> Range:
    """Bounds of an axis whose index counts its elements."""
    return value, value + 1


@dataclass(frozen=True)
class Selector(ABC):
    """What an access takes of one dimension, as a function of the grid point and the rank.

    A subclass is a frozen dataclass. Its index expressions are its fields of type `AffineExpr` and
    `Chunk`.
    """

    @abstractmethod
    def text(self, names: Sequence[str]) -> str:
        """Returns the selector's text with the names of the coordinates."""

    @abstractmethod
    def axes(self, dim: int, extent: int, ranks: int, experts: int) -> tuple[AxisRange, ...]:
        """Returns what is covered of each axis of dimension `dim`; a whole axis is left out.

        `extent` is that of the dimension; `experts` are those of all `ranks`, 0 without a route.
        """

    @property
    def exprs(self) -> tuple[AffineExpr, ...]:
        """The index expressions."""
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
    """A selector that is written `keyword(...)`."""

    keyword: ClassVar[str]

    @classmethod
    @abstractmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> Self:
        """Reads what is between the parentheses."""


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
    """`e` - one index of a static dimension; the tile does not have the dimension."""

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
    """Reads a positive number of 31 bits."""
    start = parser.pos
    value = parser.parse_integer(allow_boolean=False)
    if value <= 0:
        parser.raise_error(f"expected a positive number, found {value}", start, parser.pos)
    if value > MOST_CONSTANT:
        parser.raise_error(
            f"expected a number of at most {MOST_CONSTANT}, found {value}", start, parser.pos
        )
    return value
