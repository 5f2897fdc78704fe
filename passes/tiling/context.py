"""Context for tiling one operation into families of tile tasks.

`convert-comm-to-tile` walks the operations of a function and tiles each one. A row-wise operation
needs only `RowwiseTrait` with the name of a kernel; any other operation of another dialect
implements the trait `HasTilingTrait`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import PassFailedException

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    Chunk,
    GroupedRows,
    IndexSelector,
    RowSelector,
    Selector,
    TileCut,
    TileExpert,
    TileRows,
    WholeSelector,
)
from hpmoe_ir.dialects.index import RANK
from hpmoe_ir.dialects.moe import tensor_type
from hpmoe_ir.dialects.placement import AnyTensor, RouteType, RowsAttr
from hpmoe_ir.dialects.rowwise import RowwiseTrait
from hpmoe_ir.dialects.symbol_names import SymbolNames
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, MemorySpaceAttr, TasksOp
from hpmoe_ir.dialects.tile.types import BufferType
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.passes.tiling.options import TilingOptions


@dataclass(frozen=True)
class ExpertRange:
    """A range of local experts whose tasks have the same number of columns."""

    first: int
    count: int
    cols: int
    """Columns of a task; 0: `task_cols`, or the default if that is 0 too."""

    def grid(self, grid: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Restricts a grid whose coordinate 0 is the local expert to the experts of this range."""
        return [(grid[0][0], self.count), *grid[1:]]

    def access(self, access: Access) -> Access:
        """Returns `access` with coordinate 0 shifted by the first expert of the range."""
        if not self.first:
            return access
        shifted = AffineExpr.dimension(0) + self.first
        others = [AffineExpr.dimension(i) for i in range(1, 4)]
        return access.map_exprs(lambda e: e.replace_dims_and_symbols([shifted, *others], [RANK]))


@dataclass(frozen=True)
class RouteBuffers:
    """The type and the buffers of a route value."""

    type: RouteType
    route: str
    order: str
    position: str


