"""Reverse-mode sweep: applies the gradient rule of each operation, from last to first."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.moe import AddOp, GroupedMatmulOp
from hpmoe_ir.dialects.moe.checks import sum_type, tensor_type
from hpmoe_ir.dialects.moe.gradient_trait import GradientBuilder, GradientError, gradient_name
from hpmoe_ir.dialects.placement import AnyTensor, ExpertsAttr
from hpmoe_ir.passes.gradient.rules import gradients_of


@dataclass
class Sweep:
    """Result of differentiation: operations that still use values of the forward function."""

    block: Block
    """The operations. The block arguments are gradients of results, then accumulators."""
    results: list[SSAValue]
    """Results of the function whose gradients are block arguments, in order."""
    gradients: dict[BlockArgument, SSAValue]
    """The gradient of each argument of the function that has one, in order."""
    accumulators: dict[BlockArgument, BlockArgument] = field(
        default_factory=dict[BlockArgument, BlockArgument]
    )
    """Maps arguments of the function to the block argument that their gradient is added to."""


def is_float(type: Attribute) -> bool:
    """Whether a value of this type can have a gradient."""
    return isa(type, AnyTensor) and isinstance(type.element_type, AnyFloat)


def active_values(block: Block) -> set[SSAValue]:
    """Returns the float values that depend on a float argument."""
    active: set[SSAValue] = {arg for arg in block.args if is_float(arg.type)}
    for op in block.ops:
        if any(operand in active for operand in op.operands):
            active.update(result for result in op.results if is_float(result.type))
    return active


def differentiate(function: FuncOp, accumulate: bool, activation_weight_gradients: bool) -> Sweep:
    """Computes the gradients of all arguments of `function` that a result depends on.

    With `accumulate`, gradients of weights are added to accumulators, arguments of the new block.
    Raises RefusedError if a gradient has to pass through an operation without a rule.
    """
    forward = function.body.block
    last = forward.last_op
    assert isinstance(last, ReturnOp), "a function ends in func.return"
    active = active_values(forward)
    results = list(dict.fromkeys(value for value in last.arguments if value in active))
    block = Block(arg_types=[value.type for value in results])
    builder = GradientBuilder(block, activation_weight_gradients)
    gradients: dict[SSAValue, SSAValue] = {}
    for value, gradient in zip(results, block.args, strict=True):
        gradient.name_hint = gradient_name(value)
        gradients[value] = gradient
    accumulators = _accumulators(forward, block) if accumulate else {}
    for weights, accumulator in accumulators.items():
        if weights in gradients:
            refuse(
                last,
                "derive-backward: option accumulate: expected weights to be used only, found "
                "that they are returned as they are",
            )
        gradients[weights] = accumulator
    for op in reversed(list(forward.ops)):
        of_results = [gradients.get(result) for result in op.results]
        if not any(of_results) or not any(operand in active for operand in op.operands):
            continue
        builder.location = op.location
        pairs = _gradients(op, of_results, builder)
        for value, gradient in pairs:
            if value not in active:
                continue
            earlier = gradients.get(value)
            if earlier is None:
                gradients[value] = gradient
                continue
            if earlier.type != gradient.type:
                refuse(
                    op,
                    f"derive-backward: {op.name}: expected a gradient of type {earlier.type}, as "
                    f"another use of the value or its accumulator has, found {gradient.type}",
                )
            # A rule may pass on a gradient that is also the gradient of another value.
            shared = (
                gradient.first_use is not None
                or gradient in gradients.values()
                or sum(other is gradient for _, other in pairs) > 1
            )
            product = None if shared else _weight_gradient(gradient)
            gradients[value] = (
                builder.gradient_of(value, AddOp(earlier, gradient))[1]
                if product is None
                else _accumulate_into(product, earlier)
            )
    own = {arg: gradients[arg] for arg in forward.args if arg in gradients}
    for arg, accumulator in accumulators.items():
        if own[arg] is accumulator:
            del own[arg]
    if not own:
        refuse(
            function,
            f"derive-backward: @{function.sym_name.data}: no result depends on a float argument",
        )
    _drop_unused(block, set(own.values()))
    return Sweep(
        block, results, own, {arg: value for arg, value in accumulators.items() if arg in own}
    )


def _accumulators(forward: Block, block: Block) -> dict[BlockArgument, BlockArgument]:
    """Adds an accumulator argument to `block` for each weight argument of `forward`."""
    made: dict[BlockArgument, BlockArgument] = {}
    for arg in forward.args:
        if is_float(arg.type) and isinstance(tensor_type(arg).encoding, ExpertsAttr):
            type = tensor_type(arg)
            _, *shape = type.get_shape()
            assert isinstance(type.encoding, ExpertsAttr)
            total = type.encoding.tensor((shape[0], shape[1]), sum_type(type.element_type))
            made[arg] = block.insert_arg(total, len(block.args))
            made[arg].name_hint = f"{gradient_name(arg)}_acc"
    return made


def _gradients(
    op: Operation, of_results: list[SSAValue | None], builder: GradientBuilder
) -> list[tuple[SSAValue, SSAValue]]:
    try:
        found = gradients_of(op, of_results, builder)
    except GradientError as e:
        refuse(op, f"derive-backward: {op.name}: {e}")
    if found is None:
        refuse(
            op,
            f"derive-backward: {op.name} has no gradient rule; give it the trait GradientTrait",
        )
    return list(found)


def _weight_gradient(gradient: SSAValue) -> GroupedMatmulOp | None:
    """Returns the matmul that computes a weight gradient, if it can add to an earlier one."""
    product = gradient.owner
    if (
        isinstance(product, GroupedMatmulOp)
        and product.transpose_lhs is not None
        and product.accumulator is None
        and tensor_type(gradient).element_type == sum_type(tensor_type(product.lhs).element_type)
    ):
        return product
    return None


def _accumulate_into(product: GroupedMatmulOp, earlier: SSAValue) -> SSAValue:
    """Makes a gradient of weights add to `earlier`."""
    added = GroupedMatmulOp(
        product.lhs,
        product.rhs,
        product.route,
        transpose_lhs=True,
        accumulator=earlier,
        element_type=tensor_type(product.product).element_type,
    )
    added.product.name_hint = product.product.name_hint
    added.location = product.location
    Rewriter.replace_op(product, added)
    return added.product


def _drop_unused(block: Block, needed: set[SSAValue]) -> None:
    """Erases operations of `block` whose results nothing uses."""
    for op in reversed(list(block.ops)):
        if needed.isdisjoint(op.results) and is_trivially_dead(op):
            op.detach()
            op.erase()
