"""Memory of a tile or queue program in NumPy: one array for each buffer of each rank, and the
tiles that a task sees of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineExpr
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    GroupedRows,
    IndexSelector,
    RowSelector,
    Selector,
    SentRows,
    TokenRows,
    WholeSelector,
    chunk_bounds,
    group_bounds,
)
from hpmoe_ir.dialects.index import evaluate_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, TasksOp, buffer_type, route_type
from hpmoe_ir.dialects.tile.signature import GIVEN
from hpmoe_ir.interpreter.values import Array, fresh, rounded
from hpmoe_ir.kernels.kernel import TileView
from hpmoe_ir.kernels.route_layout import STATUS_OK, RouteLayout

_EMPTY = (0, 0)


def _fresh_buffer(buffer: BufferOp) -> list[Array]:
    """The copies of a buffer, marked as never written."""
    if isinstance(buffer.type, RouteType):
        route = buffer.type
        words = RouteLayout(route.experts.data, route.ranks.data).words
        return [np.full(words, -0x5A5A5A5A, np.int32)]
    type = buffer_type(buffer)
    return [fresh(type.dims, type.element_type) for _ in range(buffer.copies.value.data)]


@dataclass
class RankMemory:
    """What one rank has: all copies of all buffers, and how many tokens it brings."""

    buffers: Mapping[str, BufferOp]
    arrays: dict[str, list[Array]] = field(default_factory=dict[str, list[Array]])
    tokens: int = 0
    launch: int = 0

    def start(self, inputs: Mapping[str, Array]) -> None:
        """Begins a launch: new inputs, everything but the windows marked as never written."""
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
        """The copy of a buffer that this launch uses."""
        copies = self.arrays[name]
        return copies[self.launch % len(copies)]


class Route:
    """The row ranges of one rank's route, as the device reads them."""

    def __init__(self, words: Array, type: RouteType) -> None:
        self.words = words
        self.type = type
        self.layout = RouteLayout(type.experts.data, type.ranks.data)
        self.ok = int(words[0]) == STATUS_OK

    def grouped(self, expert: int, first: int, last: int) -> tuple[int, int]:
        """Rows received for a local expert from the sources first..last."""
        at = self.layout.received_begin + expert * self.type.ranks.data
        return self._between(at + first, at + last)

    def sent(self, expert: int) -> tuple[int, int]:
        """Rows of the send order that go to a global expert."""
        at = self.layout.sent_begin + expert
        return self._between(at, at + 1)

    def dest(self, expert: int) -> tuple[int, int]:
        """The same rows in the receive buffer of the expert's rank."""
        return self._moved(self.layout.dest_begin + expert, self.sent(expert))

    def returned(self, expert: int, source: int) -> tuple[int, int]:
        """Rows of a local expert from one source, in that source's send order."""
        at = self.layout.return_begin + expert * self.type.ranks.data + source
        return self._moved(at, self.grouped(expert, source, source + 1))

    def _between(self, first: int, last: int) -> tuple[int, int]:
        return (int(self.words[first]), int(self.words[last])) if self.ok else _EMPTY

    def _moved(self, at: int, rows: tuple[int, int]) -> tuple[int, int]:
        if not self.ok:
            return _EMPTY
        begin = int(self.words[at])
        return begin, begin + rows[1] - rows[0]


