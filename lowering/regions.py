"""C++ for the regions of a task: from selectors to the tiles that a kernel is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, i32
from xdsl.ir import Attribute
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    Chunk,
    GroupedRows,
    IndexSelector,
    RowSelector,
    SentRows,
    TokenRows,
    WholeSelector,
    format_access,
)
from hpmoe_ir.dialects.index import IntArray, evaluate_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import (
    BufferOp,
    TasksOp,
    buffer_bytes,
    buffer_route_type,
    buffer_type,
    copy_bytes,
)
from hpmoe_ir.lowering.program import LoweredProgram, LoweringError
from hpmoe_ir.lowering.sizes import Sizes, camel

_OPERATORS = {
    AffineBinaryOpKind.Add: "+",
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.Mod: "%",
    AffineBinaryOpKind.FloorDiv: "/",
}


def element_name(type: Attribute) -> str:
    """C++ name of an element type."""
    if isinstance(type, BFloat16Type):
        return "bfloat16_t"
    if isinstance(type, Float16Type):
        return "half"
    if isinstance(type, Float32Type):
        return "float"
    if type == i32:
        return "int32_t"
    raise LoweringError(f"target ascendc: no element type in Ascend C for {type}")


@dataclass
class TaskBody:
    """The statements of one family's function, as they are made."""

    program: LoweredProgram
    family: TasksOp
    sizes: Sizes
    lines: list[str] = field(default_factory=list[str])
    known: dict[AffineExpr, str] = field(default_factory=dict[AffineExpr, str])
    """Text of index expressions."""
    constants: int = 0
    """Constants in index expressions so far."""
    blocks: Counter[str] = field(default_factory=Counter[str])
    """How often an extent has been cut into blocks so far, by its name."""
    rows: dict[tuple[RowSelector, bool], str] = field(
        default_factory=dict[tuple[RowSelector, bool], str]
    )

    rank: str = "env.Rank()"
    """C++ for the rank that runs the task."""
    stem: str = ""
    """First part of the names of the family's sizes, after its name."""

    @property
    def prefix(self) -> str:
        """First part of the names of the family's sizes."""
        return f"k{camel(self.family.sym_name.data)}{self.stem}"

    def constant(self, value: int, what: str) -> str:
        """C++ for a number that comes from a shape, named `what` among the family's numbers."""
        name = f"{self.prefix}{what}"
        known = self.sizes.values.get(name, value)
        if known != value:
            raise LoweringError(
                f"target ascendc: @{self.family.sym_name.data}: regions of one family cut rows and "
                f"columns in the same way: {what} is {known} in one and {value} in another"
            )
        return self.sizes.word(name, value)

    def index(self, expr: AffineExpr) -> str:
        """C++ for an index expression; all of its values are non-negative."""
        if expr not in self.known:
            self.known[expr] = self._index(expr)
        return self.known[expr]

    def _index(self, expr: AffineExpr) -> str:
        match expr:
            case AffineConstantExpr():
                self._require_unsigned(expr.value)
                return str(expr.value)
            case AffineDimExpr():
                return self.family.dim_names[expr.position]
            case AffineSymExpr():
                return self.rank
            case AffineBinaryOpExpr():
                lhs = self._operand(expr.lhs)
                if isinstance(expr.rhs, AffineConstantExpr):
                    self._require_unsigned(expr.rhs.value)
                    # Numbered by expression, not by value: two layers of one structure have
                    # the same text.
                    self.constants += 1
                    rhs = self.constant(expr.rhs.value, f"Const{self.constants}")
                else:
                    rhs = self._operand(expr.rhs)
                if expr.kind is AffineBinaryOpKind.CeilDiv:
                    return f"hpmoe::CeilDiv({lhs}, {rhs})"
                return f"{lhs} {_OPERATORS[expr.kind]} {rhs}"
            case _:
                raise AssertionError(f"not an index expression: {expr}")

    def _require_unsigned(self, value: int) -> None:
        if value < 0:
            raise LoweringError(
                f"target ascendc: @{self.family.sym_name.data}: negative constant {value} in an "
                "index expression"
            )

    def name_peer(self) -> None:
        """Defines `peer`, the rank that the tasks write to, where it is another."""
        peer = self.family.target_peer
        if peer is not None:
            self.lines.append(f"const uint32_t peer = {self.index(peer)};")
            self.known[peer] = "peer"

    def _operand(self, expr: AffineExpr) -> str:
        text = self.index(expr)
        return f"({text})" if " " in text else text

    def values(self, expr: AffineExpr) -> IntArray:
        """Values of an expression: one row a rank, one column a task."""
        point = self.family.coordinates()
        shape = (self.program.ranks, self.family.task_count)
        ranks = np.arange(self.program.ranks)[:, None]
        return np.broadcast_to(np.asarray(evaluate_index(expr, point, ranks)), shape)

    def define_rows(self, selector: RowSelector, region: Access) -> str:
        """Name of the `Rows` that a selector stands for, defined on first use."""
        remote = region.peer is not None
        key = (selector, remote)
        if key not in self.rows:
            name = f"rows{len(self.rows)}"
            self.rows[key] = name
            self.lines.append(f"const hpmoe::Rows {name} = {self._row_range(selector, region)};")
        return self.rows[key]

    def _row_range(self, selector: RowSelector, region: Access) -> str:
        match selector:
            case TokenRows():
                text = f"env.TokenChunk({self.index(selector.index)}, "
                text += f"{self.constant(selector.count, 'TokenChunks')})"
                if self.family.route is None:
                    return text
                return f"route.Ok() ? {text} : hpmoe::Rows{{0, 0}}"
            case GroupedRows() if region.peer is not None:
                return self._chunk(
                    selector.chunk, f"route.Dest({self._put_expert(selector, region)})"
                )
            case GroupedRows():
                first, last = self._group_bounds(selector)
                expert = self.index(selector.expert)
                return self._chunk(selector.chunk, f"route.Grouped({expert}, {first}, {last})")
            case SentRows() if region.peer is not None:
                return self._chunk(selector.chunk, self._returned(selector, region))
            case SentRows():
                return self._chunk(selector.chunk, f"route.Sent({self.index(selector.expert)})")
            case _:
                raise AssertionError(f"not a row selector: {selector}")

    def _chunk(self, chunk: Chunk, rows: str) -> str:
        if chunk.count == 1:
            return rows
        index = self.index(chunk.index)
        count = self.constant(chunk.count, "Chunks")
        return f"hpmoe::Chunk({rows}, {index}, {count}, {self.constant(chunk.align, 'Align')})"

    def _group_bounds(self, selector: GroupedRows) -> tuple[str, str]:
        group = self._operand(selector.group)
        groups = self.constant(selector.groups, "Groups")
        return (
            f"{group} * env.Ranks() / {groups}",
            f"({group} + 1) * env.Ranks() / {groups}",
        )

    def _put_expert(self, selector: GroupedRows, region: Access) -> str:
        """Global expert of rows that are put into a peer's receive buffer."""
        own = np.arange(self.program.ranks)[:, None]
        if selector.groups != self.program.ranks or (self.values(selector.group) != own).any():
            raise self._bad_put(region, "a put into grouped rows writes those of its own rank")
        local = self.constant(self._local_experts(), "Local")
        assert region.peer is not None
        return f"{self._operand(region.peer)} * {local} + {self._operand(selector.expert)}"

    def _returned(self, selector: SentRows, region: Access) -> str:
        """Rows in a peer's send order of one of this rank's experts."""
        local = self._local_experts()
        owner = np.arange(self.program.ranks)[:, None]
        if (self.values(selector.expert) // local != owner).any():
            raise self._bad_put(region, "a put into sent rows returns those of its own experts")
        assert region.peer is not None
        expert = f"{self._operand(selector.expert)} - env.Rank() * {self.constant(local, 'Local')}"
        return f"route.Return({expert}, {self.index(region.peer)})"

    def _bad_put(self, region: Access, rule: str) -> LoweringError:
        text = format_access(region, self.family.dim_names)
        return LoweringError(f"target ascendc: @{self.family.sym_name.data}: {text}: {rule}")

    def _local_experts(self) -> int:
        assert self.family.route is not None
        buffer = self.program.buffers[self.family.route.root_reference.data]
        return buffer_route_type(buffer).local_experts

    def tile(self, region: Access) -> tuple[str, str]:
        """C++ type and expression of the tile that a region stands for."""
        buffer = self.program.buffers[region.buffer]
        name = f"k{camel(region.buffer)}"
        if isinstance(buffer.type, RouteType):
            words = self.sizes.word(f"{name}Words", buffer_bytes(buffer) // 4)
            return "int32_t", f"hpmoe::Whole({self._base(buffer, region)}, 1, {words})"
        type = buffer_type(buffer)
        base = self._base(buffer, region)
        dims = list(type.dims)
        selectors = list(region.selectors)
        while selectors and isinstance(selectors[0], IndexSelector):
            point = selectors.pop(0)
            assert isinstance(point, IndexSelector)
            del dims[0]
            step = self.sizes.word(f"{name}Step{len(dims)}", int(np.prod(dims, dtype=np.int64)))
            base += f" + static_cast<uint64_t>({self.index(point.index)}) * {step}"
        if len(dims) > 2 or any(isinstance(s, IndexSelector) for s in selectors):
            raise self._bad_put(region, "a tile has at most two dimensions, the inner ones")
        element = element_name(type.element_type)
        if len(dims) == 1:
            begin, count = self._extent(selectors[0], dims[0], f"{name}Cols", region)
            return element, f"hpmoe::Slice({base}, 0, hpmoe::Rows{{0, 1}}, {begin}, {count})"
        rows = self._rows(selectors[0], dims[0], name, region)
        column, cols = self._extent(selectors[1], dims[1], f"{name}Cols", region)
        pitch = self.sizes.word(f"{name}Pitch", dims[1])
        return element, f"hpmoe::Slice({base}, {pitch}, {rows}, {column}, {cols})"

    def _base(self, buffer: BufferOp, region: Access) -> str:
        name = f"k{camel(buffer.sym_name.data)}"
        element = (
            "int32_t"
            if isinstance(buffer.type, RouteType)
            else element_name(buffer_type(buffer).element_type)
        )
        space = buffer.space.data
        if space in ("input", "inout", "output"):
            return f"reinterpret_cast<__gm__ {element}*>(args.{buffer.sym_name.data})"
        assert buffer.offset is not None
        offset = self.sizes.offset(name, buffer.offset.value.data)
        base = f"env.{'Window' if space == 'window' else 'Workspace'}<{element}>({offset})"
        if buffer.copies.value.data == 2:
            step = self.sizes.word(f"{name}Copy", copy_bytes(buffer) // _bytes(element))
            base += f" + static_cast<uint64_t>(env.Launch() % 2) * {step}"
        if region.peer is not None:
            return f"env.Peer({base}, {self.index(region.peer)})"
        return base

    def _rows(self, selector: object, extent: int, name: str, region: Access) -> str:
        match selector:
            case WholeSelector():
                return f"hpmoe::Rows{{0, {self.sizes.word(f'{name}Rows', extent)}}}"
            case BlockSelector():
                begin, count = self._extent(selector, extent, f"{name}Rows", region)
                return f"hpmoe::Rows{{{begin}, {count}}}"
            case GroupedRows() | SentRows() | TokenRows():
                return self.define_rows(selector, region)
            case _:
                raise AssertionError(f"not a row selector: {selector}")

    def _extent(self, selector: object, extent: int, name: str, region: Access) -> tuple[str, str]:
        match selector:
            case WholeSelector():
                return "0", self.sizes.word(name, extent)
            case BlockSelector():
                # Numbered by operand: two of one buffer may be cut into blocks of other sizes.
                number = self.blocks[name] or ""
                self.blocks[name] += 1
                size = self.constant(selector.size, f"{name[1:]}Block{number}")
                begin = f"{self._operand(selector.index)} * {size}"
                whole = self.sizes.word(name, extent)
                return begin, f"hpmoe::Min({size}, {whole} - {begin})"
            case GroupedRows() | SentRows() | TokenRows():
                rows = self.define_rows(selector, region)
                return f"{rows}.begin", f"{rows}.count"
            case _:
                raise AssertionError(f"not a selector of an extent: {selector}")


def _bytes(element: str) -> int:
    return 2 if element in ("half", "bfloat16_t") else 4


def flat_index(
    body: TaskBody, exprs: Sequence[AffineExpr], extents: Sequence[int], name: str
) -> str:
    """C++ for the row-major number of an event in its family, added to the family's first line."""
    text = ""
    for i, (expr, extent) in enumerate(zip(exprs, extents, strict=True)):
        part = body.index(expr)
        if not text:
            text = part
            continue
        outer = f"({text})" if " " in text else text
        text = f"{outer} * {body.sizes.word(f'{name}Dim{i}', extent)} + {part}"
    return text
