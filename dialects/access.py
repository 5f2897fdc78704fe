"""Regions: the part of a buffer that a task reads or writes, as a function of its grid point.

A region has one selector for each dimension of its buffer. Columns and weights have static
selectors (`:`, `e`, `block(n by 256)`). Token rows have dynamic ones: which expert's rows, from
which source ranks, is static; how many rows that is comes from the route at run time.

```
@recv[grouped(e, g of 2, chunk c of 4 by 128), :]    // rows of local expert e from source group g
@w13[e, :, block(n by 256)]                          // 256 columns of the weights of expert e
@recv on p [grouped(e, rank of 8, chunk c of 1 by 1), :]   // the same rows in rank p's memory
@ret[sent(p * 4 + e, chunk 0 of 1 by 1), :]          // rows sent to global expert p * 4 + e
@out[tokens(b of 16), :]                             // the b-th of 16 equal parts of the tokens
scatter @order[:]        // somewhere in the buffer, apart from what other tasks of the family write
```

Chunk c of C by A of a segment of n rows: size = ceil(ceil(n / C) / A) * A rows from
min(c * size, n), so the last chunks may be shorter or empty. Source group g of G covers source
ranks floor(g * R / G) to floor((g + 1) * R / G) of R.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.ir.affine import AffineExpr
from xdsl.parser import AttrParser

from hpmoe_ir.dialects.index import MOST_CONSTANT, format_index, parse_index

ZERO = AffineExpr.constant(0)


@dataclass(frozen=True)
class Chunk:
    """Chunk `index` of `count` of a segment of rows, cut at multiples of `align` rows."""

    index: AffineExpr = ZERO
    count: int = 1
    align: int = 1


@dataclass(frozen=True)
class WholeSelector:
    """`:` - the whole dimension."""


@dataclass(frozen=True)
class IndexSelector:
    """`e` - one index of a static dimension; the tile does not have the dimension."""

    index: AffineExpr


@dataclass(frozen=True)
class BlockSelector:
    """`block(n by 256)` - elements n * 256 to (n + 1) * 256, clipped to the dimension."""

    index: AffineExpr
    size: int


@dataclass(frozen=True)
class GroupedRows:
    """`grouped(e, g of G, chunk c of C by A)` - rows of local expert e from source group g."""

    expert: AffineExpr
    group: AffineExpr
    groups: int
    chunk: Chunk = Chunk()


@dataclass(frozen=True)
class SentRows:
    """`sent(x, chunk c of C by A)` - rows of the send order that go to global expert x."""

    expert: AffineExpr
    chunk: Chunk = Chunk()


@dataclass(frozen=True)
class TokenRows:
    """`tokens(b of B)` - the b-th of B parts of the tokens that the rank brings."""

    index: AffineExpr
    count: int


Selector: TypeAlias = (
    WholeSelector | IndexSelector | BlockSelector | GroupedRows | SentRows | TokenRows
)
RowSelector: TypeAlias = GroupedRows | SentRows | TokenRows


@dataclass(frozen=True)
class Access:
    """What a task reads or writes of one buffer."""

    buffer: str
    selectors: tuple[Selector, ...]
    peer: AffineExpr | None = None
    """The rank whose memory is meant; None is the rank that runs the task."""
    scatter: bool = False
    """Each task writes its own elements inside the region, apart from those of its family."""

    def map_exprs(self, change: Callable[[AffineExpr], AffineExpr]) -> Access:
        """The region with `change` applied to every index expression."""
        return replace(
            self,
            selectors=tuple(_map_selector(s, change) for s in self.selectors),
            peer=None if self.peer is None else change(self.peer),
        )

    @property
    def rows(self) -> RowSelector | None:
        """The selector of dynamic rows, if the region has one."""
        for selector in self.selectors:
            if isinstance(selector, GroupedRows | SentRows | TokenRows):
                return selector
        return None


def _map_selector(s: Selector, change: Callable[[AffineExpr], AffineExpr]) -> Selector:
    match s:
        case WholeSelector():
            return s
        case IndexSelector() | BlockSelector() | TokenRows():
            return replace(s, index=change(s.index))
        case GroupedRows():
            return replace(
                s,
                expert=change(s.expert),
                group=change(s.group),
                chunk=replace(s.chunk, index=change(s.chunk.index)),
            )
        case SentRows():
            return replace(
                s, expert=change(s.expert), chunk=replace(s.chunk, index=change(s.chunk.index))
            )


def selector_exprs(s: Selector) -> tuple[AffineExpr, ...]:
    """The index expressions of a selector."""
    match s:
        case WholeSelector():
            return ()
        case IndexSelector() | BlockSelector() | TokenRows():
            return (s.index,)
        case GroupedRows():
            return (s.expert, s.group, s.chunk.index)
        case SentRows():
            return (s.expert, s.chunk.index)


def access_exprs(region: Access) -> tuple[AffineExpr, ...]:
    """All index expressions of a region."""
    exprs = [e for s in region.selectors for e in selector_exprs(s)]
    return tuple(exprs) if region.peer is None else (*exprs, region.peer)


def group_bounds(group: int, groups: int, ranks: int) -> tuple[int, int]:
    """Source ranks [first, last) of source group `group` of `groups`."""
    return group * ranks // groups, (group + 1) * ranks // groups


def chunk_bounds(rows: int, index: int, count: int, align: int) -> tuple[int, int]:
    """Rows [begin, end) of chunk `index` of `count` of a segment of `rows` rows."""
    size = -(-(-(-rows // count)) // align) * align
    return min(index * size, rows), min((index + 1) * size, rows)


def format_access(region: Access, names: Sequence[str]) -> str:
    """Text of a region; `parse_access` reads it back."""
    selectors = ", ".join(_format_selector(s, names) for s in region.selectors)
    peer = "" if region.peer is None else f" on {format_index(region.peer, names)} "
    return f"{'scatter ' if region.scatter else ''}@{region.buffer}{peer}[{selectors}]"


def _format_selector(s: Selector, names: Sequence[str]) -> str:
    def text(expr: AffineExpr) -> str:
        return format_index(expr, names)

    def chunk(c: Chunk) -> str:
        if c == Chunk():
            return ""
        return f", chunk {text(c.index)} of {c.count} by {c.align}"

    match s:
        case WholeSelector():
            return ":"
        case IndexSelector():
            return text(s.index)
        case BlockSelector():
            return f"block({text(s.index)} by {s.size})"
        case GroupedRows():
            return f"grouped({text(s.expert)}, {text(s.group)} of {s.groups}{chunk(s.chunk)})"
        case SentRows():
            return f"sent({text(s.expert)}{chunk(s.chunk)})"
        case TokenRows():
            return f"tokens({text(s.index)} of {s.count})"


def parse_access(parser: AttrParser, names: Sequence[str]) -> Access:
    """Reads a region whose index expressions are over the coordinates `names`."""
    scatter = parser.parse_optional_keyword("scatter") is not None
    buffer = parser.parse_symbol_name().data
    peer = parse_index(parser, names) if parser.parse_optional_keyword("on") else None
    selectors = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: _parse_selector(parser, names), " in a region"
    )
    return Access(buffer, tuple(selectors), peer, scatter)


def _parse_count(parser: AttrParser) -> int:
    start = parser.pos
    value = parser.parse_integer(allow_boolean=False)
    if value <= 0:
        parser.raise_error(f"expected a positive number, found {value}", start, parser.pos)
    if value > MOST_CONSTANT:
        parser.raise_error(
            f"expected a number of at most {MOST_CONSTANT}, found {value}", start, parser.pos
        )
    return value


def _parse_chunk(parser: AttrParser, names: Sequence[str]) -> Chunk:
    if not parser.parse_optional_punctuation(","):
        return Chunk()
    parser.parse_keyword("chunk")
    index = parse_index(parser, names)
    parser.parse_keyword("of")
    count = _parse_count(parser)
    parser.parse_keyword("by")
    return Chunk(index, count, _parse_count(parser))


def _parse_selector(parser: AttrParser, names: Sequence[str]) -> Selector:
    if parser.parse_optional_punctuation(":"):
        return WholeSelector()
    for keyword in ("block", "grouped", "sent", "tokens"):
        if keyword not in names and parser.parse_optional_keyword(keyword):
            with parser.in_parens():
                return _parse_selector_body(parser, keyword, names)
    return IndexSelector(parse_index(parser, names))


def _parse_selector_body(parser: AttrParser, keyword: str, names: Sequence[str]) -> Selector:
    index = parse_index(parser, names)
    match keyword:
        case "block":
            parser.parse_keyword("by")
            return BlockSelector(index, _parse_count(parser))
        case "grouped":
            parser.parse_punctuation(",")
            group = parse_index(parser, names)
            parser.parse_keyword("of")
            groups = _parse_count(parser)
            return GroupedRows(index, group, groups, _parse_chunk(parser, names))
        case "sent":
            return SentRows(index, _parse_chunk(parser, names))
        case _:
            parser.parse_keyword("of")
            return TokenRows(index, _parse_count(parser))
