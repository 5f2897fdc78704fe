"""Element types of tensors in NumPy: bits, rounding and unit roundoff.

NumPy has no bfloat16. Values are float32 arrays, raw memory is an unsigned integer array. The
functions here convert between the two and round to nearest even, as the hardware does.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np

Dtype: TypeAlias = Literal["bf16", "f16", "f32", "f64"]
"""Names of element types, as MLIR spells them."""

DTYPES: tuple[Dtype, ...] = get_args(Dtype)

Float32Array: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
Float64Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
RawArray: TypeAlias = np.ndarray[Any, np.dtype[np.unsignedinteger[Any]]]
AnyFloats: TypeAlias = np.ndarray[Any, np.dtype[np.floating[Any]]]
AnyIntegers: TypeAlias = np.ndarray[Any, np.dtype[np.integer[Any]]]

_BYTES: dict[Dtype, int] = {"bf16": 2, "f16": 2, "f32": 4, "f64": 8}
_SIGNIFICAND_BITS: dict[Dtype, int] = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}
_SMALLEST_SUBNORMAL: dict[Dtype, float] = {
    "bf16": 2.0**-133,
    "f16": 2.0**-24,
    "f32": 2.0**-149,
    "f64": 2.0**-1074,
}


class DtypeError(ValueError):
    """An unknown element type, or raw memory whose size does not fit the element type."""


def check_dtype(name: str) -> Dtype:
    """Returns `name` as an element type. Raises DtypeError for an unknown one."""
    for dtype in DTYPES:
        if name == dtype:
            return dtype
    raise DtypeError(f"unknown element type '{name}', expected one of {', '.join(DTYPES)}")


def unit_roundoff(dtype: Dtype) -> float:
    """Returns the largest relative error of rounding a normal number to `dtype`.

    It is half a unit in the last place of 1, such as 2^-8 for bf16.
    """
    return 2.0 ** -_SIGNIFICAND_BITS[dtype]


def underflow_error(dtype: Dtype) -> float:
    """Returns the largest absolute error of rounding a subnormal number to `dtype`."""
    return _SMALLEST_SUBNORMAL[dtype] / 2


def to_bits(values: AnyFloats, dtype: Dtype) -> RawArray:
    """Returns `values` rounded to `dtype` as raw memory: uint16 for bf16 and f16, uint32, uint64.

    The result has the same shape, row-major. Values are rounded to float32 first unless `dtype` is
    f64.
    """
    match dtype:
        case "bf16":
            return _bfloat16_bits(np.ascontiguousarray(values, np.float32))
        case "f16":
            with np.errstate(over="ignore"):
                halves = np.ascontiguousarray(values, np.float32).astype(np.float16)
            return halves.view(np.uint16)
        case "f32":
            return np.ascontiguousarray(values, np.float32).view(np.uint32)
        case "f64":
            return np.ascontiguousarray(values, np.float64).view(np.uint64)


def from_bits(raw: np.ndarray[Any, Any], dtype: Dtype) -> Float32Array:
    """Returns the float32 values of raw memory: exact for bf16, f16 and f32, rounded for f64.

    `raw` has any integer type of the element's size, or is uint8 with the last dimension in bytes;
    the last dimension of the result is in elements. Raises DtypeError for other types.
    """
    bits = np.ascontiguousarray(raw)
    size = _BYTES[dtype]
    if bits.dtype.itemsize != size:
        if bits.dtype != np.uint8 or bits.shape[-1] % size:
            raise DtypeError(f"expected raw {dtype} memory, found {bits.dtype} {bits.shape}")
    match dtype:
        case "bf16":
            return (bits.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        case "f16":
            return bits.view(np.float16).astype(np.float32)
        case "f32":
            return bits.view(np.float32)
        case "f64":
            return bits.view(np.float64).astype(np.float32)


def round_to(values: AnyFloats, dtype: Dtype) -> Float32Array:
    """Returns `values` rounded to `dtype`, as float32."""
    return from_bits(to_bits(values, dtype), dtype)


def _bfloat16_bits(values: Float32Array) -> RawArray:
    bits = values.view(np.uint32)
    # In place, since arrays of weights are large: bits + 0x7FFF + the last bit that is kept.
    rounded = bits >> np.uint32(16)
    rounded &= np.uint32(1)
    rounded += bits
    rounded += np.uint32(0x7FFF)
    rounded >>= np.uint32(16)
    found = rounded.astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        # The carry could turn a NaN into a number: keep its upper half and make it quiet.
        found[nan] = (bits[nan] >> np.uint32(16)) | np.uint32(0x40)
    return found
