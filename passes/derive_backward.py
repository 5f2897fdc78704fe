"""`derive-backward`: adds a function that computes the gradients of a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from hpmoe_ir.diagnostics import nearest, refuse
from hpmoe_ir.dialects import moe
from hpmoe_ir.passes.analysis.level import require_level
from hpmoe_ir.passes.gradient.backward_function import BackwardFunction
from hpmoe_ir.passes.gradient.reverse_sweep import differentiate

RECOMPUTABLE = ("swiglu", "up", "dispatch")
"""Values of the option `recompute`: the operations whose results need not be saved."""


def recomputable(op: Operation) -> str | None:
    """Returns the value of `recompute` that covers the result of `op`; None: always saved."""
    match op:
        case moe.SwiGLUOp():
            return "swiglu"
        case moe.DispatchOp():
            return "dispatch"
        case moe.GroupedMatmulOp() if any(
            isinstance(use.operation, moe.SwiGLUOp) for use in op.product.uses
        ):
            return "up"
        case _:
            return None


def split_combines(function: FuncOp) -> None:
    """Splits each `moe.combine` into a `moe.collect`, whose rows can be saved, and a sum."""
    for op in list(function.body.block.ops):
        if isinstance(op, moe.CombineOp):
            collect = moe.CollectOp(op.y, op.route)
            collect.back.name_hint = "back"
            total = moe.WeightedSumOp(collect, op.gate, op.route)
            total.out.name_hint = op.out.name_hint
            collect.location = total.location = op.location
            Rewriter.replace_op(op, [collect, total])


@dataclass(frozen=True)
class DeriveBackwardPass(ModulePass):
    """Adds a backward function to each function, from gradients of results to those of arguments.

    Applies reverse-mode differentiation to a graph of operations that have a gradient rule, in
    `passes/gradient/rules.py` or by the trait `GradientTrait`. A function `@f(inputs) ->
    results` becomes `@f(inputs) -> (results, saved)` and `@f_backward(gradients of the results,
    inputs needed, saved[, accumulators]) -> gradients`. The gradients are those of the float
    arguments that a result depends on, in the order of the arguments. The attribute `moe.forward`
    of the backward function names the forward one, and the roles of its arguments and results
    (`moe.role`) say by number to which argument or result of the forward function each belongs.
    Names of values have no meaning; a named value has the same name in both functions, and the
    gradient of `%x` is `%dx`.

    Each value that a gradient needs is saved, unless it is an argument or in `recompute`. For a
    layer these are the rows received, the output of the up-projection, its activation, and the
    rows returned: no matmul is recomputed. Routes are rebuilt from the ids, by another exchange of
    token counts: that is cheaper than saving three index arrays, and the exchange also tells a rank
    that its peers have finished the previous launch.

    Gradients that other gradients depend on come before gradients of weights that are ready at the
    same time. Recomputed values need no gradient, so they are placed where the first gradients are
    still being communicated. The gradient of a value with two uses is a sum: for weights in f32 by
    the operand `into` of the matmul, otherwise by `moe.add`.

    Needs a module at the `moe` level with straight-line functions. Not idempotent: refuses a module
    that has been differentiated.

    ```
    func.func @f(%x, %ids, %gate, %w2) -> out {
      %route = moe.route %ids
      %recv = moe.dispatch %x by %route
      %y = moe.grouped_matmul %recv, %w2 by %route
      %out = moe.combine %y, %gate by %route
      func.return %out
    }
    ```
    becomes
    ```
    func.func @f(%x, %ids, %gate, %w2) -> (out, recv {moe.role = #moe.role<saved>}, ...) {
      %route = moe.route %ids
      %recv = moe.dispatch %x by %route
      %y = moe.grouped_matmul %recv, %w2 by %route
      %back = moe.collect %y by %route
      %out = moe.weighted_sum %back, %gate by %route
      func.return %out, %recv, %back
    }
    func.func @f_backward(%dout {moe.role = #moe.role<gradient of result 0>},
        %ids {moe.role = #moe.role<argument 1>}, %gate, %w2,
        %recv {moe.role = #moe.role<result 1>}, %back)
        -> (dx {moe.role = #moe.role<gradient of argument 0>}, dgate, dw2)
        attributes {moe.forward = @f} {
      %route = moe.route %ids
      %dy = moe.dispatch_weighted %dout, %gate by %route
      %dgate = moe.gate_gradient %back, %dout by %route
      %drecv = moe.grouped_matmul %dy, %w2 by %route {transpose_rhs}
      %dw2 = moe.grouped_matmul %recv, %dy by %route {transpose_lhs}
      %dcopies = moe.collect %drecv by %route
      %dx = moe.sum_copies %dcopies by %route
      func.return %dx, %dgate, %dw2
    }
    ```
    """

    name = "derive-backward"

    recompute: tuple[str, ...] = ()
    """Values that the backward function recomputes instead of the forward one saving them:
    `swiglu`, the activation; `up`, the output of the up-projection; `dispatch`, the rows
    received."""
    accumulate: bool = False
    """Whether gradients of weights are added to f32 accumulators, which are the last arguments of
    the backward function, in the order of the weights."""
    weight_gradients: Literal["f32", "activation"] = "f32"
    """Element type of the gradients of weights: f32 (f64 for f64), or that of the weights."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self._check_options()
        require_level(op, "moe", self.name)
        functions = [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration]
        for function in functions:
            self._check_function(function, {moe.forward_of(f) for f in functions})
        for function in functions:
            split_combines(function)
            sweep = differentiate(function, self.accumulate, self.weight_gradients == "activation")
            again = {o for o in function.body.block.ops if recomputable(o) in self.recompute}
            BackwardFunction(function, sweep, again).build()

    def _check_options(self) -> None:
        for name in self.recompute:
            if name not in RECOMPUTABLE:
                raise PassFailedException(
                    f"{self.name}: option recompute: unknown value '{name}'"
                    f"{nearest(name, RECOMPUTABLE)}"
                )
        if self.accumulate and self.weight_gradients != "f32":
            raise PassFailedException(
                f"{self.name}: option accumulate: gradients are added up in f32, expected "
                f"weight_gradients=f32, found {self.weight_gradients}"
            )

    def _check_function(self, function: FuncOp, differentiated: set[str | None]) -> None:
        name = function.sym_name.data
        _, roles = moe.stated_roles(function)
        if (
            name in differentiated
            or moe.forward_of(function) is not None
            or moe.Role(moe.RoleKind.SAVED) in roles
        ):
            refuse(function, f"{self.name}: @{name} has been differentiated already")
        if len(function.body.blocks) != 1:
            refuse(
                function,
                f"{self.name}: @{name}: expected straight-line operations, found "
                f"{len(function.body.blocks)} blocks",
            )
        for op in function.body.block.ops:
            if op.regions:
                refuse(
                    op,
                    f"{self.name}: @{name}: expected straight-line operations, found {op.name} "
                    "with operations inside",
                )
        available = {recomputable(op) for op in function.body.block.ops}
        for choice in self.recompute:
            if choice not in available:
                refuse(
                    function,
                    f"{self.name}: option recompute: @{name} makes nothing that '{choice}' names",
                )
