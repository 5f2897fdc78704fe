"""Gradient rules of the operations of the `moe` dialect.

Rows go to the experts and come back in pairs of operations: what `moe.collect` brings back,
`moe.weighted_sum`, `moe.sum_copies` and `moe.gate_gradient` bring to the tokens. No operation takes
gradients of rows in send order, so the rules of these three go through the `moe.collect` as well,
and give the gradient of its operand.

Operations import these rules, so a rule imports operations only when it is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from hpmoe_ir.dialects.moe.checks import tensor_type
from hpmoe_ir.dialects.moe.gradient_trait import (
    Gradient,
    GradientBuilder,
    GradientError,
    GradientTrait,
)


def _only(gradients: Sequence[SSAValue | None]) -> SSAValue:
    """The gradient of the only result; a rule isn't asked where there is none."""
    (gradient,) = gradients
    assert gradient is not None, "a rule was asked although nothing depends on the result"
    return gradient


def _collected(op: Operation, back: SSAValue, route: SSAValue) -> SSAValue:
    """The experts' rows that `back`, an operand of `op`, was collected from."""
    from hpmoe_ir.dialects.moe.routing import CollectOp

    collect = back.owner
    if not isinstance(collect, CollectOp):
        maker = collect.name if isinstance(collect, Operation) else "an argument"
        raise GradientError(
            f"expected rows that moe.collect brought back, found {maker}; rows in send order "
            "have no gradient of their own"
        )
    if collect.route is not route:
        raise GradientError(
            "expected rows collected by the same route, found another; no operation brings their "
            "gradient to the experts"
        )
    return collect.y


class DispatchGradient(GradientTrait):
    """A token's gradient is the sum of those of its copies."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        from hpmoe_ir.dialects.moe.gradient import SumCopiesOp
        from hpmoe_ir.dialects.moe.routing import CollectOp, DispatchOp

        assert isinstance(op, DispatchOp)
        copies = builder.insert(CollectOp(_only(gradients), op.route), "dcopies")
        return [builder.gradient_of(op.x, SumCopiesOp(copies, op.route))]


class CollectGradient(GradientTrait):
    """None: rules of what uses the rows go through the `moe.collect` to the experts' rows."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        raise GradientError(
            "expected its rows to be used by moe.weighted_sum or the like only; rows in send order "
            "have no gradient of their own"
        )


class WeightedSumGradient(GradientTrait):
    """The experts' rows get the gradient of the sum times the weight, a weight the product of its
    row with the gradient of the sum."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        from hpmoe_ir.dialects.moe.gradient import DispatchWeightedOp, GateGradientOp
        from hpmoe_ir.dialects.moe.routing import WeightedSumOp

        assert isinstance(op, WeightedSumOp)
        dout = _only(gradients)
        y = _collected(op, op.back, op.route)
        return [
            builder.gradient_of(y, DispatchWeightedOp(dout, op.gate, op.route)),
            builder.gradient_of(op.gate, GateGradientOp(op.back, dout, op.route)),
        ]


class SumCopiesGradient(GradientTrait):
    """Each copy gets the gradient of the sum."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        from hpmoe_ir.dialects.moe.gradient import SumCopiesOp
        from hpmoe_ir.dialects.moe.routing import DispatchOp

        assert isinstance(op, SumCopiesOp)
        y = _collected(op, op.back, op.route)
        return [builder.gradient_of(y, DispatchOp(_only(gradients), op.route))]


class DispatchWeightedGradient(GradientTrait):
    """As `moe.combine`: the tokens get the weighted sum, the weights products of rows."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        from hpmoe_ir.dialects.moe.gradient import DispatchWeightedOp, GateGradientOp
        from hpmoe_ir.dialects.moe.routing import CollectOp, WeightedSumOp

        assert isinstance(op, DispatchWeightedOp)
        copies = builder.insert(CollectOp(_only(gradients), op.route), "dcopies")
        return [
            builder.gradient_of(op.x, WeightedSumOp(copies, op.gate, op.route)),
            builder.gradient_of(op.gate, GateGradientOp(copies, op.x, op.route)),
        ]


class GateGradientGradient(GradientTrait):
    """The weights' place is taken by their gradient, in both products."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        from hpmoe_ir.dialects.moe.gradient import DispatchWeightedOp, GateGradientOp
        from hpmoe_ir.dialects.moe.routing import WeightedSumOp

        assert isinstance(op, GateGradientOp)
        weights = _only(gradients)
        y = _collected(op, op.back, op.route)
        return [
            builder.gradient_of(y, DispatchWeightedOp(op.dout, weights, op.route)),
            builder.gradient_of(op.dout, WeightedSumOp(op.back, weights, op.route)),
        ]


class GroupedMatmulGradient(GradientTrait):
    """Rows get the product with the transposed weights; weights get, expert by expert, the product
    of the transposed rows with the gradient, summed over the rows."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        from hpmoe_ir.dialects.moe.matmul import GroupedMatmulOp

        assert isinstance(op, GroupedMatmulOp)
        product = _only(gradients)
        element = tensor_type(op.lhs).element_type
        if op.transpose_lhs is not None:
            return cls._of_weight_gradient(op, product, builder)
        transposed = op.transpose_rhs is not None
        rows = GroupedMatmulOp(product, op.rhs, op.route, transpose_rhs=not transposed)
        first, second = (product, op.lhs) if transposed else (op.lhs, product)
        weights = GroupedMatmulOp(
            first,
            second,
            op.route,
            transpose_lhs=True,
            element_type=builder.weight_gradient_type(element),
        )
        return [builder.gradient_of(op.lhs, rows), builder.gradient_of(op.rhs, weights)]

    @staticmethod
    def _of_weight_gradient(
        op: Operation, weights: SSAValue, builder: GradientBuilder
    ) -> Sequence[Gradient]:
        """`lhs^T x rhs`: each factor gets the other one's product with the gradient."""
        from hpmoe_ir.dialects.moe.matmul import GroupedMatmulOp

        assert isinstance(op, GroupedMatmulOp)
        found, expected = tensor_type(weights).element_type, tensor_type(op.lhs).element_type
        if found != expected:
            raise GradientError(
                f"expected a gradient of the elements of lhs, {expected}, found {found}"
            )
        lhs = GroupedMatmulOp(op.rhs, weights, op.route, transpose_rhs=True)
        rhs = GroupedMatmulOp(op.lhs, weights, op.route)
        own = [builder.gradient_of(op.lhs, lhs), builder.gradient_of(op.rhs, rhs)]
        return own if op.accumulator is None else [*own, (op.accumulator, weights)]


class SwiGLUGradient(GradientTrait):
    """Element by element, by `moe.swiglu_grad`."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        from hpmoe_ir.dialects.moe.rowwise import SwiGLUGradOp, SwiGLUOp

        assert isinstance(op, SwiGLUOp)
        return [builder.gradient_of(op.h, SwiGLUGradOp(op.h, _only(gradients)))]


class AddGradient(GradientTrait):
    """Both terms get the gradient of the sum."""

    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        gradient = _only(gradients)
        return [(operand, gradient) for operand in op.operands]
