"""Run-time values: one NumPy array for each rank, rounded to the element type of its tensor."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float16Type,
    Float64Type,
    IntegerType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.dialects.placement import AnyTensor, RowsAttr
from hpmoe_ir.dtypes import round_to

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
PerRank: TypeAlias = list[Array]
"""The value of a tensor: element r is the array of rank r."""


def numpy_type(element_type: Attribute) -> type[np.generic]:
    """Returns the NumPy type that holds elements: bf16 and f16 are kept as rounded float32."""
    if isinstance(element_type, IntegerType):
        return np.int32
    return np.float64 if isinstance(element_type, Float64Type) else np.float32


def rounded(array: Array, element_type: Attribute) -> Array:
    """Returns `array` rounded to a float element type."""
    match element_type:
        case BFloat16Type():
            return round_to(array, "bf16")
        case Float16Type():
            return round_to(array, "f16")
        case _:
            return array.astype(numpy_type(element_type), copy=False)


def fresh(shape: tuple[int, ...], element_type: Attribute) -> Array:
    """Returns new memory whose values, NaN or a marker integer, reveal reads before writes."""
    if isinstance(element_type, IntegerType):
        return np.full(shape, -0x5A5A5A5A, np.int32)
    return np.full(shape, np.nan, numpy_type(element_type))


def capacity_shape(type: AnyTensor) -> tuple[int, ...]:
    """Returns the shape of a tensor at its full capacity of rows."""
    if isinstance(type.encoding, RowsAttr):
        return (type.encoding.rows.data, *type.get_shape()[1:])
    return type.get_shape()


def check_argument(name: str, array: Array, type: AnyTensor) -> Array:
    """Returns `array` as a value of `type`; raises InterpretationError naming `name` if invalid."""
    shape = capacity_shape(type)
    fits = array.ndim == len(shape) and all(
        found == size or (axis == 0 and declared == DYNAMIC_INDEX and found <= size)
        for axis, (found, size, declared) in enumerate(
            zip(array.shape, shape, type.get_shape(), strict=False)
        )
    )
    if not fits:
        raise InterpretationError(
            f"{name}: expected a value of {type}, found an array of shape {list(array.shape)}"
        )
    if isinstance(type.element_type, IntegerType):
        if not np.issubdtype(array.dtype, np.integer):
            raise InterpretationError(f"{name}: expected integers, found {array.dtype}")
        return array.astype(np.int32)
    if not np.issubdtype(array.dtype, np.floating):
        raise InterpretationError(f"{name}: expected floats, found {array.dtype}")
    return rounded(array, type.element_type)
