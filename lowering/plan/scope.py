"""Planning context of a family of tasks: names of its sizes, and its planned expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from hpmoe_ir.dialects.index import IntArray, evaluate_index
from hpmoe_ir.dialects.tile import TasksOp
from hpmoe_ir.lowering.plan.expressions import (
    Binary,
    Coordinate,
    FlatIndex,
    IntExpr,
    Number,
    OwnRank,
    SourceRank,
)
from hpmoe_ir.lowering.plan.sizes import Offset, Size, SizeTable, camel
from hpmoe_ir.lowering.program import LoweredProgram, LoweringError


@dataclass
class Scope:
    """Converts index expressions of one family to expressions of the plan.

    Constants of index expressions are numbered by expression, not by value, so that two layers with
    the same structure have the same code.
    """

    program: LoweredProgram
    family: TasksOp
    table: SizeTable
    rank: OwnRank | SourceRank = field(default_factory=OwnRank)
    """The plan's expression for the rank symbol of index expressions."""
    stem: str = ""
    """Suffix of the family's name in the names of its sizes."""
    known: dict[AffineExpr, IntExpr] = field(default_factory=dict[AffineExpr, IntExpr])
    """Planned expressions by index expression."""
    constants: int = 0
    """Number of constants of index expressions so far."""

    @property
    def prefix(self) -> str:
        """Prefix of the names of the family's sizes."""
        return f"{camel(self.family.sym_name.data)}{self.stem}"

    def error(self, message: str) -> LoweringError:
        """Returns an error that names the family."""
        return LoweringError(
            f"target {self.program.target}: @{self.family.sym_name.data}: {message}"
        )

    def constant(self, value: int, what: str) -> Size:
        """Returns the size `what` of the family, which comes from a shape.

        Raises LoweringError if the family has a different value under this name.
        """
        name = f"{self.prefix}{what}"
        known = self.table.words.get(name, value)
        if known != value:
            raise self.error(
                "accesses of one family cut rows and columns in the same way: "
                f"{what} is {known} in one and {value} in another"
            )
        return self.table.size(name, value)

    def index(self, expr: AffineExpr) -> IntExpr:
        """Returns the plan's expression for an index expression.

        Raises LoweringError for a negative constant: generated code uses unsigned arithmetic.
        """
        if expr not in self.known:
            self.known[expr] = self._index(expr)
        return self.known[expr]

    def _index(self, expr: AffineExpr) -> IntExpr:
        match expr:
            case AffineConstantExpr():
                return Number(self._unsigned(expr.value))
            case AffineDimExpr():
                return Coordinate(self.family.dim_names[expr.position])
            case AffineSymExpr():
                return self.rank
            case AffineBinaryOpExpr():
                lhs = self.index(expr.lhs)
                if isinstance(expr.rhs, AffineConstantExpr):
                    value = self._unsigned(expr.rhs.value)
                    self.constants += 1
                    rhs = self.constant(value, f"Const{self.constants}")
                else:
                    rhs = self.index(expr.rhs)
                return Binary(expr.kind, lhs, rhs)
            case _:
                raise AssertionError(f"not an index expression: {expr}")

    def _unsigned(self, value: int) -> int:
        if value < 0:
            raise self.error(f"negative constant {value} in an index expression")
        return value

    def flat_index(
        self, exprs: Sequence[AffineExpr], extents: Sequence[int], name: str
    ) -> FlatIndex:
        """Returns the row-major number of an index; names of the extents begin with `name`."""
        indices: list[IntExpr] = []
        sizes: list[Size] = []
        for i, (expr, extent) in enumerate(zip(exprs, extents, strict=True)):
            indices.append(self.index(expr))
            if i:
                sizes.append(self.table.size(f"{name}Dim{i}", extent))
        return FlatIndex(tuple(indices), tuple(sizes))

    def values(self, expr: AffineExpr) -> IntArray:
        """Returns the values of an index expression, `[ranks, tasks]`."""
        point = self.family.coordinates()
        shape = (self.program.ranks, self.family.task_count)
        ranks = np.arange(self.program.ranks)[:, None]
        return np.broadcast_to(np.asarray(evaluate_index(expr, point, ranks)), shape)

    def buffer_offset(self, name: str) -> Offset:
        """Returns the byte offset of a buffer in the workspace or the window memory."""
        buffer = self.program.buffers[name]
        assert buffer.offset is not None
        return self.table.offset(camel(name), buffer.offset.value.data)
