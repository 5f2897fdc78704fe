"""The grouped matmul: one product for each expert over its own rows."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float32Type, TensorType, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.moe.checks import (
    check_float,
    check_rows,
    check_type,
    route_type,
    sum_type,
    tensor_type,
)
from hpmoe_ir.dialects.placement import AnyTensor, ExpertsAttr, RouteType


@irdl_op_definition
class GroupedMatmulOp(IRDLOperation):
    """Multiplies the rows of each local expert by that expert's matrix.

    Without `transpose_lhs`, rows times weights: `[rows, K] x [L, K, N] -> [rows, N]`, or with
    `transpose_rhs`, `[rows, K] x [L, N, K] -> [rows, N]`. With `transpose_lhs`, the gradient of
    the weights, a sum over the rows of each expert: `[rows, K]^T x [rows, N] -> [L, K, N]`; an
    expert without rows has the gradient 0. `into` adds such gradients to an accumulator, f32 or
    f64. Products are accumulated in f32, or f64 for f64.

    ```
    %h = moe.grouped_matmul %recv, %w13 by %route : tensor<?x64xbf16, #moe.grouped<256 rows>>,
        tensor<2x64x64xbf16, #moe.experts<4 over 2 ranks>>,
        !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
        -> tensor<?x64xbf16, #moe.grouped<256 rows>>
    %sum = moe.grouped_matmul %recv, %dh into %acc by %route {transpose_lhs}
        : tensor<?x64xbf16, #moe.grouped<256 rows>>, tensor<?x64xbf16, #moe.grouped<256 rows>>,
        !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
        -> tensor<2x64x64xf32, #moe.experts<4 over 2 ranks>>
    ```
    """

    name = "moe.grouped_matmul"

    lhs = operand_def(TensorType)
    """Rows in receive order."""
    rhs = operand_def(TensorType)
    """Weights, or rows in receive order with `transpose_lhs`."""
    route = operand_def(RouteType)
    accumulator = opt_operand_def(TensorType)
    """With `transpose_lhs`: the accumulator to which the product is added, of the result's type."""
    transpose_lhs = opt_prop_def(UnitAttr)
    """Whether to compute the gradient of the weights, a sum over the rows of each expert."""
    transpose_rhs = opt_prop_def(UnitAttr)
    """Whether the weights are `[L, N, K]`."""
    product = result_def(TensorType)
    """Rows in receive order; with `transpose_lhs`, weights, whose elements may be f32."""

    traits = traits_def(Pure())

    assembly_format = (
        "$lhs `,` $rhs (`into` $accumulator^)? `by` $route attr-dict `:` type($lhs) `,` type($rhs) "
        "`,` type($route) (`,` type($accumulator)^)? `->` type($product)"
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
        accumulator: SSAValue | Operation | None = None,
        element_type: Attribute | None = None,
    ):
        """Creates a grouped matmul; `element_type` of the result defaults to that of `lhs`."""
        element_type = element_type or tensor_type(lhs).element_type
        columns = tensor_type(rhs).get_shape()[-2 if transpose_rhs else -1]
        if transpose_lhs:
            shape = (tensor_type(lhs).get_shape()[-1], columns)
            result = route_type(route).placement.tensor(shape, element_type)
        else:
            result = route_type(route).grouped_rows.tensor(columns, element_type)
        super().__init__(
            operands=[lhs, rhs, route, accumulator],
            properties={
                "transpose_lhs": UnitAttr() if transpose_lhs else None,
                "transpose_rhs": UnitAttr() if transpose_rhs else None,
            },
            result_types=[result],
        )

    def verify_(self) -> None:
        lhs, rhs, route = tensor_type(self.lhs), tensor_type(self.rhs), route_type(self.route)
        inner = check_rows("lhs", lhs, route.grouped_rows)
        check_float("lhs", lhs)
        if rhs.element_type != lhs.element_type:
            raise VerifyException(
                f"rhs: expected elements of {lhs.element_type}, as lhs has, "
                f"found {rhs.element_type}"
            )
        if self.transpose_lhs is None:
            if self.accumulator is not None:
                raise VerifyException("expected into only with transpose_lhs, found it without")
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
            if self.accumulator is not None:
                element = sum_type(lhs.element_type)
            expected = route.placement.tensor((inner, columns), element)
        check_type("product", self.product.type, expected)
        if self.accumulator is not None:
            check_type("accumulator", self.accumulator.type, expected)

    def _check_weights(self, inner: int, rhs: AnyTensor, placement: ExpertsAttr) -> int:
        """Returns the columns of the weights `rhs`; raises if they don't fit width `inner`."""
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
