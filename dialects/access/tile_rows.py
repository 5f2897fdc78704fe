"""Tiles of grouped rows: selectors whose expert, not only whose number of rows, the route decides.

A part of an expert's rows from one source rank rarely fills whole matrix tiles. Here the rows of an
expert from all ranks are cut into tiles, and the tiles of a rank's experts are numbered one after
the other. Which expert a tile is of is therefore known at run time only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir.affine import AffineExpr
from xdsl.parser import AttrParser

from hpmoe_ir.dialects.access.rows import (
    IndexValues,
    RowCounts,
    RowKind,
    RowQuery,
    RowSegment,
    RowSelector,
)
from hpmoe_ir.dialects.access.selector import (
    WHOLE_SEGMENT,
    AxisRange,
    KeywordSelector,
    Range,
    TileCut,
    one_element,
)
from hpmoe_ir.dialects.index import IntArray, format_index, parse_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.integers import ceil_div


@dataclass(frozen=True)
class Tiles:
    """The tiles of one rank in one launch, and the parts of its rows."""

    height: int
    """Most rows of a tile."""
    first: IntArray
    """int64[L + 1]: number of the first tile of each local expert, then the number of tiles."""
    begin: IntArray
    """int64[L, R + 1]: first row of each part (local expert, source rank), then the end of the
    expert's rows."""

    def expert(self, tile: int) -> int:
        """Returns the local expert of a tile; 0 for a tile without rows."""
        if tile >= self.first[-1]:
            return 0
        return int(np.searchsorted(self.first, tile, side="right")) - 1

    def rows(self, tile: int) -> Range:
        """Returns the rows of a tile; an empty range for the tiles after the last one."""
        if tile >= self.first[-1]:
            return 0, 0
        expert = self.expert(tile)
        low = int(self.begin[expert, 0]) + (tile - int(self.first[expert])) * self.height
        return low, min(low + self.height, int(self.begin[expert, -1]))

    def parts(self, tile: int) -> Range:
        """Returns the parts that have rows of a tile, numbered by (local expert, source rank).

        Parts without rows are among them if others before and after them have some.
        """
        low, high = self.rows(tile)
        if low == high:
            return 0, 0
        expert, begin = self.expert(tile), self.begin[self.expert(tile)]
        at = expert * (len(begin) - 1)
        first = int(np.searchsorted(begin[1:], low, side="right"))
        return at + first, at + int(np.searchsorted(begin[:-1], high, side="left"))

    def covering(self, expert: int, sources: Range) -> Range:
        """Returns the tiles that have rows of a local expert from a range of source ranks."""
        low, high = (int(self.begin[expert, s]) for s in sources)
        if low == high:
            return 0, 0
        first, begin = int(self.first[expert]), int(self.begin[expert, 0])
        return first + (low - begin) // self.height, first + ceil_div(high - begin, self.height)


def cut_tiles(cut: TileCut, received: IntArray) -> Tiles:
    """Cuts the rows that a rank receives, `received[e, s]` for local expert e from rank s.

    A tile has `cut.rows` rows, or the least multiple of that for which there are at most
    `cut.count` tiles. The last tile of an expert may have fewer. Raises ValueError for fewer tiles
    than experts.
    """
    experts, ranks = received.shape
    if experts > cut.count:
        raise ValueError(f"{cut.count} tiles for {experts} experts")
    rows = received.sum(axis=1)
    height = cut.rows
    while (counts := -(-rows // height)).sum() > cut.count:
        height += cut.rows
    ends = np.cumsum(received.ravel()).reshape(experts, ranks)
    begin = np.concatenate([ends[:, :1] - received[:, :1], ends], axis=1)
    return Tiles(height, np.concatenate([[0], np.cumsum(counts)]), begin)


@dataclass(frozen=True)
class TileRows(RowSelector):
    """`tile(t of 300 by 128)` - rows of the t-th of at most 300 tiles of the grouped rows."""

    keyword = "tile"
    kind = RowKind.GROUPED

    index: AffineExpr
    cut: TileCut

    def text(self, names: Sequence[str]) -> str:
        return f"tile({format_index(self.index, names)} {self.cut.text()})"

    @classmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> TileRows:
        return cls(parse_index(parser, names), TileCut.parse(parser))

    def axes(self, dim: int, extent: int, ranks: int, experts: int) -> tuple[AxisRange, ...]:
        cut = (self.cut.count, self.cut.rows)
        return (AxisRange("tile", self.index, self.cut.count, one_element, cut),)

    def query(self, peer: AffineExpr | None) -> RowQuery:
        return RowQuery(RowSegment.TILE, (self.index,), WHOLE_SEGMENT, cut=self.cut)

    def total_rows(self, counts: RowCounts, extents: Sequence[int]) -> int:
        return int(counts.received.sum())

    def balanced_rows(self, route: RouteType, at: IndexValues) -> Float64Array:
        sent = route.tokens.data * route.top.data / route.experts.data
        shape = (route.local_experts, route.ranks.data)
        tiles = cut_tiles(self.cut, np.full(shape, round(sent), dtype=np.int64))
        rows = [tiles.rows(t) for t in range(self.cut.count)]
        return np.diff(np.array(rows, dtype=np.float64), axis=1)[:, 0][at(self.index)]

    def problem(self, ranks: int, local_experts: int) -> str | None:
        return self.cut.problem(local_experts)


@dataclass(frozen=True)
class TileExpert(KeywordSelector):
    """`expert(t of 300 by 128)` - the local expert of the t-th tile; the dimension is dropped.

    Of a tile without rows it is expert 0, whose elements no task then reads.
    """

    keyword = "expert"
    drops_dimension = True

    index: AffineExpr
    cut: TileCut

    def text(self, names: Sequence[str]) -> str:
        return f"expert({format_index(self.index, names)} {self.cut.text()})"

    @classmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> TileExpert:
        return cls(parse_index(parser, names), TileCut.parse(parser))

    def axes(self, dim: int, extent: int, ranks: int, experts: int) -> tuple[AxisRange, ...]:
        # Any expert, that is, the whole dimension.
        return ()
