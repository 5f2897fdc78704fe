"""Memory of a tile or queue program in NumPy: an array for each buffer of each rank, and the tiles
of a task as views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineExpr
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.dialects.access import (
    Access,
    EventRange,
    Range,
    RowQuery,
    RowSegment,
    RowSelector,
    Selector,
    StaticSelector,
    TileCut,
    TileExpert,
    Tiles,
    chunk_bounds,
    cut_tiles,
    group_bounds,
)
from hpmoe_ir.dialects.index import IntArray, evaluate_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, TasksOp, buffer_route_type, buffer_type
from hpmoe_ir.dialects.tile.signature import GIVEN
from hpmoe_ir.interpreter.values import Array, fresh, rounded
from hpmoe_ir.kernels.kernel import TileView
from hpmoe_ir.kernels.route_layout import STATUS_OK, STATUS_OVER_CAPACITY, RouteLayout

_EMPTY = (0, 0)


def _fresh_buffer(buffer: BufferOp) -> list[Array]:
    """Returns the copies of a buffer, filled with the marker of unwritten memory."""
    if isinstance(buffer.type, RouteType):
        route = buffer.type
        words = RouteLayout(route.experts.data, route.ranks.data).words
        return [np.full(words, -0x5A5A5A5A, np.int32)]
    type = buffer_type(buffer)
    return [fresh(type.dims, type.element_type) for _ in range(buffer.copies.value.data)]


@dataclass
class RankMemory:
    """The memory of one rank: all copies of all buffers, and its number of tokens."""

    buffers: Mapping[str, BufferOp]
    arrays: dict[str, list[Array]] = field(default_factory=dict[str, list[Array]])
    tokens: int = 0
    launch: int = 0

    def start(self, inputs: Mapping[str, Array]) -> None:
        """Begins a launch: sets the inputs and resets all memory except the windows."""
        self.launch += 1
        self.tokens = -1
        for name, buffer in self.buffers.items():
            if buffer.space.data is not MemorySpace.WINDOW or name not in self.arrays:
                self.arrays[name] = _fresh_buffer(buffer)
            if buffer.space.data in GIVEN:
                self._fill(name, buffer, inputs)

    def _fill(self, name: str, buffer: BufferOp, inputs: Mapping[str, Array]) -> None:
        if name not in inputs:
            raise InterpretationError(f"no value for input @{name}")
        value, type = inputs[name], buffer_type(buffer)
        rows = type.rows.data == "tokens"
        shape = (value.shape[0], *type.dims[1:]) if type.rows.data and value.ndim else type.dims
        if value.shape != shape or value.shape[0] > type.dims[0]:
            raise InterpretationError(
                f"@{name}: expected a value of {type}, found an array of shape {list(value.shape)}"
            )
        if rows:
            if self.tokens not in (-1, value.shape[0]):
                raise InterpretationError(
                    f"@{name}: expected {self.tokens} token rows as other inputs have, found "
                    f"{value.shape[0]}"
                )
            self.tokens = value.shape[0]
        target = self.arrays[name][0]
        target[: value.shape[0]] = rounded(value, type.element_type)

    def array(self, name: str) -> Array:
        """Returns the copy of a buffer that this launch uses."""
        copies = self.arrays[name]
        return copies[self.launch % len(copies)]


class Route:
    """The row ranges of one rank's route, as the device reads them.

    All ranges are empty if the capacity is exceeded.
    """

    def __init__(self, words: Array, type: RouteType, rank: int) -> None:
        self.words = words
        self.type = type
        self.rank = rank
        self.layout = RouteLayout(type.experts.data, type.ranks.data)
        self.ok = int(words[0]) == STATUS_OK

    def segment(self, kind: RowSegment, operands: Sequence[int], groups: int) -> Range:
        """Returns the rows of a segment; `groups` is the number of source groups of `GROUPED`."""
        match kind, operands:
            case RowSegment.GROUPED, (expert, group):
                return self._grouped(expert, *group_bounds(group, groups, self.type.ranks.data))
            case RowSegment.SENT, (expert,):
                return self._sent(expert)
            case RowSegment.DEST, (peer, expert):
                expert += peer * self.type.local_experts
                return self._moved(self.layout.dest_begin + expert, self._sent(expert))
            case RowSegment.RETURN, (expert, peer):
                expert -= self.rank * self.type.local_experts
                at = self.layout.return_begin + expert * self.type.ranks.data + peer
                return self._moved(at, self._grouped(expert, peer, peer + 1))
            case _:
                raise AssertionError(f"no rows of a route: {kind} {operands}")

    def tiles(self, cut: TileCut) -> Tiles:
        """Returns the tiles of the rows that the rank receives; none over the capacity."""
        shape = (self.type.local_experts, self.type.ranks.data)
        begin = self.words[self.layout.received_begin :][: shape[0] * shape[1] + 1]
        received = np.diff(begin) if self.ok else np.zeros(shape[0] * shape[1])
        return cut_tiles(cut, received.astype(np.int64).reshape(shape))

    def _grouped(self, expert: int, first: int, last: int) -> Range:
        at = self.layout.received_begin + expert * self.type.ranks.data
        return self._between(at + first, at + last)

    def _sent(self, expert: int) -> Range:
        at = self.layout.sent_begin + expert
        return self._between(at, at + 1)

    def _between(self, first: int, last: int) -> Range:
        return (int(self.words[first]), int(self.words[last])) if self.ok else _EMPTY

    def _moved(self, at: int, rows: Range) -> Range:
        if not self.ok:
            return _EMPTY
        begin = int(self.words[at])
        return begin, begin + rows[1] - rows[0]


@dataclass
class TaskMemory:
    """The memory of all ranks as one task accesses it."""

    ranks: Sequence[RankMemory]
    rank: int
    family: TasksOp
    point: Sequence[int]

    def value(self, expr: AffineExpr) -> int:
        """Returns the value of an index expression at the task's grid point and rank."""
        return int(evaluate_index(expr, self.point, self.rank))

    def route_of(self, rank: int) -> Route | None:
        """Returns the family's route on `rank`, None without one."""
        if self.family.route is None:
            return None
        name = self.family.route.root_reference.data
        memory = self.ranks[rank]
        return Route(memory.array(name), buffer_route_type(memory.buffers[name]), rank)

    def tile(self, access: Access) -> TileView:
        """Returns the tile of an access."""
        peer = self.rank if access.peer is None else self.value(access.peer)
        memory = self.ranks[peer]
        array = memory.array(access.buffer)
        buffer = memory.buffers[access.buffer]
        element = None if isinstance(buffer.type, RouteType) else buffer_type(buffer).element_type
        first = 0
        index: list[slice | int] = []
        for selector, extent in zip(access.selectors, array.shape, strict=True):
            bounds = self._bounds(selector, extent, access.peer)
            if selector.drops_dimension:
                index.append(bounds[0])
                continue
            if not 0 <= bounds[0] <= bounds[1] <= extent:
                raise InterpretationError(
                    f"@{self.family.sym_name.data} {tuple(self.point)} on rank {self.rank}: rows "
                    f"{bounds[0]} to {bounds[1]} of @{access.buffer}, which has {extent}"
                )
            if len(index) == sum(isinstance(i, int) for i in index):
                first = bounds[0]
            index.append(slice(*bounds))
        return TileView(array[tuple(index)], first, _rounder(element))

    def _bounds(self, selector: Selector, extent: int, peer: AffineExpr | None) -> Range:
        match selector:
            case StaticSelector():
                return selector.bounds(self.value, extent)
            case RowSelector():
                return self._rows(selector.query(peer), self.rank)
            case TileExpert():
                expert = self._tiles(selector.cut).expert(self.value(selector.index))
                return expert, expert + 1
            case _:
                raise AssertionError(f"not a selector: {selector}")

    def _tiles(self, cut: TileCut) -> Tiles:
        route = self.route_of(self.rank)
        assert route is not None, "tiles without a route"
        return route.tiles(cut)

    def events(self, range_: EventRange) -> IntArray:
        """Returns the events of a range that the task waits for, by their row-major number.

        Raises InterpretationError where the route is not built yet.
        """
        route = self.route_of(self.rank)
        assert route is not None, "a range of events without a route"
        if int(route.words[0]) not in (STATUS_OK, STATUS_OVER_CAPACITY):
            raise InterpretationError(
                f"@{self.family.sym_name.data} {tuple(self.point)} on rank {self.rank} waits for "
                "events that its route names, before the route is built"
            )
        return np.arange(*range_.events(route.tiles(range_.cut), self.value), dtype=np.int64)

    def _rows(self, query: RowQuery, rank: int) -> Range:
        """Returns the rows of the task's query, looked up in the route of `rank`."""
        route = self.route_of(rank)
        if query.segment is RowSegment.TOKENS:
            begin, end = (0, self.ranks[rank].tokens) if route is None or route.ok else _EMPTY
        elif query.segment is RowSegment.TILE:
            assert route is not None, "tiles without a route"
            assert query.cut is not None, "tiles without a cut"
            (index,) = query.operands
            return route.tiles(query.cut).rows(self.value(index))
        else:
            assert route is not None, "rows of a route without a route"
            operands = [self.value(e) for e in query.operands]
            begin, end = route.segment(query.segment, operands, query.groups)
        chunk = query.chunk
        low, high = chunk_bounds(end - begin, self.value(chunk.index), chunk.count, chunk.align)
        return begin + low, begin + high

    def is_empty(self) -> bool:
        """Returns whether any write access of the task has no rows."""
        queries = (access.row_query for access in self.family.write_accesses)
        ranges = (self._rows(query, self.rank) for query in queries if query is not None)
        return any(begin == end for begin, end in ranges)

    def arrives_empty(self, receiver: int) -> bool:
        """Returns whether the task's put to `receiver` is empty, by the receiver's own route.

        The put must be creditable (`dialects/tile/credit.py`).
        """
        rows = next(a.rows for a in self.family.write_accesses if a.rows is not None)
        begin, end = self._rows(rows.query(None), receiver)
        return begin == end


def _rounder(element: Attribute | None) -> Callable[[Array], Array]:
    return (lambda a: a) if element is None else (lambda a: rounded(a, element))


def run_kernel(memory: TaskMemory) -> None:
    """Runs the reference of a task's kernel, unless the task has no rows to write."""
    if memory.is_empty():
        return
    family = memory.family
    reads = [memory.tile(access) for access in family.read_accesses]
    writes = [memory.tile(access) for access in family.write_accesses]
    scalars = [memory.value(s.data) for s in family.scalars]
    family.find_kernel().reference(reads, writes, family.int_options, scalars)
