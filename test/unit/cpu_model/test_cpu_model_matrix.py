"""Matrix tiles: layouts, transposes and tails against NumPy, bit for bit where sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Matrix = npt.NDArray[np.float32]

A_TRANSPOSED, B_TRANSPOSED, TWICE, BF16, F32_OUT = 1, 2, 4, 8, 16


def to_bf16(values: Matrix) -> npt.NDArray[np.uint16]:
    """Round to nearest even, as 16 bits."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: npt.NDArray[np.uint16]) -> Matrix:
    """Exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_half(values: Matrix) -> npt.NDArray[np.uint16]:
    """Round to nearest even, as 16 bits."""
    return values.astype(np.float16).view(np.uint16)


def in_order(a: Matrix, b: Matrix, start: Matrix | None = None) -> Matrix:
    """a * b with one float accumulator an element and k in ascending order."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32) if start is None else start.copy()
    for k in range(a.shape[1]):
        total += a[:, k : k + 1] * b[k : k + 1, :]
    return total


@pytest.fixture(scope="module")
def matrix(program: Any) -> Any:
    return program("matrix", "a b out", "m n k mode")


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("m, n, k", [(16, 16, 16), (128, 256, 64), (37, 48, 80), (2, 64, 32)])
@pytest.mark.parametrize("bf16", [False, True])
def test_layouts(matrix: Any, mode: int, m: int, n: int, k: int, bf16: bool):
    """Either operand transposed; rows, columns and depth that are no multiples of a tile."""
    rng = np.random.default_rng(m * 7 + n)
    a = rng.standard_normal((m, k)).astype(np.float32)
    b = rng.standard_normal((k, n)).astype(np.float32)
    a, b = (
        from_bf16(to_bf16(x)) if bf16 else x.astype(np.float16).astype(np.float32) for x in (a, b)
    )
    stored = [a.T if mode & A_TRANSPOSED else a, b.T if mode & B_TRANSPOSED else b]
    store = to_bf16 if bf16 else to_half
    arrays = {
        "a": store(np.ascontiguousarray(stored[0])),
        "b": store(np.ascontiguousarray(stored[1])),
    }
    scalars = {"m": m, "n": n, "k": k, "mode": mode | (BF16 if bf16 else 0)}
    out = matrix.run({**arrays, "out": m * n * 2}, scalars)["out"].view(np.uint16)
    np.testing.assert_array_equal(out.reshape(m, n), store(in_order(a, b)))


@pytest.mark.parametrize("n, k", [(24, 40), (16, 7)])
def test_tails_inside_a_fractal(matrix: Any, n: int, k: int):
    """k and n that are no multiples of 16: the rest of a fractal is ignored; columns are padded."""
    rng = np.random.default_rng(5)
    a = rng.standard_normal((20, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    columns = -(-n // 16) * 16
    out = matrix.run(
        {"a": a, "b": b, "out": 20 * columns * 4}, {"m": 20, "n": n, "k": k, "mode": F32_OUT}
    )
    expected = in_order(a.astype(np.float32), b.astype(np.float32))
    np.testing.assert_array_equal(out["out"].view(np.float32).reshape(20, columns)[:, :n], expected)


def test_accumulation(matrix: Any):
    """With cmatrixInitVal = false the product is added to the content of L0C."""
    rng = np.random.default_rng(6)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    arrays = {"a": a, "b": b, "out": 64 * 64 * 4}
    out = matrix.run(arrays, {"m": 64, "n": 64, "k": 64, "mode": F32_OUT | TWICE})["out"]
    wide = [x.astype(np.float32) for x in (a, b)]
    expected = in_order(*wide, start=in_order(*wide))
    np.testing.assert_array_equal(out.view(np.float32).reshape(64, 64), expected)
