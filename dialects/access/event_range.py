"""Ranges of events that a task waits for, as its route says: the joins of tiles and parts.

An expert's rows come in parts, one of each source rank, and are computed in tiles. Which parts have
rows of a tile, and which tiles have rows of a part, follows from the numbers of rows. A task that
uses the one and waits for tasks that write the other waits for all events of a range.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

from xdsl.ir.affine import AffineExpr
from xdsl.parser import AttrParser

from hpmoe_ir.dialects.access.rows import GroupedRows, RowSelector, group_bounds
from hpmoe_ir.dialects.access.selector import IndexValue, Range, TileCut, parse_count
from hpmoe_ir.dialects.access.tile_rows import TileRows, Tiles
from hpmoe_ir.dialects.index import format_index, parse_index
from hpmoe_ir.dialects.placement import RouteType


@dataclass(frozen=True)
class EventRange(ABC):
    """Events that a task waits for all of; it stands for the first coordinates of an event.

    The range is empty if the task has no rows.
    """

    keyword: ClassVar[str]
    dims: ClassVar[int]
    """How many coordinates of an event the range stands for."""

    cut: TileCut

    @abstractmethod
    def text(self, names: Sequence[str]) -> str:
        """Returns the text with the names of the coordinates; `parse` reads it back."""

    @classmethod
    @abstractmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> Self:
        """Parses the text between the parentheses."""

    @abstractmethod
    def extents(self, route: RouteType) -> tuple[int, ...]:
        """Returns the extents of the events that the range is of."""

    @property
    @abstractmethod
    def limits(self) -> tuple[tuple[AffineExpr, int | None], ...]:
        """Each index expression with its number of values; None: the rank's local experts."""

    @abstractmethod
    def events(self, tiles: Tiles, at: IndexValue) -> Range:
        """Returns the range of one task: row-major numbers of the coordinates it stands for.

        `tiles` are those of the rank, cut by `cut`; `at` evaluates index expressions of the task.
        """

    @property
    def exprs(self) -> tuple[AffineExpr, ...]:
        """The index expressions."""
        return tuple(expr for expr, _ in self.limits)

    def map_exprs(self, change: Callable[[AffineExpr], AffineExpr]) -> Self:
        """Returns the range with `change` applied to each index expression."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        exprs = {n: change(v) for n, v in values.items() if isinstance(v, AffineExpr)}
        return replace(self, **exprs)


@dataclass(frozen=True)
class PartsOfTile(EventRange):
    """`parts(t of 300 by 128)` - the parts that have rows of a tile.

    The events are numbered by (local expert, source rank).
    """

    keyword = "parts"
    dims = 2

    index: AffineExpr

    def text(self, names: Sequence[str]) -> str:
        return f"parts({format_index(self.index, names)} {self.cut.text()})"

    @classmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> PartsOfTile:
        index = parse_index(parser, names)
        return cls(TileCut.parse(parser), index)

    def extents(self, route: RouteType) -> tuple[int, ...]:
        return route.local_experts, route.ranks.data

    @property
    def limits(self) -> tuple[tuple[AffineExpr, int | None], ...]:
        return ((self.index, self.cut.count),)

    def events(self, tiles: Tiles, at: IndexValue) -> Range:
        return tiles.parts(at(self.index))


@dataclass(frozen=True)
class TilesOfPart(EventRange):
    """`tiles(e, g of 8 in 300 by 128)` - the tiles that have rows of expert e from group g.

    The events are numbered by tile.
    """

    keyword = "tiles"
    dims = 1

    expert: AffineExpr
    group: AffineExpr
    groups: int

    def text(self, names: Sequence[str]) -> str:
        expert, group = (format_index(e, names) for e in (self.expert, self.group))
        return f"tiles({expert}, {group} of {self.groups}, {self.cut.text()})"

    @classmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> TilesOfPart:
        expert = parse_index(parser, names)
        parser.parse_punctuation(",")
        group = parse_index(parser, names)
        parser.parse_keyword("of")
        groups = parse_count(parser)
        parser.parse_punctuation(",")
        return cls(TileCut.parse(parser), expert, group, groups)

    def extents(self, route: RouteType) -> tuple[int, ...]:
        return (self.cut.count,)

    @property
    def limits(self) -> tuple[tuple[AffineExpr, int | None], ...]:
        return (self.expert, None), (self.group, self.groups)

    def events(self, tiles: Tiles, at: IndexValue) -> Range:
        ranks = tiles.begin.shape[1] - 1
        return tiles.covering(at(self.expert), group_bounds(at(self.group), self.groups, ranks))


EVENT_RANGES: tuple[type[EventRange], ...] = (PartsOfTile, TilesOfPart)
"""The ranges of events."""


@dataclass(frozen=True)
class Join:
    """The events by which tasks that use rows by one selector wait for those that write by another.

    They are those of the written parts or tiles; which ones are waited for, the route says.
    """

    source: tuple[AffineExpr, ...]
    """The event of a task that writes, over its coordinates."""
    extents: tuple[int, ...]
    range: EventRange
    """The events of a task that uses the rows, over its coordinates."""


def join_rows(
    written: RowSelector | None, used: RowSelector | None, ranks: int, local_experts: int
) -> Join | None:
    """Returns the join of a part and a tile; None for other selectors."""
    match written, used:
        case GroupedRows(), TileRows() if written.groups == ranks:
            source, extents = (written.expert, written.group), (local_experts, ranks)
            return Join(source, extents, PartsOfTile(used.cut, used.index))
        case TileRows(), GroupedRows():
            among = TilesOfPart(written.cut, used.expert, used.group, used.groups)
            return Join((written.index,), (written.cut.count,), among)
        case _:
            return None


def event_text(range: EventRange | None, index: Sequence[AffineExpr], names: Sequence[str]) -> str:
    """Returns the text of what tasks wait for; `parse_event` reads it back.

    It is `e, g` or, with a range for the first coordinates, `parts(t of 300 by 128), n`.
    """
    first = [] if range is None else [range.text(names)]
    return ", ".join([*first, *(format_index(e, names) for e in index)])


def parse_event(
    parser: AttrParser,
    names: Sequence[str],
    delimiter: AttrParser.Delimiter = AttrParser.Delimiter.PAREN,
) -> tuple[EventRange | None, list[AffineExpr]]:
    """Parses what tasks with the coordinates `names` wait for, between delimiters."""
    range: EventRange | None = None
    index: list[AffineExpr] = []

    def coordinate() -> None:
        nonlocal range
        kind = None if range or index else _range_kind(parser, names)
        if kind is None:
            index.append(parse_index(parser, names))
            return
        with parser.in_parens():
            range = kind.parse(parser, names)

    parser.parse_comma_separated_list(delimiter, coordinate)
    return range, index


def parse_range(parser: AttrParser, names: Sequence[str]) -> EventRange:
    """Parses a range of events."""
    kind = _range_kind(parser, names)
    if kind is None:
        known = " or ".join(f"{k.keyword}(...)" for k in EVENT_RANGES)
        parser.raise_error(f"expected a range of events, {known}")
    with parser.in_parens():
        return kind.parse(parser, names)


def _range_kind(parser: AttrParser, names: Sequence[str]) -> type[EventRange] | None:
    for kind in EVENT_RANGES:
        # A coordinate may have the name of a range.
        if kind.keyword not in names and parser.parse_optional_keyword(kind.keyword):
            return kind
    return None