@dataclass
class Tiling:
    """The program under construction, and the buffers that hold the values of the function."""

    machine: Machine
    partition: TilingOptions
    """The tiling options, with defaults resolved by `TilingOptions.for_route`."""
    ranks: int
    buffers: list[BufferOp] = field(default_factory=list[BufferOp])
    families: list[TasksOp] = field(default_factory=list[TasksOp])
    last_families: list[TasksOp] = field(default_factory=list[TasksOp])
    """Families that come after all others, as none waits for them: copies of saved values."""
    places: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    routes: dict[SSAValue, RouteBuffers] = field(default_factory=dict[SSAValue, RouteBuffers])
    outputs: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """The buffer of each value that the function returns."""
    status: str = ""
    """Name of the launch status buffer; empty until a route has been tiled."""
    names: SymbolNames = field(default_factory=SymbolNames)

    def fresh(self, stem: str) -> str:
        """Returns an unused name of the program that begins with `stem`: h, h_1, h_2."""
        return self.names.fresh(stem)

    def buffer(
        self, stem: str, space: MemorySpace, type: BufferType | RouteType, copies: int = 1
    ) -> str:
        """Adds a buffer and returns its name."""
        name = self.names.fresh(stem, as_written=True)
        self.buffers.append(BufferOp(name, space, type, copies))
        return name

    def result(self, value: SSAValue, stem: str) -> str:
        """Returns the buffer for the result `value` of an operation, which is added if needed."""
        name = self.outputs.get(value)
        if name is None:
            stem = value.name_hint or stem
            name = self.buffer(stem, MemorySpace.WORKSPACE, buffer_type_of(tensor_type(value)))
        self.places[value] = name
        return name

    def in_place(self, op: Operation, accumulator: SSAValue, total: SSAValue) -> str:
        """Returns the buffer of `accumulator`, into which `op` adds, as the buffer of `total` too.

        The buffer of an argument becomes an `inout` buffer, that of an earlier sum is unchanged.
        Refuses an accumulator with other uses.
        """
        name = self.place(accumulator)
        if not accumulator.has_one_use():
            refuse(
                op,
                f"convert-comm-to-tile: {op.name}: @{name} is added into: expected no other use of "
                "what was in it",
            )
        if isinstance(accumulator, BlockArgument):
            if total not in self.outputs:
                refuse(
                    op,
                    f"convert-comm-to-tile: {op.name}: @{name} is added into: expected the sum to "
                    "be a result of the function, as the buffer is an argument",
                )
            buffer = next(b for b in self.buffers if b.sym_name.data == name)
            buffer.space = MemorySpaceAttr(MemorySpace.INOUT)
            # The argument itself takes the place of the output declared for the result.
            unused = self.outputs[total]
            self.buffers = [b for b in self.buffers if b.sym_name.data != unused]
        self.places[total] = name
        return name

    def place(self, value: SSAValue) -> str:
        """Returns the name of the buffer that holds a value."""
        if value not in self.places:
            owner = value.owner
            what = owner.name if isinstance(owner, Operation) else "a block argument"
            raise PassFailedException(
                f"convert-comm-to-tile: the result of {what} is in no buffer, it cannot be read"
            )
        return self.places[value]

    def tasks(self, family: TasksOp) -> None:
        """Adds a family of tasks."""
        self.families.append(family)

    def matrix_grid(self, route: RouteType) -> list[tuple[str, int]]:
        """Returns the grid of matrix tasks over the grouped rows: expert, source group and chunk,
        or tile."""
        return self._grid(route, self.partition.row_chunks)

    def matrix_rows(self) -> RowSelector:
        """Returns the rows of a point of `matrix_grid`, by its coordinates from 0."""
        if self.partition.row_tiles:
            return TileRows(AffineExpr.dimension(0), self._cut)
        return self._rows(self.partition.row_chunks, self.partition.matmul.m)

    def matrix_expert(self) -> Selector:
        """Returns the selector of the local expert of a point of `matrix_grid`."""
        if self.partition.row_tiles:
            return TileExpert(AffineExpr.dimension(0), self._cut)
        return IndexSelector(AffineExpr.dimension(0))

    def vector_grid(self, route: RouteType) -> list[tuple[str, int]]:
        """Returns the grid of vector tasks over the grouped rows, as `matrix_grid`."""
        return self._grid(route, self._vector_chunks(route))

    def vector_rows(self, route: RouteType) -> RowSelector:
        """Returns the rows of a point of `vector_grid`, by its coordinates from 0."""
        part = self.partition
        if part.row_tiles:
            return self.matrix_rows()
        align = 1 if part.vector_chunks else part.vector_rows or part.matmul.m
        return self._rows(self._vector_chunks(route), align)

    def put_chunk(self, route: RouteType, index: AffineExpr) -> Chunk:
        """Returns chunk `index` of the rows from one rank to one expert."""
        rows = self.partition.put_rows
        # A token goes to an expert at most once.
        most = min(route.tokens.data, route.rows.data)
        chunks = ceil_div(most, rows) if rows else self.partition.put_chunks
        return Chunk(index, chunks, rows or self.partition.matmul.m) if chunks > 1 else Chunk()

    def way_back(self, route: RouteType, width: int) -> list[ExpertRange]:
        """Returns the ranges of local experts that differ in the columns of their return path."""
        local, last = route.local_experts, self.partition.last_experts
        cols = self.partition.return_cols
        if not last or cols >= width:
            return [ExpertRange(0, local, 0)]
        last = min(last, local)
        ranges = [ExpertRange(0, local - last, width), ExpertRange(local - last, last, cols)]
        return [r for r in ranges if r.count]

    def gradients(self, route: RouteType) -> list[ExpertRange]:
        """Returns the ranges of local experts that differ in the columns of weight gradients."""
        local, last = route.local_experts, self.partition.last_gradients
        cols = self.partition.gradient_cols
        if not last or last >= local:
            return [ExpertRange(0, local, cols)]
        return [ExpertRange(0, local - last, 0), ExpertRange(local - last, last, cols)]

    def return_blocks(
        self, width: int, index: AffineExpr, cols: int = 0
    ) -> tuple[Selector, list[tuple[str, int]]]:
        """Returns the selector of column block `index` on the return path, and the blocks' grid.

        Blocks have `cols` columns, by default `return_cols`; a single block has an empty grid.
        """
        cols = cols or self.partition.return_cols
        if not cols or cols >= width:
            return WholeSelector(), []
        return BlockSelector(index, cols), [("n", ceil_div(width, cols))]

    def _vector_chunks(self, route: RouteType) -> int:
        if not self.partition.vector_rows:
            return self.partition.vector_chunks or self.partition.row_chunks
        sources = ceil_div(self.ranks, self.partition.source_groups)
        most = min(sources * route.tokens.data, route.rows.data)
        return ceil_div(most, self.partition.vector_rows)

    @property
    def _cut(self) -> TileCut:
        return TileCut(self.partition.row_tiles, self.partition.matmul.m)

    def _grid(self, route: RouteType, chunks: int) -> list[tuple[str, int]]:
        if self.partition.row_tiles:
            return [("t", self.partition.row_tiles)]
        return [
            ("e", route.local_experts),
            ("g", self.partition.source_groups),
            ("c", chunks),
        ]

    def _rows(self, chunks: int, align: int) -> GroupedRows:
        e, g, c = (AffineExpr.dimension(i) for i in range(3))
        chunk = Chunk(c, chunks, align) if chunks > 1 else Chunk()
        return GroupedRows(e, g, self.partition.source_groups, chunk)


