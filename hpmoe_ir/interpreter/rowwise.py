"""Execution of row-wise operations by the NumPy references of their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Operation

from hpmoe_ir.dialects.moe import tensor_type
from hpmoe_ir.dialects.rowwise import RowwiseTrait
from hpmoe_ir.interpreter.values import Array, PerRank, fresh, rounded
from hpmoe_ir.kernels.kernel import TileView
from hpmoe_ir.kernels.registry import find_kernel


def rowwise_functions(op_type: type[Operation]) -> InterpreterFunctions:
    """Returns the interpreter functions of `op_type`, an operation with a RowwiseTrait."""

    @register_impls
    class RowwiseFunctions(InterpreterFunctions):
        @impl(op_type)
        def run(self, interpreter: Interpreter, op: Operation, args: PythonValues) -> PythonValues:
            ranks = zip(*cast(tuple[PerRank, ...], args), strict=True)
            return ([_rows(op, operands) for operands in ranks],)

    return RowwiseFunctions()


def _rows(op: Operation, operands: Sequence[Array]) -> Array:
    """Returns the result of `op` on one rank, with all rows as one tile."""
    trait = op.get_trait(RowwiseTrait)
    assert trait is not None
    result = tensor_type(op.results[0])
    rows = fresh((len(operands[0]), *result.get_shape()[1:]), result.element_type)

    def tile(array: Array) -> TileView:
        return TileView(array, 0, lambda values: rounded(values, result.element_type))

    kernel = find_kernel(trait.kernel)
    kernel.reference([tile(a) for a in operands], [tile(rows)], trait.options(op), ())
    return rows
