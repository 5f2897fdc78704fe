"""An operation of another dialect brings its own gradient rule."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from hpmoe_ir.dialects.moe import AddOp
from hpmoe_ir.dialects.moe.checks import tensor_type
from hpmoe_ir.dialects.moe.gradient_trait import Gradient, GradientBuilder, GradientTrait
from hpmoe_ir.dialects.placement import GroupedAttr
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass


class SquareGradient(GradientTrait):
    @classmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        assert isinstance(op, SquareOp)
        (gradient,) = gradients
        assert gradient is not None
        return [builder.gradient_of(op.x, SquareGradOp(op.x, gradient))]


@irdl_op_definition
class SquareOp(IRDLOperation):
    """The square of each element."""

    name = "own.square"
    x = operand_def(TensorType)
    y = result_def(TensorType)
    traits = traits_def(Pure(), SquareGradient())

    def __init__(self, x: SSAValue | Operation):
        super().__init__(operands=[x], result_types=[tensor_type(x)])


@irdl_op_definition
class SquareGradOp(IRDLOperation):
    """`2 * x * dy`"""

    name = "own.square_grad"
    x = operand_def(TensorType)
    dy = operand_def(TensorType)
    dx = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, x: SSAValue | Operation, dy: SSAValue | Operation):
        super().__init__(operands=[x, dy], result_types=[tensor_type(x)])


def test_own_rule_is_asked():
    rows = GroupedAttr(5).tensor(4, f32)
    function = FuncOp("layer", ((rows,), (rows,)))
    (x,) = function.args
    x.name_hint = "x"
    twice = AddOp(x, x)
    twice.sum.name_hint = "twice"
    square = SquareOp(twice)
    square.y.name_hint = "y"
    function.body.block.add_ops([twice, square, ReturnOp(square)])
    module = ModuleOp([function])
    DeriveBackwardPass().apply(Context(), module)
    module.verify()
    forward, backward = module.ops
    assert isinstance(forward, FuncOp)
    assert isinstance(backward, FuncOp)
    assert [op.name for op in backward.body.block.ops] == [
        "own.square_grad",
        "moe.add",
        "func.return",
    ]
    # What the rule used is saved.
    last = forward.body.block.last_op
    assert last is not None
    assert list(last.operands) == [square.y, twice.sum]
    assert [arg.name_hint for arg in backward.args] == ["dy", "twice"]
