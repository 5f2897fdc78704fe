"""Vector operations and conversions against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hpmoe_ir.runtime.device_fault import DeviceFault

Array = npt.NDArray[Any]

ARITHMETIC: list[Callable[[Array, Array], Array]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    np.maximum,
    np.minimum,
    lambda a, b: a + a.dtype.type(3),
    lambda a, b: a * a.dtype.type(3),
    lambda a, b: np.maximum(a, a.dtype.type(3)),
    lambda a, b: np.minimum(a, a.dtype.type(3)),
    lambda a, b: np.full_like(a, 3),
]
FLOATING: list[Callable[[Array, Array], Array]] = [
    *ARITHMETIC,
    lambda a, b: a / b,
    lambda a, b: np.exp(a),
    lambda a, b: np.log(a),
    lambda a, b: np.abs(a),
    lambda a, b: np.sqrt(a),
    lambda a, b: b + a * a.dtype.type(3),
]

NONE, RINT, FLOOR, CEIL, ROUND, TRUNC = range(6)


@pytest.fixture(scope="module")
def vector(program: Any) -> Any:
    return program("vector", "a b out", "op type n")


@pytest.mark.parametrize("op", range(len(FLOATING)))
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_floating(vector: Any, op: int, dtype: Any):
    """Every operation; 77 elements are no multiple of a block."""
    rng = np.random.default_rng(op)
    a, b = (rng.uniform(0.1, 4, 77).astype(dtype) for _ in range(2))
    scalars = {"op": op, "type": int(dtype is np.float16), "n": 77}
    out = vector.run({"a": a, "b": b, "out": a.nbytes}, scalars)["out"].view(dtype)
    expected = FLOATING[op](a, b)
    if op in (11, 12, 15):  # the library's exponential and NumPy's, half-precision intermediates
        np.testing.assert_allclose(out, expected, rtol=2e-3 if dtype is np.float16 else 3e-7)
    else:
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("op", range(len(ARITHMETIC)))
def test_int32(vector: Any, op: int):
    """Integers wrap around."""
    rng = np.random.default_rng(op)
    a, b = (np.frombuffer(rng.bytes(256), np.int32) for _ in range(2))
    out = vector.run({"a": a, "b": b, "out": 256}, {"op": op, "type": 2, "n": 64})["out"]
    np.testing.assert_array_equal(out.view(np.int32), ARITHMETIC[op](a, b))


def test_count_zero_does_nothing(vector: Any):
    """The output keeps the pattern of fresh memory."""
    zero = np.zeros(8, np.float32)
    out = vector.run({"a": zero, "b": zero, "out": 32}, {"op": 0, "type": 0, "n": 0})["out"]
    assert np.isnan(out.view(np.float32)).all()


def every_half() -> Array:
    return np.arange(2**16, dtype=np.uint16).view(np.float16)


def test_half_to_float_is_exact(vector: Any):
    """All 65536 halves, in pieces that fit the buffer."""
    halves = every_half()
    for piece in np.split(halves, 64):
        out = vector.run(
            {"a": piece, "b": 0, "out": 4096}, {"op": NONE, "type": 100, "n": piece.size}
        )
        np.testing.assert_array_equal(out["out"].view(np.float32), piece.astype(np.float32))


def hard_floats() -> Array:
    """Ties, subnormals, overflow and both zeros for a 16-bit destination."""
    rng = np.random.default_rng(1)
    bits = np.frombuffer(rng.bytes(3600), np.uint32)
    ties = np.arange(-60, 60, dtype=np.float32) * np.float32(2**-25)
    values = np.concatenate(
        [bits.view(np.float32), ties, np.array([65519, 65520, -0.0, 1e30], np.float32)]
    )
    return values[np.isfinite(values)]


def test_float_to_half_rounds_to_nearest_even(vector: Any):
    """Bit for bit as NumPy converts."""
    values = hard_floats()
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    for mode in (NONE, RINT):
        out = vector.run(
            {"a": values, "b": 0, "out": 2 * values.size},
            {"op": mode, "type": 102, "n": values.size},
        )
        np.testing.assert_array_equal(out["out"].view(np.uint16), expected.view(np.uint16))


def test_bfloat16(vector: Any):
    """Nearest even by default; the other modes against exact neighbours."""
    values = np.array([1.00390625, -1.00390625, 1.01171875, 1.0, 3.0e-39, 1.003], np.float32)
    low: Array = (values.view(np.uint32) >> 16).astype(np.uint16)  # towards zero
    exact = values.view(np.uint32) & 0xFFFF == 0
    up = np.where(exact, low, low + 1)
    negative = values < 0
    rest = values.view(np.uint32) & 0xFFFF
    nearest = np.where((rest > 0x8000) | ((rest == 0x8000) & (low % 2 == 1)), up, low)
    expected = {
        RINT: nearest,
        TRUNC: low,
        FLOOR: np.where(negative, up, low),
        CEIL: np.where(negative, low, up),
    }
    for mode, bits in expected.items():
        out = vector.run(
            {"a": values, "b": 0, "out": 2 * values.size},
            {"op": mode, "type": 103, "n": values.size},
        )["out"]
        np.testing.assert_array_equal(out.view(np.uint16), bits)


def test_integers(vector: Any):
    """Rounding to int32, saturation, and back."""
    values = np.array([0.5, 1.5, -0.5, -1.5, 2.4, -2.6, 3e9, -3e9], np.float32)
    expected: dict[int, Callable[[Array], Array]] = {
        RINT: np.rint,
        FLOOR: np.floor,
        CEIL: np.ceil,
        ROUND: lambda x: np.trunc(x + np.sign(x) * 0.5),
        TRUNC: np.trunc,
    }
    for mode, rounded in expected.items():
        out = vector.run({"a": values, "b": 0, "out": 32}, {"op": mode, "type": 104, "n": 8})["out"]
        wanted: Array = np.clip(rounded(values.astype(np.float64)), -(2**31), 2**31 - 1)
        np.testing.assert_array_equal(out.view(np.int32), wanted.astype(np.int32))
    words = np.array([2**24 + 1, -(2**31), 2**31 - 1, 7], np.int32)
    out = vector.run({"a": words, "b": 0, "out": 16}, {"op": RINT, "type": 105, "n": 4})["out"]
    np.testing.assert_array_equal(out.view(np.float32), words.astype(np.float32))


@pytest.mark.parametrize("kind, mode", [(100, RINT), (103, NONE), (104, NONE)])
def test_mode_that_the_chip_does_not_have(vector: Any, kind: int, mode: int):
    """Unsupported conversions are refused, not rounded in another mode."""
    with pytest.raises(DeviceFault, match="Cast with this pair of types and this rounding mode"):
        vector.run(
            {"a": np.zeros(8, np.float32), "b": 0, "out": 32}, {"op": mode, "type": kind, "n": 8}
        )
