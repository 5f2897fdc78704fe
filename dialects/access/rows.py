"""Row selectors: the token rows of a buffer that a task reads or writes.

The expert, the source ranks and the chunk of rows are static; the number of rows comes from the
route at run time. A row selector therefore names a segment of rows by a `RowQuery`, and a chunk of
the segment. Passes and lowering use only the interface of the base class `RowSelector`; a new
selector is a subclass listed in `ROW_SELECTORS`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

import numpy as np
from xdsl.ir.affine import AffineExpr
from xdsl.parser import AttrParser

from hpmoe_ir.dialects.access.selector import (
    WHOLE_SEGMENT,
    AxisRange,
    Chunk,
    KeywordSelector,
    Range,
    TileCut,
    one_element,
    parse_count,
)
from hpmoe_ir.dialects.index import IntArray, format_index, index_values, parse_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.integers import ceil_div, round_up

IndexValues: TypeAlias = Callable[[AffineExpr], IntArray]
"""Values of an index expression at all grid points of a family on one rank, `[tasks]`."""


class RowKind(StrEnum):
    """Kind and order of the rows in dimension 0 of a buffer."""

    TOKENS = "tokens"
    """The rank's tokens, in order."""
    GROUPED = "grouped"
    """The rows that the rank's experts receive, sorted by (local expert, source rank)."""
    SENT = "sent"
    """The rows that the rank sends, sorted by global expert."""


@dataclass(frozen=True)
class RowCounts:
    """Row counts of one rank in one launch."""

    tokens: int
    """Tokens of the rank."""
    sent: int
    """Rows that the rank sends: one for each (token, expert) pair."""
    received: np.ndarray[Any, np.dtype[np.integer[Any]]]
    """Rows that each of the rank's experts receives, `[local experts]`."""

    def of_kind(self, kind: RowKind) -> int:
        """Returns the total number of rows of a kind."""
        match kind:
            case RowKind.TOKENS:
                return self.tokens
            case RowKind.SENT:
                return self.sent
            case RowKind.GROUPED:
                return int(self.received.sum())


class RowSegment(StrEnum):
    """A range of consecutive rows that a rank looks up in its route.

    Each member's docstring begins with the operands of its query.
    """

    TOKENS = "tokens"
    """`()`: all tokens of the rank."""
    GROUPED = "grouped"
    """`(e, g)`: rows received for local expert e from source group g."""
    SENT = "sent"
    """`(x)`: rows sent to global expert x, in send order."""
    DEST = "dest"
    """`(p, e)`: rows sent to local expert e of rank p, by their position in p's receive order."""
    RETURN = "return"
    """`(x, p)`: rows received from rank p for global expert x, one of the rank's own, by their
    position in p's send order."""
    TILE = "tile"
    """`(t)`: rows of the t-th tile of the rows that the rank's experts receive."""


@dataclass(frozen=True)
class RowQuery:
    """The rows of one task: a chunk of a segment, as index expressions."""

    segment: RowSegment
    operands: tuple[AffineExpr, ...]
    chunk: Chunk
    groups: int = 1
    """Number of source groups, for operand g of `GROUPED`."""
    cut: TileCut | None = None
    """How the rows are cut into tiles, for `TILE`."""


