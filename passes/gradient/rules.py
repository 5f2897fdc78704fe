"""Gradient rules of the operations of the `moe` dialect, by type of operation.

A rule returns the contributions of the gradient of an operation's only result to the gradients of
its operands. Operations of other dialects define their rule by the trait `GradientTrait`.

Rows return from the experts in two operations: `moe.collect` brings rows back to the ranks of the
tokens, and `moe.weighted_sum`, `moe.sum_copies` or `moe.gate_gradient` reduces them to the tokens.
No operation takes gradients of rows in send order, so the rules of the reductions cover the
`moe.collect` as well and return the gradient of its operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from hpmoe_ir.dialects.moe import (
    AddOp,
    CollectOp,
    DispatchOp,
    DispatchWeightedOp,
    GateGradientOp,
    GroupedMatmulOp,
    SumCopiesOp,
    SwiGLUGradOp,
    SwiGLUOp,
    WeightedSumOp,
)
from hpmoe_ir.dialects.moe.checks import tensor_type
from hpmoe_ir.dialects.moe.gradient_trait import (
    Gradient,
    GradientBuilder,
    GradientError,
    GradientTrait,
)


def gradients_of(
    op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
) -> Sequence[Gradient] | None:
    """Applies the rule of `op`, from its trait `GradientTrait` or else from this module.

    `gradients[i]` is the gradient with respect to result i. Returns None if there is no rule.
    Raises GradientError if `op` is not differentiable in its context.
    """
    trait = op.get_trait(GradientTrait)
    if trait is not None:
        return trait.gradient(op, gradients, builder)
    rule = MOE_RULES.get(type(op))
    if rule is None:
        return None
    (gradient,) = gradients
    assert gradient is not None, "a rule was asked although nothing depends on the result"
    return rule(op, gradient, builder)


def _collected(op: Operation, back: SSAValue, route: SSAValue) -> SSAValue:
    """Returns the experts' rows from which `back`, an operand of `op`, was collected."""
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


def dispatch(op: DispatchOp, gradient: SSAValue, builder: GradientBuilder) -> Sequence[Gradient]:
    """Gradient rule: a token's gradient is the sum of the gradients of its copies."""
    copies = builder.insert(CollectOp(gradient, op.route), "dcopies")
    return [builder.gradient_of(op.x, SumCopiesOp(copies, op.route))]


def collect(op: CollectOp, gradient: SSAValue, builder: GradientBuilder) -> Sequence[Gradient]:
    """Always raises GradientError: the rules of the users of the rows cover `moe.collect`."""
    raise GradientError(
        "expected its rows to be used by moe.weighted_sum or the like only; rows in send order "
        "have no gradient of their own"
    )


def weighted_sum(
    op: WeightedSumOp, gradient: SSAValue, builder: GradientBuilder
) -> Sequence[Gradient]:
    """Gradient rule: the gradient of an expert's row is that of the sum times the router weight;
    the gradient of a weight is the dot product of its row with the gradient of the sum."""
    y = _collected(op, op.back, op.route)
    return [
        builder.gradient_of(y, DispatchWeightedOp(gradient, op.gate, op.route)),
        builder.gradient_of(op.gate, GateGradientOp(op.back, gradient, op.route)),
    ]


def sum_copies(op: SumCopiesOp, gradient: SSAValue, builder: GradientBuilder) -> Sequence[Gradient]:
    """Gradient rule: the gradient of each copy is the gradient of the sum."""
    y = _collected(op, op.back, op.route)
    return [builder.gradient_of(y, DispatchOp(gradient, op.route))]


def dispatch_weighted(
    op: DispatchWeightedOp, gradient: SSAValue, builder: GradientBuilder
) -> Sequence[Gradient]:
    """Gradient rule: a weighted sum for the tokens, dot products of rows for the weights."""
    copies = builder.insert(CollectOp(gradient, op.route), "dcopies")
    return [
        builder.gradient_of(op.x, WeightedSumOp(copies, op.gate, op.route)),
        builder.gradient_of(op.gate, GateGradientOp(copies, op.x, op.route)),
    ]


def gate_gradient(
    op: GateGradientOp, gradient: SSAValue, builder: GradientBuilder
) -> Sequence[Gradient]:
    """Gradient rule: the operation is linear in the rows and in `dout`; the gradient takes the
    place of the router weights in the rule of `moe.weighted_sum`."""
    y = _collected(op, op.back, op.route)
    return [
        builder.gradient_of(y, DispatchWeightedOp(op.dout, gradient, op.route)),
        builder.gradient_of(op.dout, WeightedSumOp(op.back, gradient, op.route)),
    ]


def grouped_matmul(
    op: GroupedMatmulOp, gradient: SSAValue, builder: GradientBuilder
) -> Sequence[Gradient]:
    """Gradient rule: dX = dY W^T for the rows; dW = X^T dY for the weights of each expert, summed
    over its rows."""
    if op.transpose_lhs is not None:
        return _weight_gradient(op, gradient, builder)
    transposed = op.transpose_rhs is not None
    rows = GroupedMatmulOp(gradient, op.rhs, op.route, transpose_rhs=not transposed)
    first, second = (gradient, op.lhs) if transposed else (op.lhs, gradient)
    weights = GroupedMatmulOp(
        first,
        second,
        op.route,
        transpose_lhs=True,
        element_type=builder.weight_gradient_type(tensor_type(op.lhs).element_type),
    )
    return [builder.gradient_of(op.lhs, rows), builder.gradient_of(op.rhs, weights)]


def _weight_gradient(
    op: GroupedMatmulOp, gradient: SSAValue, builder: GradientBuilder
) -> Sequence[Gradient]:
    """Gradient rule of `lhs^T x rhs`: for each factor, the product of the gradient with the other
    factor."""
    found, expected = tensor_type(gradient).element_type, tensor_type(op.lhs).element_type
    if found != expected:
        raise GradientError(
            f"expected a gradient of the elements of lhs, {expected}, found {found}"
        )
    lhs = GroupedMatmulOp(op.rhs, gradient, op.route, transpose_rhs=True)
    rhs = GroupedMatmulOp(op.lhs, gradient, op.route)
    own = [builder.gradient_of(op.lhs, lhs), builder.gradient_of(op.rhs, rhs)]
    return own if op.accumulator is None else [*own, (op.accumulator, gradient)]


def swiglu(op: SwiGLUOp, gradient: SSAValue, builder: GradientBuilder) -> Sequence[Gradient]:
    """Gradient rule: element-wise, by `moe.swiglu_grad`."""
    return [builder.gradient_of(op.h, SwiGLUGradOp(op.h, gradient))]


def add(op: AddOp, gradient: SSAValue, builder: GradientBuilder) -> Sequence[Gradient]:
    """Gradient rule: the gradient of both terms is the gradient of the sum."""
    return [(operand, gradient) for operand in op.operands]


MOE_RULES: dict[type[Operation], Callable[..., Sequence[Gradient]]] = {
    AddOp: add,
    CollectOp: collect,
    DispatchOp: dispatch,
    DispatchWeightedOp: dispatch_weighted,
    GateGradientOp: gate_gradient,
    GroupedMatmulOp: grouped_matmul,
    SumCopiesOp: sum_copies,
    SwiGLUOp: swiglu,
    WeightedSumOp: weighted_sum,
}
"""The gradient rules of the `moe` dialect, by operation type. `moe.route` has none, since ids have
no gradient, nor has `moe.combine`, which `derive-backward` splits first."""
