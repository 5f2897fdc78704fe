"""The graph level: what one Mixture-of-Experts layer computes, over tensors.

The program is one rank's view of an SPMD program over R ranks. Ranks bring their own tokens, at
most T each and possibly none; each of the E experts lives on one rank, L = E / R on each, expert x
on rank x / L. A token goes to K different experts.

Where the rows of a tensor live, and how many there can be, is the encoding of its type:

```
tensor<?x64xbf16, #moe.tokens<64 rows>>           this rank's tokens, in their order
tensor<?x64xbf16, #moe.sent<128 rows>>            a row for each (token, expert), in send order
tensor<?x64xbf16, #moe.grouped<256 rows>>         the rows that the local experts receive
tensor<2x64x64xbf16, #moe.experts<4 over 2 ranks>>   weights of this rank's 2 of 4 experts
```

Send order: the (token, expert) pairs of a rank sorted by (expert, token). Receive order: sorted by
(local expert, source rank, token). The number of rows is `?` since it follows from the routing at
run time; the capacity in the type is what memory is planned for.

A whole layer, forward (types left out):

```
%route = moe.route %ids
%recv = moe.dispatch %x by %route
%h = moe.grouped_matmul %recv, %w13 by %route
%a = moe.swiglu %h
%y = moe.grouped_matmul %a, %w2 by %route
%out = moe.combine %y, %gate by %route
```
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    TensorType,
    UnitAttr,
    f32,
    i32,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from hpmoe_ir.dialects.placement import (
    AnyTensor,
    ExpertsAttr,
    GroupedAttr,
    RouteType,
    RowsAttr,
    SentAttr,
    TokensAttr,
)

__all__ = [
    "CombineOp",
    "DispatchOp",
    "ExpertsAttr",
    "GroupedAttr",
    "GroupedMatmulOp",
    "Moe",
    "RouteOp",
    "RouteType",
    "RowsAttr",
    "SentAttr",
    "SwiGLUOp",
    "TokensAttr",
    "WeightedSumOp",
    "check_rows",
    "check_type",
    "route_type",
    "tensor_type",
]

FLOATS = (BFloat16Type, Float16Type, Float32Type, Float64Type)


def tensor_type(value: SSAValue | Operation) -> AnyTensor:
    """Type of a tensor value."""
    type = SSAValue.get(value).type
    assert isa(type, AnyTensor), f"expected a tensor, found {type}"
    return type


def route_type(value: SSAValue | Operation) -> RouteType:
    """Type of a route value."""
    type = SSAValue.get(value).type
    assert isinstance(type, RouteType), f"expected a route, found {type}"
    return type


def check_type(name: str, found: Attribute, expected: Attribute) -> None:
    """Refuses a type of the operand or result `name` other than `expected`."""
    if found != expected:
        raise VerifyException(f"{name}: expected {expected}, found {found}")


def check_rows(name: str, type: AnyTensor, rows: RowsAttr) -> int:
    """Width of a tensor of rows, refused unless its placement is `rows`."""
    shape = type.get_shape()
    if (
        type.encoding != rows
        or len(shape) != 2
        or shape[0] != DYNAMIC_INDEX
        or shape[1] == DYNAMIC_INDEX
    ):
        raise VerifyException(f"{name}: expected tensor<?xNxTYPE, {rows}>, found {type}")
    return shape[1]


def _check_float(name: str, type: AnyTensor) -> None:
    if not isinstance(type.element_type, FLOATS):
        raise VerifyException(
            f"{name}: expected elements of bf16, f16, f32 or f64, found {type.element_type}"
        )


def _check_gate(type: AnyTensor, route: RouteType) -> None:
    """The gate weights of a token are f32, or f64 where everything is."""
    element = type.element_type if isinstance(type.element_type, Float64Type) else f32
    check_type("gate", type, route.token_rows.tensor(route.top.data, element))


@irdl_op_definition
class RouteOp(IRDLOperation):
    """Makes a route of the ids of the experts that each token goes to, known to all ranks.

    Row t of `ids` holds K different ids in 0..E. An id out of range or repeated for a token, and
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
    """One row a token."""
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
        _check_float("x", x)
        check_type("received", self.received.type, route.grouped_rows.tensor(width, x.element_type))


