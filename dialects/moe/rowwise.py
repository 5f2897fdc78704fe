"""Elementwise operations, which are independent of experts and tokens."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Commutative, Pure
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.moe.checks import check_float, check_halves, check_type, tensor_type
from hpmoe_ir.dialects.placement import ExpertsAttr, RowsAttr
from hpmoe_ir.dialects.rowwise import RowwiseTrait


@irdl_op_definition
class SwiGLUOp(IRDLOperation):
    """Gated activation of each row: `silu(h[:, :I]) * h[:, I:]`, with silu(v) = v / (1 + exp(-v)).

    ```
    %a = moe.swiglu %h : tensor<?x64xbf16, #moe.grouped<256 rows>>
        -> tensor<?x32xbf16, #moe.grouped<256 rows>>
    ```
    """

    name = "moe.swiglu"

    h = operand_def(TensorType)
    """Rows of width 2 I: first the gate half, then the up half."""
    activation = result_def(TensorType)
    """Rows of width I."""

    traits = traits_def(Pure(), RowwiseTrait("swiglu"))

    assembly_format = "$h attr-dict `:` type($h) `->` type($activation)"

    def __init__(self, h: SSAValue | Operation):
        h_type = tensor_type(h)
        assert isinstance(h_type.encoding, RowsAttr), f"expected rows, found {h_type}"
        result = h_type.encoding.tensor(h_type.get_shape()[-1] // 2, h_type.element_type)
        super().__init__(operands=[h], result_types=[result])

    def verify_(self) -> None:
        h = tensor_type(self.h)
        rows, half = check_halves("h", h)
        check_type("activation", self.activation.type, rows.tensor(half, h.element_type))


@irdl_op_definition
class SwiGLUGradOp(IRDLOperation):
    """Gradient of `moe.swiglu` with respect to its operand, row by row.

    With h = [g | u] and s = 1 / (1 + exp(-g)): `[da * u * s * (1 + g * (1 - s)) | da * g * s]`,
    computed in f32, or f64 for f64.

    ```
    %dh = moe.swiglu_grad %h, %da : tensor<?x64xbf16, #moe.grouped<256 rows>>,
        tensor<?x32xbf16, #moe.grouped<256 rows>> -> tensor<?x64xbf16, #moe.grouped<256 rows>>
    ```
    """

    name = "moe.swiglu_grad"

    h = operand_def(TensorType)
    """The operand of the activation: rows of width 2 I."""
    da = operand_def(TensorType)
    """Gradient of the activation: rows of width I."""
    dh = result_def(TensorType)
    """Rows of width 2 I."""

    traits = traits_def(Pure(), RowwiseTrait("swiglu_grad"))

    assembly_format = "$h `,` $da attr-dict `:` type($h) `,` type($da) `->` type($dh)"

    def __init__(self, h: SSAValue | Operation, da: SSAValue | Operation):
        super().__init__(operands=[h, da], result_types=[tensor_type(h)])

    def verify_(self) -> None:
        h = tensor_type(self.h)
        rows, half = check_halves("h", h)
        check_type("da", self.da.type, rows.tensor(half, h.element_type))
        check_type("dh", self.dh.type, h)


@irdl_op_definition
class AddOp(IRDLOperation):
    """Elementwise sum of two tensors of rows or weights, such as the gradients of two uses.

    ```
    %sum = moe.add %a, %b : tensor<?x64xbf16, #moe.grouped<256 rows>>
    ```
    """

    name = "moe.add"

    T: ClassVar = VarConstraint("T", base(TensorType))

    lhs = operand_def(T)
    rhs = operand_def(T)
    sum = result_def(T)

    traits = traits_def(Pure(), Commutative())

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($sum)"

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation):
        super().__init__(operands=[lhs, rhs], result_types=[tensor_type(lhs)])

    def verify_(self) -> None:
        found = tensor_type(self.sum)
        if not isinstance(found.encoding, RowsAttr | ExpertsAttr):
            raise VerifyException(f"sum: expected rows or weights of experts, found {found}")
        check_float("sum", found)


ROWWISE_OPS = (SwiGLUOp, SwiGLUGradOp, AddOp)
"""The operations of this module, for the dialect."""
