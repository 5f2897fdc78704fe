"""Runs of a graph in which one operation is broken, as a wrong kernel would break it.

A run rounds where the device does. The broken operation is computed in float64 first, so that it
can also be rounded in a wrong way.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f64
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter, OpImplResult, PythonValues
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from hpmoe_ir.dialects.moe import GroupedMatmulOp, RouteOp, tensor_type
from hpmoe_ir.dtypes import Dtype, check_dtype, round_to
from hpmoe_ir.interpreter.float64 import half_ulp
from hpmoe_ir.interpreter.module import register_functions
from hpmoe_ir.interpreter.values import PerRank

Rows: TypeAlias = np.ndarray[Any, np.dtype[Any]]

Break: TypeAlias = Callable[[Rows, Dtype, random.Random], Rows]
"""(exact result of one rank, storage type, generator) -> what the broken kernel stores."""


def nearest(exact: Rows, dtype: Dtype) -> Rows:
    """Returns the result of a kernel that is right."""
    return round_to(exact, dtype)


def zeros(exact: Rows, dtype: Dtype, rng: random.Random) -> Rows:
    return np.zeros(exact.shape, np.float32)


def one_element(exact: Rows, dtype: Dtype, rng: random.Random) -> Rows:
    """One element is 0."""
    found = nearest(exact, dtype)
    found.reshape(-1)[rng.randrange(found.size)] = 0
    return found


def one_row(exact: Rows, dtype: Dtype, rng: random.Random) -> Rows:
    """One row is 0."""
    found = nearest(exact, dtype)
    found.reshape(-1, found.shape[-1])[rng.randrange(found.size // found.shape[-1])] = 0
    return found


def scaled(exact: Rows, dtype: Dtype, rng: random.Random) -> Rows:
    return nearest(1.01 * exact, dtype)


def truncated(exact: Rows, dtype: Dtype, rng: random.Random) -> Rows:
    """Rounds toward zero."""
    ulp = np.maximum(2 * half_ulp(exact, dtype), 1e-300)
    return nearest(np.trunc(exact / ulp) * ulp, dtype)


def one_bit_less(exact: Rows, dtype: Dtype, rng: random.Random) -> Rows:
    """Rounds to numbers with one significand bit less."""
    ulp = np.maximum(4 * half_ulp(exact, dtype), 1e-300)
    return nearest(np.round(exact / ulp) * ulp, dtype)


def last_column(exact: Rows, dtype: Dtype, rng: random.Random) -> Rows:
    """The last column is 0."""
    found = nearest(exact, dtype)
    found[..., -1] = 0
    return found


def swapped_rows(exact: Rows, dtype: Dtype, rng: random.Random) -> Rows:
    """Two neighbouring rows have each other's place."""
    found = nearest(exact, dtype)
    rows = found.reshape(-1, found.shape[-1])
    if len(rows) > 1:
        at = rng.randrange(len(rows) - 1)
        rows[[at, at + 1]] = rows[[at + 1, at]]
    return found


def stale_row(exact: Rows, dtype: Dtype, rng: random.Random) -> Rows:
    """One row is that of an earlier launch: other numbers of the same size."""
    found = nearest(exact, dtype)
    rows = found.reshape(-1, found.shape[-1])
    at = rng.randrange(len(rows))
    rows[at] = rng.sample(rows[at].tolist(), rows.shape[1])
    return found


def wrong_sign(exact: Rows, dtype: Dtype, rng: random.Random) -> Rows:
    return nearest(-exact, dtype)


BREAKS: dict[str, Break | None] = {
    "zeros": zeros,
    "one element 0": one_element,
    "one row 0": one_row,
    "scale 1.01": scaled,
    "toward zero": truncated,
    "one bit less": one_bit_less,
    "last column 0": last_column,
    "swapped rows": swapped_rows,
    "stale row": stale_row,
    "wrong sign": wrong_sign,
    "16-bit sums": None,
}
"""Ways to break an operation; the last one, partial sums in 16 bits, is of matmuls alone."""


def operations(module: ModuleOp, function: str) -> list[Operation]:
    """Returns the operations of a function that have a tensor as their result."""
    (found,) = [f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data == function]
    return [op for op in found.body.block.ops if op.results and not isinstance(op, RouteOp)]


class BrokenRun(Interpreter):
    """Runs a function with one operation broken, or none."""

    broken: Operation | None = None
    how: str = ""
    rng: random.Random

    def __init__(self, module: ModuleOp, ranks: int) -> None:
        super().__init__(module)
        register_functions(self, module, ranks)

    def plan(self, broken: Operation | None, how: str, seed: int) -> None:
        """Says what the next run breaks."""
        self.broken, self.how, self.rng = broken, how, random.Random(seed)

    def _run_op(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        if op is not self.broken:
            return super()._run_op(op, inputs)
        dtype = check_dtype(str(tensor_type(op.results[0]).element_type))
        change = BREAKS[self.how]
        if change is None:
            found = self._sums(op, inputs, dtype)
        else:
            found = [
                change(a, dtype, self.rng) if a.size else nearest(a, dtype)
                for a in self._exact(op, inputs)
            ]
        return OpImplResult((found,), None)

    def _exact(self, op: Operation, inputs: PythonValues) -> PerRank:
        wide = op.clone()
        type = tensor_type(op.results[0])
        real = TensorType(f64, type.get_shape(), type.encoding)
        Rewriter.replace_value_with_new_type(wide.results[0], real)
        values = super()._run_op(wide, tuple(_wide(v) for v in inputs)).values
        wide.erase()
        return cast(PerRank, values[0])

    def _sums(self, op: Operation, inputs: PythonValues, dtype: Dtype) -> PerRank:
        """Adds products of four columns at a time, and rounds each sum."""
        lhs = cast(PerRank, inputs[0])
        total: PerRank = []
        for first in range(0, lhs[0].shape[1], 4):
            part = [np.zeros_like(a) for a in lhs]
            for to, own in zip(part, lhs, strict=True):
                to[:, first : first + 4] = own[:, first : first + 4]
            terms = self._exact(op, (part, *inputs[1:]))
            total = [nearest(a + b, dtype) for a, b in zip(total or [0.0] * len(terms), terms)]
        return total


def applies(op: Operation, how: str) -> bool:
    """Returns whether an operation can be broken in this way."""
    return how != "16-bit sums" or (isinstance(op, GroupedMatmulOp) and op.transpose_lhs is None)


def _wide(value: object) -> object:
    if isinstance(value, list):
        items = cast(list[object], value)
        return [_wide(item) for item in items]
    if isinstance(value, np.ndarray):
        array = cast(Rows, value)
        return array.astype(np.float64) if array.dtype.kind == "f" else array
    return value
