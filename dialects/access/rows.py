"""Row selectors: which token rows of a buffer a task reads or writes.

Which expert's rows, from which source ranks, which part of them: that is static. How many rows
that is comes from the route at run time. A row selector therefore names a segment of rows, by a
`RowQuery`, and a chunk of the segment. All that reads accesses asks the base class `RowSelector`;
a further selector is a subclass in `ROW_SELECTORS`.
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
    """What the rows of dimension 0 of a buffer are, and in which order."""

    TOKENS = "tokens"
    """The tokens that the rank brings, in their order."""
    GROUPED = "grouped"
    """The rows received by the rank's experts: by local expert, then by source rank."""
    SENT = "sent"
    """The rows that the rank sends: by global expert."""


@dataclass(frozen=True)
class RowCounts:
    """Rows of one rank in one launch."""

    tokens: int
    """Tokens that the rank brings."""
    sent: int
    """Rows that it sends: one for each of a token's experts."""
    received: np.ndarray[Any, np.dtype[np.integer[Any]]]
    """Rows that each of its experts receives, `[local experts]`."""

    def of_kind(self, kind: RowKind) -> int:
        """Returns the number of all rows of a kind."""
        match kind:
            case RowKind.TOKENS:
                return self.tokens
            case RowKind.SENT:
                return self.sent
            case RowKind.GROUPED:
                return int(self.received.sum())


class RowSegment(StrEnum):
    """A run of consecutive rows that a rank finds by its route.

    With each segment come the operands of its query.
    """

    TOKENS = "tokens"
    """`()`: all tokens that the rank brings."""
    GROUPED = "grouped"
    """`(e, g)`: rows received for local expert e from source group g."""
    SENT = "sent"
    """`(x)`: rows of the send order that go to global expert x."""
    DEST = "dest"
    """`(p, e)`: the rows sent to local expert e of rank p, in p's receive order."""
    RETURN = "return"
    """`(x, p)`: the rows received from rank p for global expert x, one of the rank's own, in p's
    send order."""


@dataclass(frozen=True)
class RowQuery:
    """The rows of one task: a chunk of a segment, as index expressions."""

    segment: RowSegment
    operands: tuple[AffineExpr, ...]
    chunk: Chunk
    groups: int = 1
    """Source groups that operand g of `GROUPED` counts."""


@dataclass(frozen=True)
class RowSelector(KeywordSelector):
    """A selector of token rows, in dimension 0 of a buffer."""

    kind: ClassVar[RowKind]
    """Rows that a buffer must have to be accessed by the selector."""
    needs_route: ClassVar[bool] = True
    """Whether the rows are found by the route that the family uses."""
    put_rule: ClassVar[str] = ""
    """What a put of these rows has to fulfil: `sender` is the rank that runs it."""

    @abstractmethod
    def query(self, peer: AffineExpr | None) -> RowQuery:
        """Returns which rows those are, in the rank's own memory or in that of rank `peer`.

        For a put whose `sender` is right, the query without a peer, asked of the route of the
        receiving rank, has as many rows: so the receiver knows which puts to it are empty.
        """

    @abstractmethod
    def total_rows(self, counts: RowCounts, extents: Sequence[int]) -> int:
        """Returns the rows of all tasks of a grid together, on a rank that has `counts`."""

    @abstractmethod
    def balanced_rows(self, route: RouteType, at: IndexValues) -> Float64Array:
        """Returns the rows of each task, `[tasks]`, where all experts get as many rows.

        Each rank brings as many tokens as it may.
        """

    def problem(self, ranks: int) -> str | None:
        """Returns what is wrong with the selector in a program on so many ranks."""
        return None

    def sender(self, ranks: int, local_experts: int) -> AffineExpr | None:
        """Returns the rank that has these rows for a peer; None where they are of several."""
        return None

    @property
    def local_expert(self) -> AffineExpr | None:
        """The expert of the rank whose rows those are; None for rows of several, or not grouped."""
        return None

    @property
    def source_group(self) -> AffineExpr | None:
        """The group of source ranks that the rows came from; None for rows from all ranks."""
        return None


@dataclass(frozen=True)
class TokenRows(RowSelector):
    """`tokens(b of B)` - the b-th of B parts of the tokens that the rank brings."""

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

    def problem(self, ranks: int) -> str | None:
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
    """`sent(x, chunk c of C by A)` - rows of the send order that go to global expert x."""

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


ROW_SELECTORS: dict[str, type[RowSelector]] = {
    s.keyword: s for s in (TokenRows, GroupedRows, SentRows)
}
"""The row selectors by their keyword in text."""


def group_bounds(group: int, groups: int, ranks: int) -> Range:
    """Returns the source ranks of source group `group` of `groups`: first, one past the last."""
    return group * ranks // groups, (group + 1) * ranks // groups


def chunk_bounds(rows: int, index: int, count: int, align: int) -> Range:
    """Returns the rows of chunk `index` of `count` of a segment of `rows` rows.

    All chunks but the last have as many rows, a multiple of `align`; the last may have fewer, or
    none.
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
    """Rows of each chunk of segments of so many rows, `[segments, chunks]`."""
    bounds = [
        [chunk_bounds(round(n), i, chunk.count, chunk.align) for i in range(chunk.count)]
        for n in segments
    ]
    return np.diff(np.array(bounds, dtype=np.float64), axis=2)[:, :, 0]