@dataclass(frozen=True)
class RowSelector(KeywordSelector):
    """A selector of token rows, in dimension 0 of a buffer."""

    kind: ClassVar[RowKind]
    """Kind of rows that the accessed buffer must have."""
    needs_route: ClassVar[bool] = True
    """Whether the rows are looked up in the route that the family uses."""
    put_rule: ClassVar[str] = ""
    """Message of the rule that `sender` must be the rank that runs a put of these rows."""

    @abstractmethod
    def query(self, peer: AffineExpr | None) -> RowQuery:
        """Returns the query for the rows, in the rank's own memory or in that of rank `peer`.

        For a put that its `sender` runs, the query without a peer, evaluated on the route of the
        receiving rank, gives the same number of rows, so the receiver knows which puts are empty.
        """

    @abstractmethod
    def total_rows(self, counts: RowCounts, extents: Sequence[int]) -> int:
        """Returns the rows of all tasks of a grid in total, on a rank with row counts `counts`."""

    @abstractmethod
    def balanced_rows(self, route: RouteType, at: IndexValues) -> Float64Array:
        """Returns the rows of each task, `[tasks]`, under balanced routing.

        Each rank has the largest number of tokens.
        """

    def problem(self, ranks: int, local_experts: int) -> str | None:
        """Returns an error message if the selector is invalid, else None.

        `local_experts` is the number of experts of each of `ranks` ranks, 0 without a route.
        """
        return None

    def sender(self, ranks: int, local_experts: int) -> AffineExpr | None:
        """Returns the rank that sends these rows; None where they come from several ranks."""
        return None

    @property
    def local_expert(self) -> AffineExpr | None:
        """The local expert of the rows; None for rows of several experts, or not grouped."""
        return None

    @property
    def source_group(self) -> AffineExpr | None:
        """The source group of the rows; None for rows from all ranks."""
        return None


@dataclass(frozen=True)
class TokenRows(RowSelector):
    """`tokens(b of B)` - the b-th of B parts of the rank's tokens."""

    keyword = "tokens"
    kind = RowKind.TOKENS
    needs_route = False

    index: AffineExpr
    count: int

    def text(self, names: Sequence[str]) -> str:
        return f"tokens({format_index(self.index, names)} of {self.count})"

    @classmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> TokenRows:
        index = parse_index(parser, names)
        parser.parse_keyword("of")
        return cls(index, parse_count(parser))

    def axes(self, dim: int, extent: int, ranks: int, experts: int) -> tuple[AxisRange, ...]:
        return (AxisRange("chunk", self.index, self.count, one_element, (self.count,)),)

    def query(self, peer: AffineExpr | None) -> RowQuery:
        return RowQuery(RowSegment.TOKENS, (), Chunk(self.index, self.count))

    def total_rows(self, counts: RowCounts, extents: Sequence[int]) -> int:
        return counts.tokens

    def balanced_rows(self, route: RouteType, at: IndexValues) -> Float64Array:
        return np.full(len(at(self.index)), route.tokens.data / self.count)