@irdl_op_definition
class GroupedMatmulOp(IRDLOperation):
    """Multiplies the rows of each local expert by that expert's matrix.

    Without `transpose_lhs`, rows times weights: `[rows, K] x [L, K, N] -> [rows, N]`, or with
    `transpose_rhs`, `[rows, K] x [L, N, K] -> [rows, N]`. With `transpose_lhs`, the gradient of
    the weights, a sum over the rows of each expert: `[rows, K]^T x [rows, N] -> [L, K, N]`; an
    expert without rows has the gradient 0. Products are summed in f32, or f64 for f64.

    ```
    %h = moe.grouped_matmul %recv, %w13 by %route : tensor<?x64xbf16, #moe.grouped<256 rows>>,
        tensor<2x64x64xbf16, #moe.experts<4 over 2 ranks>>,
        !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
        -> tensor<?x64xbf16, #moe.grouped<256 rows>>
    ```
    """

    name = "moe.grouped_matmul"

    lhs = operand_def(TensorType)
    """Rows in receive order."""
    rhs = operand_def(TensorType)
    """Weights, or rows in receive order with `transpose_lhs`."""
    route = operand_def(RouteType)
    transpose_lhs = opt_prop_def(UnitAttr)
    """Sum over the rows of each expert."""
    transpose_rhs = opt_prop_def(UnitAttr)
    """The weights are `[L, N, K]`."""
    product = result_def(TensorType)
    """Rows in receive order, or weights with `transpose_lhs`, then possibly wider: f32."""

    traits = traits_def(Pure())

    assembly_format = (
        "$lhs `,` $rhs `by` $route attr-dict `:` type($lhs) `,` type($rhs) `,` type($route) "
        "`->` type($product)"
    )
    irdl_options = (ParsePropInAttrDict(),)

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        route: SSAValue | Operation,
        *,
        transpose_lhs: bool = False,
        transpose_rhs: bool = False,
        element_type: Attribute | None = None,
    ):
        """`element_type` of the result is that of `lhs` unless given."""
        element_type = element_type or tensor_type(lhs).element_type
        columns = tensor_type(rhs).get_shape()[-2 if transpose_rhs else -1]
        if transpose_lhs:
            shape = (tensor_type(lhs).get_shape()[-1], columns)
            result = route_type(route).placement.tensor(shape, element_type)
        else:
            result = route_type(route).grouped_rows.tensor(columns, element_type)
        super().__init__(
            operands=[lhs, rhs, route],
            properties={
                "transpose_lhs": UnitAttr() if transpose_lhs else None,
                "transpose_rhs": UnitAttr() if transpose_rhs else None,
            },
            result_types=[result],
        )

    def verify_(self) -> None:
        lhs, rhs, route = tensor_type(self.lhs), tensor_type(self.rhs), route_type(self.route)
        inner = check_rows("lhs", lhs, route.grouped_rows)
        _check_float("lhs", lhs)
        if rhs.element_type != lhs.element_type:
            raise VerifyException(
                f"rhs: expected elements of {lhs.element_type}, as lhs has, "
                f"found {rhs.element_type}"
            )
        if self.transpose_lhs is None:
            columns = self._check_weights(inner, rhs, route.placement)
            expected = route.grouped_rows.tensor(columns, lhs.element_type)
        elif self.transpose_rhs is not None:
            raise VerifyException(
                "expected at most one of transpose_lhs and transpose_rhs, found both"
            )
        else:
            columns = check_rows("rhs", rhs, route.grouped_rows)
            found = tensor_type(self.product).element_type
            element = found if isinstance(found, Float32Type) else lhs.element_type
            expected = route.placement.tensor((inner, columns), element)
        check_type("product", self.product.type, expected)

    def _check_weights(self, inner: int, rhs: AnyTensor, placement: ExpertsAttr) -> int:
        """Columns of the weights `rhs`, refused where they don't fit rows of width `inner`."""
        transposed = self.transpose_rhs is not None
        shape = rhs.get_shape()
        if (
            rhs.encoding != placement
            or len(shape) != 3
            or shape[0] != placement.local_experts
            or shape[2 if transposed else 1] != inner
            or DYNAMIC_INDEX in shape
        ):
            sizes = f"Nx{inner}" if transposed else f"{inner}xN"
            raise VerifyException(
                f"rhs: expected tensor<{placement.local_experts}x{sizes}x{rhs.element_type}, "
                f"{placement}>, found {rhs}"
            )
        return shape[1 if transposed else 2]


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

    traits = traits_def(Pure())

    assembly_format = "$h attr-dict `:` type($h) `->` type($activation)"

    def __init__(self, h: SSAValue | Operation):
        h_type = tensor_type(h)
        assert isinstance(h_type.encoding, RowsAttr), f"expected rows, found {h_type}"
        result = h_type.encoding.tensor(h_type.get_shape()[-1] // 2, h_type.element_type)
        super().__init__(operands=[h], result_types=[result])

    def verify_(self) -> None:
        h = tensor_type(self.h)
        if not isinstance(h.encoding, GroupedAttr):
            raise VerifyException(f"h: expected tensor<?xNxTYPE, #moe.grouped<C rows>>, found {h}")
        width = check_rows("h", h, h.encoding)
        _check_float("h", h)
        if width % 2:
            raise VerifyException(
                f"h: expected an even width, a gate half and an up half, found {width}"
            )
        check_type(
            "activation", self.activation.type, h.encoding.tensor(width // 2, h.element_type)
        )


@irdl_op_definition
class CombineOp(IRDLOperation):
    """Brings the experts' rows back and sums them, weighted, for each token.

    `out[t] = sum over k = 0..K of gate[t, k] * (row of token t from expert ids[t, k])`, summed in
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
    """Weight of each of a token's K experts, `[tokens, K]`, in the order of its ids."""
    route = operand_def(RouteType)
    out = result_def(TensorType)
    """One row a token."""

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
        _check_float("y", y)
        _check_gate(tensor_type(self.gate), route)
        check_type("out", self.out.type, route.token_rows.tensor(width, y.element_type))


@irdl_op_definition
class WeightedSumOp(IRDLOperation):
    """Sums the rows that came back for each token, weighted: what is left of `moe.combine` once the
    rows lie in the send order of the rank that they were sent from. Sums as `moe.combine` does.

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
    """Weight of each of a token's K experts, `[tokens, K]`, in the order of its ids."""
    route = operand_def(RouteType)
    out = result_def(TensorType)
    """One row a token."""

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
        _check_float("back", back)
        _check_gate(tensor_type(self.gate), route)
        check_type("out", self.out.type, route.token_rows.tensor(width, back.element_type))


Moe = Dialect(
    "moe",
    [RouteOp, DispatchOp, GroupedMatmulOp, SwiGLUOp, CombineOp, WeightedSumOp],
    [RouteType, TokensAttr, SentAttr, GroupedAttr, ExpertsAttr],
)
