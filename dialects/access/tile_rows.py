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
    """The tiles of one rank in one launch."""

    height: int
    """Most rows of a tile."""
    first: IntArray
    """int64[L + 1]: number of the first tile of each local expert, then the number of tiles."""
    begin: IntArray
    """int64[L + 1]: first row of each local expert, then the number of rows."""

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
        low = int(self.begin[expert]) + (tile - int(self.first[expert])) * self.height
        return low, min(low + self.height, int(self.begin[expert + 1]))

    def covering(self, expert: int, rows: Range) -> Range:
        """Returns the tiles that have some of `rows`, which are all of one local expert."""
        if rows[0] == rows[1]:
            return 0, 0
        first, begin = int(self.first[expert]), int(self.begin[expert])
        low = first + (rows[0] - begin) // self.height
        return low, first + ceil_div(rows[1] - begin, self.height)


def cut_tiles(cut: TileCut, received: Sequence[int]) -> Tiles:
    """Cuts the rows that a rank's experts receive, `received[e]` for local expert e, into tiles.

    A tile has `cut.rows` rows, or the least multiple of that for which there are at most
    `cut.count` tiles. The last tile of an expert may have fewer. Needs no more experts than tiles.
    """
    if len(received) > cut.count:
        raise ValueError(f"{cut.count} tiles for {len(received)} experts")
    height = cut.rows
    while sum(ceil_div(n, height) for n in received) > cut.count:
        height += cut.rows
    counts = [ceil_div(n, height) for n in received]
    return Tiles(height, _starts(counts), _starts(received))


def _starts(sizes: Sequence[int]) -> IntArray:
    return np.cumsum([0, *sizes], dtype=np.int64)


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
        tiles = cut_tiles(self.cut, [round(route.ranks.data * sent)] * route.local_experts)
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