def even_part(count: int, most: int) -> int:
    """Returns the size of the fewest equal parts of `count` elements with at most `most` each."""
    return ceil_div(count, ceil_div(count, most))


def buffer_type_of(tensor: AnyTensor) -> BufferType:
    """Returns the type of the buffer of a tensor, with the capacity in rows in place of `?`."""
    shape = list(tensor.get_shape())
    rows = ""
    if isinstance(tensor.encoding, RowsAttr):
        rows = tensor.encoding.name.split(".")[1]
        shape[0] = tensor.encoding.rows.data
    return BufferType(shape, tensor.element_type, rows)


class HasTilingTrait(OpTrait, ABC):
    """Trait of an operation that defines its own tiling into tasks."""

    @classmethod
    @abstractmethod
    def to_tasks(cls, op: Operation, tiling: Tiling) -> None:
        """Adds the buffers and families of `op` to `tiling`."""


def rowwise_tasks(op: Operation, trait: RowwiseTrait, tiling: Tiling) -> None:
    """Tiles a row-wise operation: one task for each part of an expert's rows."""
    (result,) = op.results
    route = route_of_rows(op.operands, tiling)
    rows = tiling.vector_rows(route.type)
    short = op.name.split(".")[-1]
    reads = [Access(tiling.place(value), (rows, WholeSelector())) for value in op.operands]
    tiling.tasks(
        TasksOp(
            tiling.fresh(short),
            tiling.vector_grid(route.type),
            CoreKind.AIV,
            trait.kernel,
            reads,
            [Access(tiling.result(result, short), (rows, WholeSelector()))],
            trait.options(op),
            route.route,
        )
    )


def route_of_rows(values: Sequence[SSAValue], tiling: Tiling) -> RouteBuffers:
    """Returns the route that determines the layout of grouped rows.

    For rows that are arguments of the function this is the only route of the function; refuses
    them if it has none or several.
    """
    found = route_behind(values, tiling)
    if found is not None:
        return found
    if len(tiling.routes) == 1:
        return next(iter(tiling.routes.values()))
    raise PassFailedException(
        "convert-comm-to-tile: rows that come from no put cannot be tiled, their route is unknown"
    )


def route_behind(values: Sequence[SSAValue], tiling: Tiling) -> RouteBuffers | None:
    """Returns a route in the backward slice of `values`; None if there is none."""
    seen: set[SSAValue] = set()
    todo = list(values)
    while todo:
        current = todo.pop(0)
        if current in tiling.routes:
            return tiling.routes[current]
        owner = current.owner
        if current in seen or not isinstance(owner, Operation):
            continue
        seen.add(current)
        todo += owner.operands
    return None
