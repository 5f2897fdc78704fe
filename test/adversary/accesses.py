"""The bytes that each task reads and writes under one routing, as bit masks of memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from adversary.routings import NO_ROWS, Routing, Span, Tables
from adversary.view import Buffer, Family, View, span_text, value
from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    Chunk,
    GroupedRows,
    IndexSelector,
    SentRows,
    TokenRows,
    WholeSelector,
)
from hpmoe_ir.dialects.tile import MemorySpace

Mask: TypeAlias = int
"""Bit i: the i-th granule of a buffer's copy."""

FRACTAL = 16
"""Columns that a kernel takes at a time, of tiles of activations."""

ROUTING = frozenset({"count_tokens", "exchange_counts", "place_tokens", "build_route"})
"""Kernels on integers, whose tiles have any number of columns."""

IN_PLACE = frozenset({"copy_rows", "add_rows"})
"""Kernels that may write exactly the tile that they read: they go through it element by element."""


class Harmful(Exception):
    """An execution goes wrong; `kind` is what a report counts by."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class OutsideContract(Exception):
    """A put of rows that are not its rank's own, which has no meaning: no code is made of it."""


@dataclass(frozen=True)
class Touch:
    """One access of one task: granules of the launch's copy of a buffer, on a rank."""

    rank: int
    buffer: str
    mask: Mask
    writes: bool


@dataclass(frozen=True)
class TaskWork:
    """What a task does under a routing."""

    touches: tuple[Touch, ...]
    empty: bool
    """Whether it has no rows to write, so that its kernel does not run."""


@dataclass
class Tile:
    """One operand: bounds of each dimension."""

    access: Access
    buffer: Buffer
    rank: int
    bounds: list[Span]

    @property
    def shape(self) -> list[int]:
        """Extents of the dimensions that no index drops."""
        pairs = zip(self.access.selectors, self.bounds, strict=True)
        return [hi - lo for s, (lo, hi) in pairs if not isinstance(s, IndexSelector)]


