"""The operations: one or two operands of rows, and a result of the same type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import I64, IntegerAttr, TensorType, i64
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from hpmoe_ir.dialects.moe.gradient_trait import Gradient, GradientBuilder, GradientTrait
from hpmoe_ir.dialects.rowwise import RowwiseTrait


class Unary(IRDLOperation):
    """An operation on rows with one operand."""

    T: ClassVar = VarConstraint("T", base(TensorType))

    rows = operand_def(T)
    out = result_def(T)

    assembly_format = "$rows attr-dict `:` type($rows)"

    def __init__(self, rows: SSAValue):
        super().__init__(operands=[rows], result_types=[rows.type])


class Binary(IRDLOperation):
    """An operation on rows with two operands."""

    T: ClassVar = VarConstraint("T", base(TensorType))

    lhs = operand_def(T)
    rhs = operand_def(T)
    out = result_def(T)

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs)"

    def __init__(self, lhs: SSAValue, rhs: SSAValue):
        super().__init__(operands=[lhs, rhs], result_types=[lhs.type])


class ScaleTrait(RowwiseTrait):
    """The kernel has the divisor as its option."""

    def options(self, op: Operation) -> dict[str, int]:
        assert isinstance(op, ScaleOp)
        return {"divisor": op.divisor.value.data}


class ScaleGradient(GradientTrait):
    """The gradient is divided as well."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        assert isinstance(op, ScaleOp)
        assert gradients[0] is not None
        divisor = op.divisor.value.data
        return [builder.gradient_of(op.rows, ScaleOp(gradients[0], divisor))]


@irdl_op_definition
class ScaleOp(IRDLOperation):
    """Divides by an integer: `outside.scale %h by 64`."""

    name = "outside.scale"

    T: ClassVar = VarConstraint("T", base(TensorType))

    rows = operand_def(T)
    divisor = prop_def(IntegerAttr[I64])
    out = result_def(T)

    traits = traits_def(Pure(), ScaleTrait("outside_scale"), ScaleGradient())

    assembly_format = "$rows `by` $divisor attr-dict `:` type($rows)"

    def __init__(self, rows: SSAValue, divisor: int):
        super().__init__(
            operands=[rows],
            properties={"divisor": IntegerAttr(divisor, i64)},
            result_types=[rows.type],
        )


class SquaredReluGradient(GradientTrait):
    """2 max(h, 0) times the gradient."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        assert gradients[0] is not None
        rows = op.operands[0]
        return [builder.gradient_of(rows, SquaredReluGradOp(rows, gradients[0]))]


@irdl_op_definition
class SquaredReluGradOp(Binary):
    """2 max(lhs, 0) rhs."""

    name = "outside.squared_relu_grad"
    traits = traits_def(Pure(), RowwiseTrait("outside_squared_relu_grad"))


@irdl_op_definition
class SquaredReluOp(Unary):
    """max(x, 0)^2."""

    name = "outside.squared_relu"
    traits = traits_def(Pure(), RowwiseTrait("outside_squared_relu"), SquaredReluGradient())


class WrongGradient(GradientTrait):
    """The rule of squared ReLU without its factor 2, as a rule that is wrong."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        assert gradients[0] is not None
        rows = op.operands[0]
        half = SquaredReluGradOp(rows, gradients[0])
        return [builder.gradient_of(rows, ScaleOp(builder.insert(half, "half"), 2))]


@irdl_op_definition
class WronglyDerivedOp(Unary):
    """max(x, 0)^2 with a wrong gradient."""

    name = "outside.wrongly_derived"
    traits = traits_def(Pure(), RowwiseTrait("outside_squared_relu"), WrongGradient())


@irdl_op_definition
class MulOp(Binary):
    """The product of its operands."""

    name = "outside.mul"
    traits = traits_def(Pure(), RowwiseTrait("outside_mul"))


@irdl_op_definition
class GeluOp(Unary):
    """GELU by tanh."""

    name = "outside.gelu"
    traits = traits_def(Pure(), RowwiseTrait("outside_gelu"))


@irdl_op_definition
class NoiseOp(Unary):
    """Adds other random numbers each time: nothing can be said of its results."""

    name = "outside.noise"
    traits = traits_def(Pure(), RowwiseTrait("outside_noise"))


class QuartersGradient(GradientTrait):
    """The gradient goes through, as if the operation were not there."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        assert gradients[0] is not None
        return [(op.operands[0], gradients[0])]


@irdl_op_definition
class QuartersOp(Unary):
    """Rounds to multiples of 1/4, which is not continuous."""

    name = "outside.quarters"
    traits = traits_def(Pure(), RowwiseTrait("outside_quarters"), QuartersGradient())


@irdl_op_definition
class ReluOp(Unary):
    """max(x, 0)."""

    name = "outside.relu"
    traits = traits_def(Pure(), RowwiseTrait("outside_relu"))


@irdl_op_definition
class RmsNormOp(Unary):
    """Divides each row by the root of its mean square."""

    name = "outside.rms_norm"
    traits = traits_def(Pure(), RowwiseTrait("outside_rms_norm"))


@irdl_op_definition
class SoftcapOp(Unary):
    """2 tanh(x / 2)."""

    name = "outside.softcap"
    traits = traits_def(Pure(), RowwiseTrait("outside_softcap"))


@irdl_op_definition
class SoftmaxOp(Unary):
    """The softmax of each row."""

    name = "outside.softmax"
    traits = traits_def(Pure(), RowwiseTrait("outside_softmax"))


@irdl_op_definition
class SquareOp(Unary):
    """x^2."""

    name = "outside.square"
    traits = traits_def(Pure(), RowwiseTrait("outside_square"))


OUTSIDE = Dialect(
    "outside",
    [
        GeluOp,
        MulOp,
        NoiseOp,
        QuartersOp,
        ReluOp,
        RmsNormOp,
        ScaleOp,
        SoftcapOp,
        SoftmaxOp,
        SquareOp,
        SquaredReluGradOp,
        SquaredReluOp,
        WronglyDerivedOp,
    ],
    [],
)
"""The dialect `outside`."""
