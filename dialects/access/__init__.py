"""Accesses: the part of a buffer that a task reads or writes, as a function of its grid point.

An access has one selector for each dimension of its buffer. Columns and weights have static
selectors (`:`, `e`, `block(n by 256)`). Token rows have row selectors: the expert and the source
ranks are static; the number of rows comes from the route at run time.

```
@recv[grouped(e, g of 2, chunk c of 4 by 128), :]    // rows of local expert e from source group g
@w13[e, :, block(n by 256)]                          // 256 columns of the weights of expert e
@recv on p [grouped(e, rank of 8, chunk c of 1 by 1), :]   // the same rows in rank p's memory
@ret[sent(p * 4 + e, chunk 0 of 1 by 1), :]          // rows sent to global expert p * 4 + e
@out[tokens(b of 16), :]                             // the b-th of 16 equal parts of the tokens
@h[tile(t of 40 by 128), :]       // the t-th of at most 40 tiles of all experts' rows
@w13[expert(t of 40 by 128), :, block(n by 256)]     // columns of the weights of that tile's expert
scatter @order[:]        // elements of the buffer that no other task of the family writes
```

Chunk c of C by A of a segment of n rows: size = ceil(ceil(n / C) / A) * A rows from
min(c * size, n), so the last chunks may be shorter or empty. Tiles of A rows cut the rows of one
expert, from all ranks, and are numbered expert after expert; A grows to a multiple where they would
be more than 40. Source group g of G covers source
ranks floor(g * R / G) to floor((g + 1) * R / G) of R.
"""

from __future__ import annotations

from hpmoe_ir.dialects.access.access import (
    ROW_SELECTORS,
    Access,
    format_access,
    parse_access,
)
from hpmoe_ir.dialects.access.event_range import (
    EventRange,
    PartsOfTile,
    TilesOfPart,
    event_text,
    join_rows,
    parse_event,
)
from hpmoe_ir.dialects.access.rows import (
    GroupedRows,
    RowCounts,
    RowKind,
    RowQuery,
    RowSegment,
    RowSelector,
    SentRows,
    TokenRows,
    chunk_bounds,
    group_bounds,
)
from hpmoe_ir.dialects.access.selector import (
    AxisRange,
    BlockSelector,
    Chunk,
    IndexSelector,
    IndexValue,
    Range,
    Selector,
    StaticSelector,
    TileCut,
    WholeSelector,
)
from hpmoe_ir.dialects.access.tile_rows import TileExpert, TileRows, Tiles, cut_tiles

__all__ = [
    "ROW_SELECTORS",
    "Access",
    "AxisRange",
    "BlockSelector",
    "Chunk",
    "EventRange",
    "GroupedRows",
    "IndexSelector",
    "IndexValue",
    "PartsOfTile",
    "Range",
    "RowCounts",
    "RowKind",
    "RowQuery",
    "RowSegment",
    "RowSelector",
    "Selector",
    "SentRows",
    "StaticSelector",
    "TileCut",
    "TileExpert",
    "TileRows",
    "Tiles",
    "TilesOfPart",
    "TokenRows",
    "WholeSelector",
    "chunk_bounds",
    "cut_tiles",
    "event_text",
    "format_access",
    "group_bounds",
    "join_rows",
    "parse_access",
    "parse_event",
]
