"""Accesses: the part of a buffer that a task reads or writes, and their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.ir.affine import AffineExpr
from xdsl.parser import AttrParser

from hpmoe_ir.dialects.access.rows import GroupedRows, RowQuery, RowSelector, SentRows, TokenRows
from hpmoe_ir.dialects.access.selector import (
    AxisRange,
    BlockSelector,
    IndexSelector,
    Selector,
    WholeSelector,
)
from hpmoe_ir.dialects.access.tile_rows import TileExpert, TileRows
from hpmoe_ir.dialects.index import format_index, parse_index

ROW_SELECTORS: dict[str, type[RowSelector]] = {
    s.keyword: s for s in (TokenRows, GroupedRows, SentRows, TileRows)
}
"""The row selectors by their keyword in text."""


@dataclass(frozen=True)
class Access:
    """The part of one buffer that a task reads or writes."""

    buffer: str
    selectors: tuple[Selector, ...]
    """One selector for each dimension; empty for a whole route."""
    peer: AffineExpr | None = None
    """The rank whose memory is accessed; None is the rank that runs the task."""
    scatter: bool = False
    """Whether each task writes elements that no other task of the family writes."""

    def map_exprs(self, change: Callable[[AffineExpr], AffineExpr]) -> Access:
        """Returns the access with `change` applied to every index expression."""
        return replace(
            self,
            selectors=tuple(s.map_exprs(change) for s in self.selectors),
            peer=None if self.peer is None else change(self.peer),
        )

    @property
    def exprs(self) -> tuple[AffineExpr, ...]:
        """All index expressions of the access: those of the selectors and the peer."""
        exprs = tuple(e for s in self.selectors for e in s.exprs)
        return exprs if self.peer is None else (*exprs, self.peer)

    @property
    def rows(self) -> RowSelector | None:
        """The row selector of dimension 0, None without one."""
        return next((s for s in self.selectors if isinstance(s, RowSelector)), None)

    @property
    def row_query(self) -> RowQuery | None:
        """The query for the token rows in the accessed memory; None without a row selector."""
        rows = self.rows
        return None if rows is None else rows.query(self.peer)

    def axes(self, dims: Sequence[int], ranks: int, experts: int) -> tuple[AxisRange, ...]:
        """Returns the ranges that the access covers on the axes of a buffer of extents `dims`.

        `experts` is the number of experts of all `ranks`, 0 without a route.
        """
        pairs = enumerate(zip(self.selectors, dims, strict=True))
        return tuple(axis for i, (s, n) in pairs for axis in s.axes(i, n, ranks, experts))


def format_access(access: Access, names: Sequence[str]) -> str:
    """Returns the text of an access; `parse_access` reads it back."""
    selectors = ", ".join(s.text(names) for s in access.selectors)
    peer = "" if access.peer is None else f" on {format_index(access.peer, names)} "
    return f"{'scatter ' if access.scatter else ''}@{access.buffer}{peer}[{selectors}]"


def parse_access(parser: AttrParser, names: Sequence[str]) -> Access:
    """Reads an access whose index expressions are over the coordinates `names`."""
    scatter = parser.parse_optional_keyword("scatter") is not None
    buffer = parser.parse_symbol_name().data
    peer = parse_index(parser, names) if parser.parse_optional_keyword("on") else None
    selectors = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: _parse_selector(parser, names), " in an access"
    )
    return Access(buffer, tuple(selectors), peer, scatter)


def _parse_selector(parser: AttrParser, names: Sequence[str]) -> Selector:
    if parser.parse_optional_punctuation(":"):
        return WholeSelector()
    for selector in (BlockSelector, TileExpert, *ROW_SELECTORS.values()):
        # A coordinate may have the name of a selector.
        if selector.keyword not in names and parser.parse_optional_keyword(selector.keyword):
            with parser.in_parens():
                return selector.parse(parser, names)
    return IndexSelector(parse_index(parser, names))
