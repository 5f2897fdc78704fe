"""Work of the rows of a profile whose times follow from a machine's rates alone.

The rows are those of stock operators whose operands of a core are loaded, computed and stored in
one piece each, so that the number of instructions is known from the shapes, of element-wise
operators that stream more than L2 holds, and of collectives. The formulae are those of
docs/timing.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hpmoe_ir.calibration.op_summary import OpRow
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.kernels.device import BUFFERS, CUBE_MACS, FLOAT_BYTES, FRACTAL
from hpmoe_ir.machines.machine import Machine

FAST = frozenset({"Add", "Sub", "Mul", "Cast", "Maximum", "Minimum", "Muls", "Adds"})
"""Types of element-wise operators of one fast vector instruction."""

SLOW = frozenset({"Exp", "Ln", "Log", "Div", "RealDiv", "Sqrt"})
"""Types of element-wise operators of one slow vector instruction."""

MATMUL = frozenset({"MatMul", "MatMulV2", "MatMulV3"})
"""Types of products of two matrices."""

STREAM_OF_L2 = 2
"""An operator that moves this many times what L2 holds finds nothing of its inputs in it."""


@dataclass(frozen=True)
class Product:
    """A product of m x k by k x n whose columns are spread over cores."""

    m: int
    k: int
    n: int
    blocks: int
    left_bytes: int
    """Of the whole left operand, which each core loads."""
    right_bytes: int
    """Of the columns of a core, as the results are."""
    result_bytes: int

    @property
    def columns(self) -> int:
        """Columns of a core."""
        return self.n // self.blocks

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all cores."""
        return self.m * self.k * self.n

    @property
    def cycles(self) -> int:
        """Cycles of the cube on a core, without the fixed ones."""
        return math.prod(ceil_div(size, FRACTAL) for size in (self.m, self.columns, self.k))

    def one_pass(self, machine: Machine) -> bool:
        """Whether a core multiplies in one instruction, with operands that are loaded once."""
        return (
            self.n % self.blocks == 0
            and BUFFERS * self.left_bytes <= machine.l0a_bytes
            and BUFFERS * self.right_bytes <= machine.l0b_bytes
            and FLOAT_BYTES * self.m * self.columns <= machine.l0c_bytes
            and BUFFERS * (self.left_bytes + self.right_bytes) <= machine.l1_usable
        )


@dataclass(frozen=True)
class Elementwise:
    """An element-wise operator. Bytes and elements are those of all cores."""

    elements: int
    inputs: int
    """Number of input operands."""
    in_bytes: int
    out_bytes: int
    wide_bytes: int
    """Of the operand with the widest elements."""
    blocks: int
    slow: bool

    def one_pass(self, machine: Machine) -> bool:
        """Whether the operands of a core fit UB, so that each is moved by one instruction."""
        whole = self.elements % self.blocks == 0
        return whole and (self.in_bytes + self.out_bytes) // self.blocks <= machine.ub_usable

    def streams(self, machine: Machine) -> bool:
        """Whether all cores take part and L2 holds but a small part of the operands."""
        least = STREAM_OF_L2 * machine.rates.l2_bytes
        return self.blocks == machine.aiv_cores and min(self.in_bytes, self.out_bytes) >= least


def product_of(row: OpRow) -> Product | None:
    """Returns the product of a row, None for a row of another operator."""
    if row.op_type not in MATMUL or len(row.inputs) < 2 or not row.outputs or not row.blocks:
        return None
    left, right, result = row.inputs[0], row.inputs[1], row.outputs[0]
    if not len(left.shape) == len(right.shape) == len(result.shape) == 2:
        return None
    (m, k), n = left.shape, right.shape[1]
    return Product(
        m,
        k,
        n,
        row.blocks,
        left.bytes,
        right.bytes // row.blocks,
        result.bytes // row.blocks,
    )


def elementwise_of(row: OpRow) -> Elementwise | None:
    """Returns the element-wise work of a row, None for a row of another operator."""
    if row.op_type not in FAST | SLOW or not row.inputs or not row.outputs or not row.blocks:
        return None
    result = row.outputs[0]
    return Elementwise(
        result.elements,
        len(row.inputs),
        sum(t.bytes for t in row.inputs),
        result.bytes,
        max(t.bytes for t in (*row.inputs, result)),
        row.blocks,
        row.op_type in SLOW,
    )


def shape_fault(row: OpRow) -> str | None:
    """Returns what is wrong about the shapes of a row whose operator is known, None if nothing."""
    if (product := product_of(row)) is not None:
        right, result = row.inputs[1].shape, row.outputs[0].shape
        if right[0] != product.k or result != (product.m, product.n):
            return f"{row.op_type} of {row.inputs[0].shape} by {right} can't give {result}"
    elif (work := elementwise_of(row)) is not None:
        for operand in row.inputs:
            if operand.elements not in (1, work.elements):
                return f"{row.op_type} of {operand.shape} can't give {row.outputs[0].shape}"
    return None


def type_fault(row: OpRow) -> str | None:
    """Returns what is wrong about the element types of a row, None if nothing.

    Only Cast, and a product that keeps its sums, may have a result of another type.
    """
    if product_of(row) is None and elementwise_of(row) is None:
        return None
    kinds, result = {t.dtype.removeprefix("DT_") for t in row.inputs}, row.outputs[0].dtype
    result = result.removeprefix("DT_")
    sums = row.op_type in MATMUL and result in ("FLOAT", "FLOAT32")
    if len(kinds) > 1 or not (row.op_type == "Cast" or sums or result in kinds):
        return f"{row.op_type} of {', '.join(sorted(kinds))} can't give {result}"
    return None


def mac_us(product: Product, cycles_per_us: float) -> float:
    """Least time of a product on each of its cores at the peak of the cube."""
    return product.macs / CUBE_MACS / product.blocks / cycles_per_us
