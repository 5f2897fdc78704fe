"""Operations that move rows between ranks: route, dispatch, collect and combine."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from hpmoe_ir.dialects.moe.checks import (
    check_float,
    check_gate,
    check_rows,
    check_type,
    route_type,
    rows_like,
    tensor_type,
)
from hpmoe_ir.dialects.placement import RouteType


@irdl_op_definition
class RouteOp(IRDLOperation):
    """Builds the route of a launch from the expert ids of each token, a collective of all ranks.

    Row t of `ids` holds K distinct ids in [0, E). An id out of range or repeated for a token, and
    more rows for a rank than its capacity, are errors at run time on every rank.

    ```
    %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<64 rows>>
        -> !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
    ```
    """

    name = "moe.route"

    ids = operand_def(TensorType)
    """Ids of the experts, `[tokens, K]`, in token order."""
    route = result_def(RouteType)

    traits = traits_def(Pure())

    assembly_format = "$ids attr-dict `:` type($ids) `->` type($route)"

    def __init__(self, ids: SSAValue | Operation, route: RouteType):
        super().__init__(operands=[ids], result_types=[route])

    def verify_(self) -> None:
        route = route_type(self.route)
        check_type("ids", self.ids.type, route.token_rows.tensor(route.top.data, i32))


@irdl_op_definition
class DispatchOp(IRDLOperation):
    """Sends each token's row to the ranks of its experts; the result is what this rank receives.

    ```
    %recv = moe.dispatch %x by %route : tensor<?x64xbf16, #moe.tokens<64 rows>>,
        !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
        -> tensor<?x64xbf16, #moe.grouped<256 rows>>
    ```
    """

    name = "moe.dispatch"

    x = operand_def(TensorType)
    """One row per token."""
    route = operand_def(RouteType)
    received = result_def(TensorType)
    """One row for each (token, expert) of any rank whose expert lives here, in receive order."""

    traits = traits_def(Pure())

    assembly_format = "$x `by` $route attr-dict `:` type($x) `,` type($route) `->` type($received)"

    def __init__(self, x: SSAValue | Operation, route: SSAValue | Operation):
        x_type = tensor_type(x)
        rows = route_type(route).grouped_rows
        super().__init__(
            operands=[x, route],
            result_types=[rows.tensor(x_type.get_shape()[-1], x_type.element_type)],
        )

    def verify_(self) -> None:
        x, route = tensor_type(self.x), route_type(self.route)
        width = check_rows("x", x, route.token_rows)
        check_float("x", x)
        check_type("received", self.received.type, route.grouped_rows.tensor(width, x.element_type))


@irdl_op_definition
class CombineOp(IRDLOperation):
    """Returns the experts' rows to the ranks of their tokens and computes their weighted sums.

    `out[t] = sum over 0 <= k < K of gate[t, k] * (row of token t from expert ids[t, k])`, summed in
    this order in f32, or f64 for f64.

    ```
    %out = moe.combine %y, %gate by %route : tensor<?x64xbf16, #moe.grouped<256 rows>>,
        tensor<?x2xf32, #moe.tokens<64 rows>>,
        !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
        -> tensor<?x64xbf16, #moe.tokens<64 rows>>
    ```
    """

    name = "moe.combine"

    y = operand_def(TensorType)
    """Rows of the local experts, in receive order."""
    gate = operand_def(TensorType)
    """Router weights, `[tokens, K]`, in the order of the ids."""
    route = operand_def(RouteType)
    out = result_def(TensorType)
    """One row per token."""

    traits = traits_def(Pure())

    assembly_format = (
        "$y `,` $gate `by` $route attr-dict `:` type($y) `,` type($gate) `,` type($route) "
        "`->` type($out)"
    )

    def __init__(
        self,
        y: SSAValue | Operation,
        gate: SSAValue | Operation,
        route: SSAValue | Operation,
    ):
        y_type = tensor_type(y)
        rows = route_type(route).token_rows
        super().__init__(
            operands=[y, gate, route],
            result_types=[rows.tensor(y_type.get_shape()[-1], y_type.element_type)],
        )

    def verify_(self) -> None:
        y, route = tensor_type(self.y), route_type(self.route)
        width = check_rows("y", y, route.grouped_rows)
        check_float("y", y)
        check_gate("gate", self.gate.type, route, y)
        check_type("out", self.out.type, route.token_rows.tensor(width, y.element_type))


@irdl_op_definition
class CollectOp(IRDLOperation):
    """Returns the rows of the experts to the ranks of their tokens.

    The first half of `moe.combine`; `moe.weighted_sum` is the second. The result can be saved for
    the gradient of the router weights.

    ```
    %back = moe.collect %y by %route : tensor<?x64xbf16, #moe.grouped<256 rows>>,
        !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
        -> tensor<?x64xbf16, #moe.sent<128 rows>>
    ```
    """

    name = "moe.collect"

    y = operand_def(TensorType)
    """Rows of the local experts, in receive order."""
    route = operand_def(RouteType)
    back = result_def(TensorType)
    """One row for each (token, expert) of this rank, in send order."""

    traits = traits_def(Pure())

    assembly_format = "$y `by` $route attr-dict `:` type($y) `,` type($route) `->` type($back)"

    def __init__(self, y: SSAValue | Operation, route: SSAValue | Operation):
        super().__init__(
            operands=[y, route],
            result_types=[rows_like(route_type(route).sent_rows, tensor_type(y))],
        )

    def verify_(self) -> None:
        y, route = tensor_type(self.y), route_type(self.route)
        check_rows("y", y, route.grouped_rows)
        check_float("y", y)
        check_type("back", self.back.type, rows_like(route.sent_rows, y))


@irdl_op_definition
class WeightedSumOp(IRDLOperation):
    """Sums the collected rows of each token, scaled by the router weights.

    The second half of `moe.combine`, with the same order and precision of sums.

    ```
    %out = moe.weighted_sum %back, %gate by %route : tensor<?x64xbf16, #moe.sent<128 rows>>,
        tensor<?x2xf32, #moe.tokens<64 rows>>,
        !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
        -> tensor<?x64xbf16, #moe.tokens<64 rows>>
    ```
    """

    name = "moe.weighted_sum"

    back = operand_def(TensorType)
    """One row for each (token, expert), in send order."""
    gate = operand_def(TensorType)
    """Router weights, `[tokens, K]`, in the order of the ids."""
    route = operand_def(RouteType)
    out = result_def(TensorType)
    """One row per token."""

    traits = traits_def(Pure())

    assembly_format = (
        "$back `,` $gate `by` $route attr-dict `:` type($back) `,` type($gate) `,` type($route) "
        "`->` type($out)"
    )

    def __init__(
        self,
        back: SSAValue | Operation,
        gate: SSAValue | Operation,
        route: SSAValue | Operation,
    ):
        back_type = tensor_type(back)
        rows = route_type(route).token_rows
        super().__init__(
            operands=[back, gate, route],
            result_types=[rows.tensor(back_type.get_shape()[-1], back_type.element_type)],
        )

    def verify_(self) -> None:
        back, route = tensor_type(self.back), route_type(self.route)
        width = check_rows("back", back, route.sent_rows)
        check_float("back", back)
        check_gate("gate", self.gate.type, route, back)
        check_type("out", self.out.type, route.token_rows.tensor(width, back.element_type))
