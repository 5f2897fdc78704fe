"""Type checks that operations of the `moe` dialect share."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from hpmoe_ir.dialects.placement import AnyTensor, GroupedAttr, RouteType, RowsAttr

FLOATS = (BFloat16Type, Float16Type, Float32Type, Float64Type)


def tensor_type(value: SSAValue | Operation) -> AnyTensor:
    """Returns the type of a tensor value."""
    type = SSAValue.get(value).type
    assert isa(type, AnyTensor), f"expected a tensor, found {type}"
    return type


def route_type(value: SSAValue | Operation) -> RouteType:
    """Returns the type of a route value."""
    type = SSAValue.get(value).type
    assert isinstance(type, RouteType), f"expected a route, found {type}"
    return type


def sum_type(element_type: Attribute) -> Attribute:
    """Returns the type in which elements are summed: f32, or f64 for f64."""
    return element_type if isinstance(element_type, Float64Type) else f32


def gate_type(route: RouteType, element_type: Attribute) -> AnyTensor:
    """Returns the type of router weights, `[tokens, K]`, for rows of `element_type`."""
    return route.token_rows.tensor(route.top.data, sum_type(element_type))


def rows_like(rows: RowsAttr, like: AnyTensor) -> AnyTensor:
    """Returns the type of rows placed as `rows`, with the width and element type of `like`."""
    return rows.tensor(like.get_shape()[-1], like.element_type)


def check_type(name: str, found: Attribute, expected: Attribute) -> None:
    """Checks that the type of the operand or result `name` is `expected`."""
    if found != expected:
        raise VerifyException(f"{name}: expected {expected}, found {found}")


def check_rows(name: str, type: AnyTensor, rows: RowsAttr) -> int:
    """Returns the width of a tensor of rows; raises VerifyException unless placed as `rows`."""
    shape = type.get_shape()
    if (
        type.encoding != rows
        or len(shape) != 2
        or shape[0] != DYNAMIC_INDEX
        or shape[1] == DYNAMIC_INDEX
    ):
        raise VerifyException(f"{name}: expected tensor<?xNxTYPE, {rows}>, found {type}")
    return shape[1]


def check_float(name: str, type: AnyTensor) -> None:
    """Checks that elements have a float type that the operations support."""
    if not isinstance(type.element_type, FLOATS):
        raise VerifyException(
            f"{name}: expected elements of bf16, f16, f32 or f64, found {type.element_type}"
        )


def check_gate(name: str, found: Attribute, route: RouteType, rows: AnyTensor) -> None:
    """Checks the type of router weights or their gradients, whose elements have the sum type."""
    check_type(name, found, gate_type(route, rows.element_type))


def check_halves(name: str, type: AnyTensor) -> tuple[GroupedAttr, int]:
    """Returns the placement and half the width of received rows of a gate half and an up half."""
    if not isinstance(type.encoding, GroupedAttr):
        raise VerifyException(
            f"{name}: expected tensor<?xNxTYPE, #moe.grouped<C rows>>, found {type}"
        )
    width = check_rows(name, type, type.encoding)
    check_float(name, type)
    if width % 2:
        raise VerifyException(
            f"{name}: expected an even width, a gate half and an up half, found {width}"
        )
    return type.encoding, width // 2