@dataclass
class Worker:
    """Works out tasks of a program under one routing."""

    view: View
    routing: Routing
    tables: Tables | None

    @property
    def granule(self) -> int:
        """Bytes of one bit of a mask."""
        return self.view.granule

    def work(self, family: Family, rank: int, point: tuple[int, ...]) -> TaskWork:
        """Returns what a task touches; raises Harmful for what lies outside a buffer."""
        route: tuple[Touch, ...] = ()
        if family.route is not None:
            buffer = self.view.buffers[family.route]
            route = (Touch(rank, family.route, (1 << self._granules(buffer)) - 1, False),)
        where = f"@{family.name} {point} on rank {rank}"
        writes = [self._tile(family, a, rank, point) for a in family.writes]
        if any(
            lo == hi
            for tile in writes
            for s, (lo, hi) in zip(tile.access.selectors, tile.bounds, strict=True)
            if isinstance(s, TokenRows | GroupedRows | SentRows)
        ):
            return TaskWork(route, True)
        reads = [self._tile(family, a, rank, point) for a in family.reads]
        _check_shapes(family, reads, writes)
        found = [*route]
        for number, tile in enumerate(reads):
            found.append(self._touch(where, tile, self._listed(family, reads, number), False))
        share = _share(family, rank, point)
        for number, tile in enumerate(writes):
            some = None
            if family.kernel == "place_tokens" and number == 0:
                some = self._placed(reads[0], rank)
            touch = self._touch(where, tile, some, True, share)
            found.append(touch)
            if family.options.get("accumulate"):
                found.append(Touch(touch.rank, touch.buffer, touch.mask, False))
        return TaskWork(tuple(found), False)

    def _tile(self, family: Family, access: Access, rank: int, point: tuple[int, ...]) -> Tile:
        buffer = self.view.buffers[access.buffer]
        peer = rank if access.peer is None else value(access.peer, point, rank)
        bounds: list[Span] = []
        for dim, (selector, extent) in enumerate(zip(access.selectors, buffer.dims, strict=True)):
            match selector:
                case WholeSelector():
                    bounds.append((0, extent))
                case IndexSelector():
                    at = value(selector.index, point, rank)
                    bounds.append((at, at + 1))
                case BlockSelector():
                    at = value(selector.index, point, rank) * selector.size
                    bounds.append((min(at, extent), min(at + selector.size, extent)))
                case TokenRows() | GroupedRows() | SentRows():
                    assert dim == 0
                    bounds.append(self._rows(family, access, selector, rank, point))
                case _:
                    raise AssertionError(f"no selector: {selector}")
        return Tile(access, buffer, peer, bounds)

    def _rows(
        self,
        family: Family,
        access: Access,
        selector: TokenRows | GroupedRows | SentRows,
        rank: int,
        point: tuple[int, ...],
    ) -> Span:
        tables = self.tables
        if isinstance(selector, TokenRows):
            rows = (0, self.routing.tokens[rank])
            if family.route is not None and tables is not None and not tables.fits:
                rows = NO_ROWS
            return _chunk(rows, value(selector.index, point, rank), selector.count, 1)
        assert tables is not None
        expert = value(selector.expert, point, rank)
        peer = None if access.peer is None else value(access.peer, point, rank)
        if isinstance(selector, GroupedRows):
            group = value(selector.group, point, rank)
            ranks, groups = tables.ranks, selector.groups
            first, last = group * ranks // groups, (group + 1) * ranks // groups
            if peer is not None:
                if (first, last) != (rank, rank + 1):
                    raise OutsideContract("a put of rows that are not the rank's own")
                rows = tables.grouped_rows(peer, expert, rank, rank + 1)
            else:
                rows = tables.grouped_rows(rank, expert, first, last)
        elif peer is not None:
            if expert // tables.local != rank:
                raise OutsideContract("a put of rows of another rank's expert")
            rows = tables.sent_rows(peer, expert)
        else:
            rows = tables.sent_rows(rank, expert)
        return _chunk(rows, *_chunk_of(selector.chunk, rank, point))

    def _listed(self, family: Family, reads: Sequence[Tile], number: int) -> list[int] | None:
        """Returns the elements (rows) of operand `number` that a list in another operand names."""
        match family.kernel, number:
            case "gather_rows", 0:
                (top,) = family.scalars
                return [p // top.eval((), ()) for p in self._order(reads[1])]
            case "gather_scaled_rows", 0:
                (top,) = family.scalars
                return [p // top.eval((), ()) for p in self._order(reads[2])]
            case "gather_scaled_rows", 1:
                top = reads[1].buffer.dims[1]
                return [p // top for p in self._order(reads[2])]
            case "weighted_sum" | "sum_copies" | "gate_gradient", 0:
                return self._positions(reads[1])
            case _:
                return None

    def _order(self, tile: Tile) -> list[int]:
        assert self.tables is not None
        return self.tables.order[tile.rank][slice(*tile.bounds[0])]

    def _positions(self, tile: Tile) -> list[int]:
        assert self.tables is not None
        top = self.tables.type.top.data
        lo, hi = tile.bounds[0]
        return self.tables.position[tile.rank][lo * top : hi * top]

    def _placed(self, ids: Tile, rank: int) -> list[int]:
        """Returns the elements of the order that a task of `place_tokens` writes."""
        return self._positions(ids)

    def _granules(self, buffer: Buffer) -> int:
        return buffer.copy_bytes // self.granule

    def _touch(
        self,
        where: str,
        tile: Tile,
        listed: list[int] | None,
        writes: bool,
        share: tuple[int, int, int, int] | None = None,
    ) -> Touch:
        buffer, bounds = tile.buffer, tile.bounds
        limits = list(buffer.dims)
        if buffer.rows == "tokens" and buffer.space.is_of_caller:
            limits[0] = min(limits[0], self.routing.tokens[tile.rank])
        if listed is not None:
            first = bounds[0][0]
            rows = [(first + r, first + r + 1) for r in sorted(set(listed))]
        else:
            rows = [bounds[0]]
        for dim, limit in enumerate(limits):
            for span in rows if dim == 0 else [bounds[dim]]:
                if not 0 <= span[0] <= span[1] <= limit:
                    verb = "writes" if writes else "reads"
                    raise Harmful(
                        "address",
                        f"{where} {verb} {span_text(span)} of dimension {dim} of @{buffer.name}, "
                        f"which has {limit}",
                    )
        strides = [buffer.element // self.granule] if buffer.element >= self.granule else []
        if strides:
            for dim in reversed(buffer.dims[1:]):
                strides.insert(0, strides[0] * dim)
            spans = [tuple(b) for b in bounds]
        else:
            # A granule is a run of elements of the last dimension.
            per = self.granule // buffer.element
            strides = [1]
            for i, dim in enumerate(reversed(buffer.dims[1:])):
                strides.insert(0, strides[0] * (dim // per if i == 0 else dim))
            spans = [*map(tuple, bounds[:-1]), tuple(b // per for b in bounds[-1])]
        mask = 0
        if share is not None:
            mask = self._shared(tile, share, strides)
        elif listed is not None:
            for row in rows:
                mask |= _box((row, *spans[1:]), tuple(strides))
        else:
            mask = _box(tuple(spans), tuple(strides))
        return Touch(tile.rank, buffer.name, mask, writes)

    def _shared(self, tile: Tile, share: tuple[int, int, int, int], strides: list[int]) -> Mask:
        """Granules of every `step`-th block of a result from the `first` on."""
        first, step, m, n = share
        per = max(1, self.granule // tile.buffer.element)
        *outer, (row, row_end), (col, col_end) = tile.bounds
        across = -(-(col_end - col) // n)
        count = -(-(row_end - row) // m) * across
        mask = 0
        for block in range(first, count, step):
            r, c = row + block // across * m, col + block % across * n
            cols = (c // per, min(c + n, col_end) // per)
            spans = (*outer, (r, min(r + m, row_end)), cols)
            mask |= _box(spans, tuple(strides))
        return mask


def _chunk(rows: Span, index: int, count: int, align: int) -> Span:
    size = -(-(rows[1] - rows[0]) // count)
    size = -(-size // align) * align
    begin, end = rows
    return min(begin + index * size, end), min(begin + (index + 1) * size, end)


def _chunk_of(chunk: Chunk, rank: int, point: tuple[int, ...]) -> tuple[int, int, int]:
    return value(chunk.index, point, rank), chunk.count, chunk.align


@cache
def _repeated(stride: int, times: int) -> Mask:
    """Bits 0, `stride`, ... of `times` repetitions."""
    if times <= 0:
        return 0
    return ((1 << (stride * times)) - 1) // ((1 << stride) - 1)


@cache
def _box(spans: tuple[Span, ...], strides: tuple[int, ...]) -> Mask:
    """The granules of a box."""
    mask = 1 if strides[-1] == 1 else (1 << strides[-1]) - 1
    for (lo, hi), stride in zip(reversed(spans), reversed(strides), strict=True):
        if hi <= lo:
            return 0
        # The runs of a dimension never overlap those of its neighbour.
        mask = (mask * _repeated(stride, hi - lo)) << (lo * stride)
    return mask


def _share(family: Family, rank: int, point: tuple[int, ...]) -> tuple[int, int, int, int] | None:
    if not family.kernel.endswith("_share"):
        return None
    first, step = (value(s, point, rank) for s in family.scalars[-2:])
    return first, step, family.options["tile_m"], family.options["tile_n"]


def _check_shapes(family: Family, reads: Sequence[Tile], writes: Sequence[Tile]) -> None:
    """Raises Harmful for tiles on which the device function traps (`Require` in its header)."""
    kernel = family.kernel.removesuffix("_share")
    r, w = [t.shape for t in reads], [t.shape for t in writes]
    rows = w if kernel != "gate_gradient" else r[:1]
    right = kernel in ROUTING or all(s[-1] % FRACTAL == 0 for s in rows)
    match kernel if right else "":
        case "copy_rows" | "add_rows":
            right = all(_rows_columns(s) == _rows_columns(w[0]) for s in r)
        case "swiglu":
            right = r[0][0] == w[0][0] and r[0][1] == 2 * w[0][1]
        case "swiglu_grad":
            right = r[0] == w[0] and r[0][0] == r[1][0] and r[0][1] == 2 * r[1][1]
        case "grouped_matmul":
            k, n = reversed(r[1]) if family.options["transpose_rhs"] else r[1]
            right = r[0][0] == w[0][0] and r[0][1] == k and w[0][1] == n
        case "weight_gradient":
            right = r[0][0] == r[1][0] and w[0] == [r[0][1], r[1][1]]
        case "gather_rows" | "gather_scaled_rows":
            right = w[0][0] == r[-1][0] and w[0][1] == r[0][1]
        case "weighted_sum":
            right = r[1] == r[2] and r[1][0] == w[0][0] and r[0][1] == w[0][1]
        case "sum_copies":
            right = r[1][0] == w[0][0] and r[0][1] == w[0][1]
        case "gate_gradient":
            right = r[1] == w[0] and r[2][0] == w[0][0] and r[2][1] == r[0][1]
        case _:
            pass
    if not right:
        raise Harmful("tiles", f"@{family.name}: tiles {r} give {w}, kernel '{kernel}' traps")


def _rows_columns(shape: Sequence[int]) -> tuple[int, ...]:
    """A tile of one dimension is a single row."""
    return tuple(shape) if len(shape) > 1 else (1, *shape)


def check_operands(view: View, family: Family, work: TaskWork) -> None:
    """Raises Harmful where a task writes over what it itself uses, or over an input."""
    for touch in work.touches:
        if touch.writes and view.buffers[touch.buffer].space is MemorySpace.INPUT:
            raise Harmful("input", f"@{family.name} writes @{touch.buffer}")
    placed = [(t, *_place(view, t)) for t in work.touches]
    for i, (one, place, at) in enumerate(placed):
        if not one.writes:
            continue
        for j, (other, other_place, other_at) in enumerate(placed):
            if i == j or place != other_place or not other.mask:
                continue
            if other.writes and j < i:
                continue
            same = at == other_at and one.mask == other.mask
            if same and not other.writes and one.buffer == other.buffer:
                if family.kernel in IN_PLACE or family.options.get("accumulate"):
                    continue
            # The route is read before the kernel runs, and by its builder afterwards.
            if _overlap(view, one, at, other, other_at):
                raise Harmful(
                    "in place", f"@{family.name} uses @{other.buffer} and writes @{one.buffer}"
                )


def _place(view: View, touch: Touch) -> tuple[tuple[int, str], int]:
    buffer = view.buffers[touch.buffer]
    if buffer.offset is None:
        return (touch.rank, touch.buffer), 0
    return (touch.rank, buffer.space.value), buffer.offset


def _overlap(view: View, one: Touch, at: int, other: Touch, other_at: int) -> bool:
    return bool((one.mask << at // view.granule) & (other.mask << other_at // view.granule))


def bits(mask: int) -> Iterable[int]:
    """Yields the numbers of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