@dataclass
class TaskMemory:
    """The memories of all ranks as one task sees them."""

    ranks: Sequence[RankMemory]
    rank: int
    family: TasksOp
    point: Sequence[int]

    def value(self, expr: AffineExpr) -> int:
        """Value of an index expression of the task."""
        return int(evaluate_index(expr, self.point, self.rank))

    def route(self) -> Route | None:
        """The route that the family uses."""
        if self.family.route is None:
            return None
        name = self.family.route.root_reference.data
        memory = self.ranks[self.rank]
        return Route(memory.array(name), route_type(memory.buffers[name]))

    def tile(self, region: Access) -> TileView:
        """The tile that a region stands for."""
        peer = self.rank if region.peer is None else self.value(region.peer)
        memory = self.ranks[peer]
        array = memory.array(region.buffer)
        buffer = memory.buffers[region.buffer]
        element = None if isinstance(buffer.type, RouteType) else buffer_type(buffer).element_type
        first = 0
        index: list[slice | int] = []
        for selector, extent in zip(region.selectors, array.shape, strict=True):
            bounds = self._bounds(selector, extent, region)
            if isinstance(selector, IndexSelector):
                index.append(bounds[0])
                continue
            if not 0 <= bounds[0] <= bounds[1] <= extent:
                raise InterpretationError(
                    f"@{self.family.sym_name.data} {tuple(self.point)} on rank {self.rank}: rows "
                    f"{bounds[0]} to {bounds[1]} of @{region.buffer}, which has {extent}"
                )
            if len(index) == sum(isinstance(i, int) for i in index):
                first = bounds[0]
            index.append(slice(*bounds))
        return TileView(array[tuple(index)], first, _rounder(element))

    def _bounds(self, selector: Selector, extent: int, region: Access) -> tuple[int, int]:
        match selector:
            case WholeSelector():
                return 0, extent
            case IndexSelector():
                value = self.value(selector.index)
                return value, value + 1
            case BlockSelector():
                begin = self.value(selector.index) * selector.size
                return min(begin, extent), min(begin + selector.size, extent)
            case _:
                return self._rows(selector, region)

    def _rows(self, selector: RowSelector, region: Access) -> tuple[int, int]:
        route = self.route()
        if isinstance(selector, TokenRows):
            if route is not None and not route.ok:
                return _EMPTY
            tokens = self.ranks[self.rank].tokens
            return chunk_bounds(tokens, self.value(selector.index), selector.count, 1)
        assert route is not None, "rows of a route without a route"
        begin, end = self._segment(selector, region, route)
        chunk = selector.chunk
        low, high = chunk_bounds(end - begin, self.value(chunk.index), chunk.count, chunk.align)
        return begin + low, begin + high

    def _segment(
        self, selector: GroupedRows | SentRows, region: Access, route: Route
    ) -> tuple[int, int]:
        local = route.type.local_experts
        expert = self.value(selector.expert)
        if region.peer is None:
            if isinstance(selector, SentRows):
                return route.sent(expert)
            group = self.value(selector.group)
            return route.grouped(expert, *group_bounds(group, selector.groups, len(self.ranks)))
        peer = self.value(region.peer)
        if isinstance(selector, GroupedRows):
            return route.dest(peer * local + expert)
        return route.returned(expert - self.rank * local, peer)

    def is_empty(self) -> bool:
        """Whether a region that the task writes has no rows."""
        return any(
            begin == end
            for region in self.family.write_accesses
            if region.rows is not None
            for begin, end in (self._rows(region.rows, region),)
        )

    def arrives_empty(self, receiver: int) -> bool:
        """Whether the task's put to a rank has no rows, as that rank knows it from its own route.

        The put must be one that can be credited (`dialects/tile/credit.py`).
        """
        family = self.family
        rows = next(r.rows for r in family.write_accesses if r.rows is not None)
        memory = self.ranks[receiver]
        assert family.route is not None
        name = family.route.root_reference.data
        route = Route(memory.array(name), route_type(memory.buffers[name]))
        if isinstance(rows, GroupedRows):
            begin, end = route.grouped(self.value(rows.expert), self.rank, self.rank + 1)
        else:
            assert isinstance(rows, SentRows), "puts of rows of a route"
            begin, end = route.sent(self.value(rows.expert))
        chunk = rows.chunk
        low, high = chunk_bounds(end - begin, self.value(chunk.index), chunk.count, chunk.align)
        return low == high


def _rounder(element: Attribute | None) -> Callable[[Array], Array]:
    return (lambda a: a) if element is None else (lambda a: rounded(a, element))


def run_kernel(memory: TaskMemory) -> None:
    """Runs the reference of a task's kernel, unless the task writes nothing."""
    if memory.is_empty():
        return
    family = memory.family
    reads = [memory.tile(region) for region in family.read_accesses]
    writes = [memory.tile(region) for region in family.write_accesses]
    scalars = [memory.value(s.data) for s in family.scalars]
    family.find_kernel().reference(reads, writes, family.int_options, scalars)
