"""Each tile kernel alone on the CPU model, against NumPy in float64.

Tolerances are rounding-error bounds, so a kernel that adds in another order or another width fails
only where it is really less exact. u is the unit roundoff of the element type, v = 2^-24 that of
float32:

- moves: none, bit for bit;
- matmul: products of two 16-bit numbers are exact in float32; the sum of n of them, in any order,
  is off by at most n * v * sum |a b|; then one rounding to the element type, u * |result|;
- weighted sum: one product and one addition for each of the K copies, (K + 1) * v * sum |g x|, and
  the same last rounding;
- SwiGLU: relative FUNCTION_ERROR of hpmoe_ir.interpreter.float64 for exp, quotient and products,
  and u.

Each bound has half the least number of the element type added, for results that underflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpmoe_ir.dtypes import Dtype, to_bits
from hpmoe_ir.interpreter.float64 import FLOAT32, FUNCTION_ERROR
from hpmoe_ir.runtime.device_fault import DeviceFault

DTYPES: tuple[Dtype, ...] = ("bf16", "f16")


# One row of 7168 and of 50000 columns: several rows a slab, several slabs a row.
@pytest.mark.parametrize(
    ("rows", "cols", "src_gap", "dst_gap"),
    [
        (1, 16, 0, 0),
        (7, 64, 16, 0),
        (129, 48, 0, 8),
        (5000, 16, 16, 16),
        (40, 7168, 0, 0),
        (16, 7168, 65536, 0),
        (3, 50000, 16, 16),
    ],
)
def test_copy_rows(kernels: Any, rows: int, cols: int, src_gap: int, dst_gap: int):
    source = kernels.values((rows, cols), "bf16", rows)
    pitch = cols + dst_gap
    (raw,) = kernels.run(
        "copy",
        [kernels.pitched(source, cols + src_gap, "bf16")],
        [rows * pitch * 2],
        rows=rows,
        cols=cols,
        in_pitch=cols + src_gap,
        out_pitch=pitch,
    )
    np.testing.assert_array_equal(kernels.rows_of(raw, rows, cols, pitch, "bf16"), source)


@pytest.mark.parametrize(
    ("rows", "cols", "gap"),
    [(1, 64, 0), (7, 64, 16), (16, 7168, 0), (129, 272, 0), (2500, 32, 0), (3, 50000, 16)],
)
@pytest.mark.parametrize("aics", [1, 2])
def test_gather_rows(kernels: Any, rows: int, cols: int, gap: int, aics: int):
    source = kernels.values((37, cols), "f16", rows)
    rng: Any = np.random.default_rng(rows)
    top_k = 3
    order = rng.integers(0, 37 * top_k, rows, np.int32)
    (raw,) = kernels.run(
        "gather",
        [kernels.pitched(source, cols + gap, "f16"), order],
        [rows * cols * 2],
        dtype="f16",
        aics=aics,
        rows=rows,
        cols=cols,
        inner=top_k,
        in_pitch=cols + gap,
        out_pitch=cols,
        limit=37,
    )
    got = kernels.rows_of(raw, rows, cols, cols, "f16")
    np.testing.assert_array_equal(got, source[order // top_k])


def test_gather_rows_stops_at_a_row_that_is_not_there(kernels: Any):
    source = to_bits(kernels.values((4, 16), "bf16", 1), "bf16")
    with pytest.raises(DeviceFault) as caught:
        kernels.run(
            "gather",
            [source, np.array([7, 8], np.int32)],
            [64],
            rows=2,
            cols=16,
            inner=2,
            in_pitch=16,
            out_pitch=16,
            limit=4,
        )
    assert caught.value.kind == "trap"


# 14336 columns are more than a block holds.
@pytest.mark.parametrize(
    ("rows", "cols", "gap"),
    [(1, 16, 0), (7, 48, 0), (16, 2048, 0), (129, 768, 32), (5, 14336, 16), (700, 32, 0)],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_swiglu(kernels: Any, rows: int, cols: int, gap: int, dtype: Dtype):
    h = kernels.values((rows, 2 * cols), dtype, rows, 2.0)
    h[0, :4] = (-100, 100, -11, 0)
    pitch = cols + gap
    (raw,) = kernels.run(
        "swiglu",
        [kernels.pitched(h, 2 * cols + gap, dtype)],
        [rows * pitch * 2],
        dtype=dtype,
        rows=rows,
        cols=cols,
        in_pitch=2 * cols + gap,
        out_pitch=pitch,
    )
    gate, up = h[:, :cols], h[:, cols:]
    expected = gate / (1 + np.exp(-gate)) * up
    got = kernels.rows_of(raw, rows, cols, pitch, dtype)
    kernels.check(got, expected, FUNCTION_ERROR * np.abs(expected), dtype)


@pytest.mark.parametrize(
    ("rows", "cols", "copies"),
    [
        (1, 16, 1),
        (7, 64, 2),
        (16, 7168, 8),
        (129, 272, 8),
        (600, 16, 6),
        (3, 48, 64),
        (2, 1040, 60),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_weighted_sum(kernels: Any, rows: int, cols: int, copies: int, dtype: Dtype):
    back = kernels.values((rows * copies + 5, cols), dtype, rows)
    rng: Any = np.random.default_rng(cols)
    position = rng.permutation(len(back))[: rows * copies].reshape(rows, copies).astype(np.int32)
    gate = rng.random((rows, copies), np.float32)
    pitch = cols + 16
    (raw,) = kernels.run(
        "weighted_sum",
        [to_bits(back, dtype), position, gate],
        [rows * pitch * 2],
        dtype=dtype,
        rows=rows,
        cols=cols,
        inner=copies,
        in_pitch=cols,
        out_pitch=pitch,
        limit=len(back),
    )
    terms = gate[:, :, None].astype(np.float64) * back[position]
    error = (copies + 1) * FLOAT32 * np.abs(terms).sum(axis=1)
    kernels.check(kernels.rows_of(raw, rows, cols, pitch, dtype), terms.sum(axis=1), error, dtype)


def matmul(
    kernels: Any,
    shape: tuple[int, int, int],
    *,
    dtype: Dtype = "bf16",
    blocking: int = 0,
    transpose: bool = False,
    gaps: tuple[int, int, int] = (0, 0, 0),
    shares: int = 0,
) -> None:
    """Runs and checks out [m x n] = a [m x k] * w; gaps: elements between the rows of each.

    With shares, each call does every shares-th block.
    """
    m, k, n = shape
    a, w = kernels.values((m, k), dtype, m), kernels.values((k, n), dtype, n)
    stored = w.T if transpose else w
    w_pitch = stored.shape[1] + gaps[1]
    pitch = n + gaps[2]
    (raw,) = kernels.run(
        "matmul",
        [kernels.pitched(a, k + gaps[0], dtype), kernels.pitched(stored, w_pitch, dtype)],
        [m * pitch * 2],
        dtype=dtype,
        variant=2 * blocking + int(transpose),
        rows=m,
        cols=n,
        inner=k,
        in_pitch=k + gaps[0],
        out_pitch=pitch,
        limit=w_pitch,
        shares=shares,
    )
    error = k * FLOAT32 * (np.abs(a) @ np.abs(w))
    kernels.check(kernels.rows_of(raw, m, n, pitch, dtype), a @ w, error, dtype)


# 128 x 256 blocks, chunks of 256: below, at and above each size, with tails in all three.
@pytest.mark.parametrize(
    "shape",
    [
        (1, 16, 16),
        (1, 64, 256),
        (7, 272, 48),
        (16, 256, 256),
        (16, 80, 272),
        (129, 528, 144),
        (128, 1040, 256),
        (300, 96, 528),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose", [False, True])
def test_grouped_matmul(kernels: Any, shape: tuple[int, int, int], dtype: Dtype, transpose: bool):
    matmul(kernels, shape, dtype=dtype, transpose=transpose)


# 1: two results in L0C and the fullest L0A; 2: single fractals, longest chunks in steps; 3 and 4:
# the CANN-like kernel.
@pytest.mark.parametrize("blocking", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(1, 16, 16), (33, 176, 48), (260, 656, 144)])
@pytest.mark.parametrize("transpose", [False, True])
def test_grouped_matmul_blockings(
    kernels: Any, shape: tuple[int, int, int], blocking: int, transpose: bool
):
    matmul(kernels, shape, blocking=blocking, transpose=transpose)


# Operands inside wider buffers; with a pitch above 65535 elements, rows are copied one by one.
@pytest.mark.parametrize("gaps", [(16, 48, 32), (65536, 0, 0), (0, 65536, 0), (0, 0, 65536)])
@pytest.mark.parametrize("transpose", [False, True])
def test_grouped_matmul_pitches(kernels: Any, gaps: tuple[int, int, int], transpose: bool):
    matmul(kernels, (21, 288, 80), transpose=transpose, gaps=gaps)


# Blocks of 16 x 16, 11 x 3 of them: fewer, as many and more shares.
@pytest.mark.parametrize("shares", [1, 2, 24, 33, 40])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("blocking", [2, 4])
def test_grouped_matmul_by_shares(kernels: Any, shares: int, transpose: bool, blocking: int):
    matmul(kernels, (171, 80, 48), blocking=blocking, transpose=transpose, shares=shares)


# Three and more blocks in each of two rows of blocks: all chunks of the left operand
# stay in L1 (7 steps in chunks of 2), every second one or so (29 steps), one of them (41 in chunks
# of 4).
@pytest.mark.parametrize("shape", [(140, 400, 800), (140, 1808, 560), (130, 2608, 528)])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("blocking", [0, 3], ids=["kept", "cann-like"])
def test_grouped_matmul_keeps_chunks_of_the_left_operand(
    kernels: Any, shape: tuple[int, int, int], transpose: bool, blocking: int
):
    matmul(kernels, shape, transpose=transpose, blocking=blocking)


# Whole blocks, whose halves are stored separately, next to each other and to smaller ones: of one
# chunk, of two, and of more.
@pytest.mark.parametrize("shape", [(256, 64, 512), (256, 272, 512), (144, 1040, 528)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose", [False, True])
def test_grouped_matmul_stores_whole_blocks_by_halves(
    kernels: Any, shape: tuple[int, int, int], dtype: Dtype, transpose: bool
):
    matmul(kernels, shape, dtype=dtype, transpose=transpose)


def test_grouped_matmul_stops_at_operands_that_do_not_fit(kernels: Any):
    a: Any = to_bits(kernels.values((4, 24), "bf16", 1), "bf16")
    w: Any = to_bits(kernels.values((24, 16), "bf16", 1), "bf16")
    with pytest.raises(DeviceFault) as caught:
        kernels.run(
            "matmul", [a, w], [128], rows=4, cols=16, inner=24, in_pitch=24, out_pitch=16, limit=16
        )
    assert caught.value.kind == "trap"


def test_untouched_is_the_pattern_of_the_model(kernels: Any):
    """`rows_of` detects writes between the rows only if this holds."""
    (raw,) = kernels.run("exchange", [], [64, 64], rows=0, inner=1)[:1]
    assert (raw[8:].view(np.uint16) == kernels.UNTOUCHED).all()