@dataclass(frozen=True)
class GroupedRows(RowSelector):
    """`grouped(e, g of G, chunk c of C by A)` - rows of local expert e from source group g."""

    keyword = "grouped"
    kind = RowKind.GROUPED
    put_rule = "a put writes the rows of its own rank"

    expert: AffineExpr
    group: AffineExpr
    groups: int
    chunk: Chunk = WHOLE_SEGMENT

    def text(self, names: Sequence[str]) -> str:
        expert, group = (format_index(e, names) for e in (self.expert, self.group))
        return f"grouped({expert}, {group} of {self.groups}{self.chunk.text(names)})"

    @classmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> GroupedRows:
        expert = parse_index(parser, names)
        parser.parse_punctuation(",")
        group = parse_index(parser, names)
        parser.parse_keyword("of")
        return cls(expert, group, parse_count(parser), Chunk.parse(parser, names))

    def axes(self, dim: int, extent: int, ranks: int, experts: int) -> tuple[AxisRange, ...]:
        groups, chunk = self.groups, self.chunk
        return (
            AxisRange("expert", self.expert, experts // ranks, one_element),
            AxisRange("source", self.group, groups, lambda g: group_bounds(g, groups, ranks)),
            _chunk_axis(chunk, (groups,)),
        )

    def query(self, peer: AffineExpr | None) -> RowQuery:
        if peer is not None:
            return RowQuery(RowSegment.DEST, (peer, self.expert), self.chunk)
        operands = (self.expert, self.group)
        return RowQuery(RowSegment.GROUPED, operands, self.chunk, self.groups)

    def total_rows(self, counts: RowCounts, extents: Sequence[int]) -> int:
        return int(counts.received[index_values(self.expert, extents, 1)].sum())

    def balanced_rows(self, route: RouteType, at: IndexValues) -> Float64Array:
        ranks, of_expert = route.ranks.data, _rows_of_expert(route)
        bounds = [group_bounds(g, self.groups, ranks) for g in range(self.groups)]
        segments = [(last - first) * of_expert for first, last in bounds]
        return _chunk_rows(self.chunk, segments)[at(self.group), at(self.chunk.index)]

    def problem(self, ranks: int, local_experts: int) -> str | None:
        if self.groups <= ranks:
            return None
        return f"{self.groups} source groups of {ranks} ranks"

    def sender(self, ranks: int, local_experts: int) -> AffineExpr | None:
        return self.group if self.groups == ranks else None

    @property
    def local_expert(self) -> AffineExpr | None:
        return self.expert

    @property
    def source_group(self) -> AffineExpr | None:
        return self.group if self.groups > 1 else None


@dataclass(frozen=True)
class SentRows(RowSelector):
    """`sent(x, chunk c of C by A)` - rows sent to global expert x, in send order."""

    keyword = "sent"
    kind = RowKind.SENT
    put_rule = "a put writes the rows of its own experts"

    expert: AffineExpr
    chunk: Chunk = WHOLE_SEGMENT

    def text(self, names: Sequence[str]) -> str:
        return f"sent({format_index(self.expert, names)}{self.chunk.text(names)})"

    @classmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> SentRows:
        return cls(parse_index(parser, names), Chunk.parse(parser, names))

    def axes(self, dim: int, extent: int, ranks: int, experts: int) -> tuple[AxisRange, ...]:
        expert = AxisRange("expert", self.expert, experts, one_element)
        return expert, _chunk_axis(self.chunk)

    def query(self, peer: AffineExpr | None) -> RowQuery:
        if peer is not None:
            return RowQuery(RowSegment.RETURN, (self.expert, peer), self.chunk)
        return RowQuery(RowSegment.SENT, (self.expert,), self.chunk)

    def total_rows(self, counts: RowCounts, extents: Sequence[int]) -> int:
        return counts.sent

    def balanced_rows(self, route: RouteType, at: IndexValues) -> Float64Array:
        return _chunk_rows(self.chunk, [_rows_of_expert(route)])[0, at(self.chunk.index)]

    def sender(self, ranks: int, local_experts: int) -> AffineExpr | None:
        return self.expert // local_experts


def group_bounds(group: int, groups: int, ranks: int) -> Range:
    """Returns the source ranks of source group `group` of `groups`: first, one past the last."""
    return group * ranks // groups, (group + 1) * ranks // groups


def chunk_bounds(rows: int, index: int, count: int, align: int) -> Range:
    """Returns the rows of chunk `index` of `count` of a segment of `rows` rows.

    Chunks have ceil(ceil(rows / count) / align) * align rows, the last ones possibly fewer or none.
    """
    size = round_up(ceil_div(rows, count), align)
    return min(index * size, rows), min((index + 1) * size, rows)


def _chunk_axis(chunk: Chunk, cut: tuple[int, ...] = ()) -> AxisRange:
    cut = (*cut, chunk.count, chunk.align)
    return AxisRange("chunk", chunk.index, chunk.count, one_element, cut)


def _rows_of_expert(route: RouteType) -> float:
    """Rows from one rank to one expert under balanced routing."""
    return route.tokens.data * route.top.data / route.experts.data


def _chunk_rows(chunk: Chunk, segments: Sequence[float]) -> Float64Array:
    """Returns the rows of each chunk of each segment, `[segments, chunks]`."""
    bounds = [
        [chunk_bounds(round(n), i, chunk.count, chunk.align) for i in range(chunk.count)]
        for n in segments
    ]
    return np.diff(np.array(bounds, dtype=np.float64), axis=2)[:, :, 0]
