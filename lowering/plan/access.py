"""Plans tiles and row ranges from accesses; no other module of lowering reads selectors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    Chunk,
    IndexSelector,
    RowSegment,
    RowSelector,
    Selector,
    TileCut,
    TileExpert,
    WholeSelector,
    format_access,
)
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import (
    BufferOp,
    buffer_bytes,
    buffer_route_type,
    buffer_type,
    copy_bytes,
)
from hpmoe_ir.lowering.plan.elements import ElementType, element_type
from hpmoe_ir.lowering.plan.expressions import ExpertOfTile, IntExpr
from hpmoe_ir.lowering.plan.scope import Scope
from hpmoe_ir.lowering.plan.sizes import camel
from hpmoe_ir.lowering.plan.tiles import (
    Address,
    ArgumentAddress,
    BlockExtent,
    ChunkOf,
    CutPlan,
    Extent,
    MatrixShape,
    PlannedAddress,
    RowRange,
    RowsDefinition,
    RowsExtent,
    Step,
    Tile,
    TileDefinition,
    VectorShape,
    WholeExtent,
    WordsShape,
)
from hpmoe_ir.lowering.program import LoweringError


@dataclass
class AccessPlanner:
    """Plans the tiles of one family of tasks and their shared row ranges."""

    scope: Scope
    blocks: Counter[str] = field(default_factory=Counter[str])
    """Number of block extents planned so far, by name of the extent."""
    rows: dict[tuple[RowSelector, bool], RowsDefinition] = field(
        default_factory=dict[tuple[RowSelector, bool], RowsDefinition]
    )
    """Row ranges by (selector, whether in a peer's memory), in order of definition."""
    tiles: dict[tuple[AffineExpr, TileCut], TileDefinition] = field(
        default_factory=dict[tuple[AffineExpr, TileCut], TileDefinition]
    )
    """Tiles of rows by (number, cut), in order of definition."""

    def tile(self, access: Access) -> Tile:
        """Returns the tile of an access.

        Raises LoweringError unless the tile has one or two dimensions and its elements have a type
        that generated code supports.
        """
        scope = self.scope
        buffer = scope.program.buffers[access.buffer]
        name = camel(access.buffer)
        if isinstance(buffer.type, RouteType):
            words = scope.table.size(f"{name}Words", buffer_bytes(buffer) // 4)
            element = ElementType.I32
            return Tile(element, self._address(buffer, element, access), (), WordsShape(words))
        type = buffer_type(buffer)
        element = element_type(type.element_type)
        if element is None:
            raise scope.error(
                f"@{access.buffer}: expected elements of {' or '.join(ElementType)}, found "
                f"{type.element_type}"
            )
        address = self._address(buffer, element, access)
        dims = list(type.dims)
        selectors = list(access.selectors)
        steps: list[Step] = []
        while selectors and isinstance(outer := selectors[0], IndexSelector | TileExpert):
            del selectors[0], dims[0]
            elements = int(np.prod(dims, dtype=np.int64))
            size = scope.table.size(f"{name}Step{len(dims)}", elements)
            steps.append(Step(self._index(outer), size))
        if len(dims) > 2 or any(s.drops_dimension for s in selectors):
            raise self._refused(access, "a tile has at most two dimensions, the inner ones")
        if len(dims) == 1:
            shape = VectorShape(self._extent(selectors[0], dims[0], f"{name}Cols", access))
        else:
            rows = self._extent(selectors[0], dims[0], f"{name}Rows", access)
            columns = self._extent(selectors[1], dims[1], f"{name}Cols", access)
            shape = MatrixShape(scope.table.size(f"{name}Pitch", dims[1]), rows, columns)
        return Tile(element, address, tuple(steps), shape)

    def guard(self, accesses: tuple[Access, ...]) -> tuple[str, ...]:
        """Returns names of the row ranges of accesses; a task is skipped if any is empty."""
        names = [self.define(a.rows, a).name for a in accesses if a.rows is not None]
        return tuple(dict.fromkeys(names))

    def define(self, selector: RowSelector, access: Access) -> RowsDefinition:
        """Returns the row range of a row selector, defined at its first use."""
        key = (selector, access.peer is not None)
        if key not in self.rows:
            name = f"rows{len(self.rows)}"
            self.rows[key] = RowsDefinition(name, self._row_range(selector, access))
        return self.rows[key]

    def _index(self, selector: IndexSelector | TileExpert) -> IntExpr:
        if isinstance(selector, IndexSelector):
            return self.scope.index(selector.index)
        return ExpertOfTile(self.tile_of(selector.index, selector.cut).name)

    def tile_of(self, index: AffineExpr, cut: TileCut) -> TileDefinition:
        """Returns a tile of rows, defined at its first use."""
        key = (index, cut)
        if key not in self.tiles:
            name = f"tile{len(self.tiles)}"
            self.tiles[key] = TileDefinition(name, self.scope.index(index), self.cut(cut))
        return self.tiles[key]

    def cut(self, cut: TileCut) -> CutPlan:
        """Returns how rows are cut into tiles, which is the same in all of a family."""
        return CutPlan(
            self.scope.constant(cut.count, "Tiles"),
            self.scope.constant(cut.rows, "TileRows"),
            self.scope.constant(self._local_experts(), "Local"),
        )

    def _row_range(self, selector: RowSelector, access: Access) -> RowRange | TileDefinition:
        scope, query = self.scope, selector.query(access.peer)
        if query.segment is RowSegment.TILE:
            assert query.cut is not None, "a tile without a cut"
            return self.tile_of(query.operands[0], query.cut)
        if access.peer is not None and selector.put_rule:
            self._check_sender(selector, access)
        segment, chunk = query.segment, query.chunk
        match segment, query.operands:
            case RowSegment.TOKENS, ():
                part = scope.index(chunk.index), scope.constant(chunk.count, "TokenChunks")
                return RowRange(segment, part, None, scope.family.route is not None)
            case RowSegment.GROUPED, (expert, group):
                first = scope.index(group), scope.constant(query.groups, "Groups")
                operands = (*first, scope.index(expert))
            case RowSegment.DEST, (peer, expert):
                local = scope.constant(self._local_experts(), "Local")
                operands = (local, scope.index(peer), scope.index(expert))
            case RowSegment.RETURN, (expert, peer):
                own = scope.index(expert), scope.constant(self._local_experts(), "Local")
                operands = (*own, scope.index(peer))
            case _, others:
                operands = tuple(scope.index(e) for e in others)
        return RowRange(segment, operands, self._chunk(chunk))

    def _chunk(self, chunk: Chunk) -> ChunkOf | None:
        if chunk.count == 1:
            return None
        return ChunkOf(
            self.scope.index(chunk.index),
            self.scope.constant(chunk.count, "Chunks"),
            self.scope.constant(chunk.align, "Align"),
        )

    def _check_sender(self, selector: RowSelector, access: Access) -> None:
        """Checks that the rows of a put belong to the rank that runs it."""
        ranks = self.scope.program.ranks
        sender = selector.sender(ranks, self._local_experts())
        own = np.arange(ranks)[:, None]
        if sender is None or (self.scope.values(sender) != own).any():
            raise self._refused(access, selector.put_rule)

    def _local_experts(self) -> int:
        route = self.scope.family.route
        assert route is not None
        buffer = self.scope.program.buffers[route.root_reference.data]
        return buffer_route_type(buffer).local_experts

    def _refused(self, access: Access, rule: str) -> LoweringError:
        text = format_access(access, self.scope.family.dim_names)
        return self.scope.error(f"{text}: {rule}")

    def _address(self, buffer: BufferOp, element: ElementType, access: Access) -> Address:
        scope = self.scope
        name = buffer.sym_name.data
        if buffer.space.data.is_of_caller:
            return ArgumentAddress(name)
        offset = scope.buffer_offset(name)
        copy = None
        if buffer.copies.value.data == 2:
            copy = scope.table.size(f"{camel(name)}Copy", copy_bytes(buffer) // element.bytes)
        peer = None if access.peer is None else scope.index(access.peer)
        return PlannedAddress(buffer.space.data, offset, copy, peer)

    def _extent(self, selector: Selector, extent: int, name: str, access: Access) -> Extent:
        """Returns the extent of one dimension, whose size is called `name`."""
        scope = self.scope
        match selector:
            case WholeSelector():
                return WholeExtent(scope.table.size(name, extent))
            case BlockSelector():
                # Numbered by operand: two accesses of one buffer may have different block sizes.
                number = self.blocks[name] or ""
                self.blocks[name] += 1
                size = scope.constant(selector.size, f"{name}Block{number}")
                index = scope.index(selector.index)
                return BlockExtent(index, size, scope.table.size(name, extent))
            case RowSelector():
                return RowsExtent(self.define(selector, access).name)
            case _:
                raise AssertionError(f"no selector of an inner dimension: {selector}")
