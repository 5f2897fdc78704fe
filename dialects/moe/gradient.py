"""Operations of backward functions: gradients of dispatch and combine."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from hpmoe_ir.dialects.moe.checks import (
    check_float,
    check_gate,
    check_rows,
    check_type,
    gate_type,
    route_type,
    rows_like,
    tensor_type,
)
from hpmoe_ir.dialects.placement import RouteType


@irdl_op_definition
class DispatchWeightedOp(IRDLOperation):
    """Sends each token's row to the ranks of its experts, scaled by the router weight.

    The gradient of `moe.combine` with respect to the experts' rows: the row of token t for its
    k-th expert is `gate[t, k] * x[t]`, computed in f32, or f64 for f64.

    ```
    %dy = moe.dispatch_weighted %dout, %gate by %route : tensor<?x64xbf16, #moe.tokens<64 rows>>,
        tensor<?x2xf32, #moe.tokens<64 rows>>,
        !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
        -> tensor<?x64xbf16, #moe.grouped<256 rows>>
    ```
    """

    name = "moe.dispatch_weighted"

    x = operand_def(TensorType)
    """One row per token."""
    gate = operand_def(TensorType)
    """Router weights, `[tokens, K]`, in the order of the ids."""
    route = operand_def(RouteType)
    received = result_def(TensorType)
    """One row for each (token, expert) of any rank whose expert lives here, in receive order."""

    traits = traits_def(Pure())

    assembly_format = (
        "$x `,` $gate `by` $route attr-dict `:` type($x) `,` type($gate) `,` type($route) "
        "`->` type($received)"
    )

    def __init__(
        self,
        x: SSAValue | Operation,
        gate: SSAValue | Operation,
        route: SSAValue | Operation,
    ):
        super().__init__(
            operands=[x, gate, route],
            result_types=[rows_like(route_type(route).grouped_rows, tensor_type(x))],
        )

    def verify_(self) -> None:
        x, route = tensor_type(self.x), route_type(self.route)
        check_rows("x", x, route.token_rows)
        check_float("x", x)
        check_gate("gate", self.gate.type, route, x)
        check_type("received", self.received.type, rows_like(route.grouped_rows, x))


@irdl_op_definition
class SumCopiesOp(IRDLOperation):
    """Sums the collected rows of each token: with `moe.collect`, the gradient of `moe.dispatch`.

    `out[t] = sum over 0 <= k < K of (row of token t from its k-th expert)`, summed in this order in
    f32, or f64 for f64.

    ```
    %dx = moe.sum_copies %back by %route : tensor<?x64xbf16, #moe.sent<128 rows>>,
        !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
        -> tensor<?x64xbf16, #moe.tokens<64 rows>>
    ```
    """

    name = "moe.sum_copies"

    back = operand_def(TensorType)
    """One row for each (token, expert), in send order."""
    route = operand_def(RouteType)
    out = result_def(TensorType)
    """One row per token."""

    traits = traits_def(Pure())

    assembly_format = "$back `by` $route attr-dict `:` type($back) `,` type($route) `->` type($out)"

    def __init__(self, back: SSAValue | Operation, route: SSAValue | Operation):
        super().__init__(
            operands=[back, route],
            result_types=[rows_like(route_type(route).token_rows, tensor_type(back))],
        )

    def verify_(self) -> None:
        back, route = tensor_type(self.back), route_type(self.route)
        check_rows("back", back, route.sent_rows)
        check_float("back", back)
        check_type("out", self.out.type, rows_like(route.token_rows, back))


@irdl_op_definition
class GateGradientOp(IRDLOperation):
    """Gradient of `moe.weighted_sum` with respect to the router weights.

    `dgate[t, k]` is the dot product of the row of token t from its k-th expert with `dout[t]`, in
    f32, or f64 for f64.

    ```
    %dgate = moe.gate_gradient %back, %dout by %route : tensor<?x64xbf16, #moe.sent<128 rows>>,
        tensor<?x64xbf16, #moe.tokens<64 rows>>,
        !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
        -> tensor<?x2xf32, #moe.tokens<64 rows>>
    ```
    """

    name = "moe.gate_gradient"

    back = operand_def(TensorType)
    """One row for each (token, expert), in send order."""
    dout = operand_def(TensorType)
    """Gradient of the weighted sum, one row per token."""
    route = operand_def(RouteType)
    dgate = result_def(TensorType)
    """Gradient of the router weights, `[tokens, K]`, in the order of the ids."""

    traits = traits_def(Pure())

    assembly_format = (
        "$back `,` $dout `by` $route attr-dict `:` type($back) `,` type($dout) `,` type($route) "
        "`->` type($dgate)"
    )

    def __init__(
        self,
        back: SSAValue | Operation,
        dout: SSAValue | Operation,
        route: SSAValue | Operation,
    ):
        super().__init__(
            operands=[back, dout, route],
            result_types=[gate_type(route_type(route), tensor_type(back).element_type)],
        )

    def verify_(self) -> None:
        back, route = tensor_type(self.back), route_type(self.route)
        check_rows("back", back, route.sent_rows)
        check_float("back", back)
        check_type("dout", self.dout.type, rows_like(route.token_rows, back))
        check_gate("dgate", self.dgate.type, route, back)
