"""Each tile kernel of the backward direction alone on the CPU model, against NumPy in float64.

Tolerances are bounds as in test_device_kernels; v = 2^-24 is the unit roundoff of float32. Before
the one rounding to the element type of the result:

- scaled rows: one product, v * |g x|;
- sums of copies: K additions, K * v * sum |x|;
- gate gradient: products of two 16-bit numbers are exact in float32; each goes through the folds of
  its block of columns, one addition for each block and seven for the last data block, so the error
  is v * sum |b d| for each of these;
- SwiGLU gradient: s = sigmoid(g) has the relative error FUNCTION_ERROR, and so has 1 - s relative
  to 1; s * (1 + g * (1 - s)) then has at most 2.5 * FUNCTION_ERROR * s * (1 + |g|). Where exp
  overflows, below g = -88.7, s < 3e-39 counts as 0;
- weight gradient: n rows are summed up with an error of at most n * v * sum |a b|, whatever the
  order; adding to what was there is the last rounding;
- sums of rows: one addition, v * |a + b|.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hpmoe_ir.dtypes import Dtype, from_bits, round_to, to_bits
from hpmoe_ir.interpreter.float64 import FLOAT32, FUNCTION_ERROR
from hpmoe_ir.runtime.device_fault import DeviceFault

DTYPES: tuple[Dtype, ...] = ("bf16", "f16")
NOTHING = np.zeros(0, np.int32)


# 300 rows are more than one list of pairs, 50000 columns more than a slab.
@pytest.mark.parametrize(
    ("rows", "cols", "top_k", "gap"),
    [
        (1, 16, 1, 0),
        (7, 64, 2, 16),
        (16, 7168, 8, 0),
        (129, 272, 8, 0),
        (300, 48, 3, 16),
        (3, 50000, 2, 16),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("aics", [1, 2])
def test_gather_scaled_rows(
    backward: Any, rows: int, cols: int, top_k: int, gap: int, dtype: Dtype, aics: int
):
    tokens = 37
    x = backward.values((tokens, cols), dtype, rows)
    rng: Any = np.random.default_rng(rows)
    gate = rng.random((tokens, top_k), np.float32)
    order = rng.integers(0, tokens * top_k, rows, np.int32)
    (raw,) = backward.run(
        "scaled",
        [backward.pitched(x, cols + gap, dtype), gate, order],
        [rows * (cols + 16) * 2],
        dtype=dtype,
        aics=aics,
        rows=rows,
        cols=cols,
        inner=top_k,
        in_pitch=cols + gap,
        out_pitch=cols + 16,
        limit=tokens,
    )
    expected = gate.ravel()[order, None].astype(np.float64) * x[order // top_k]
    got = backward.rows_of(raw, rows, cols, cols + 16, dtype)
    backward.check(got, expected, FLOAT32 * np.abs(expected), dtype)


# 1000 rows of 16 fill a slab many times over; more copies mean narrower blocks of columns.
COPIES = [
    (1, 16, 1),
    (7, 64, 2),
    (16, 7168, 8),
    (129, 272, 8),
    (300, 16, 6),
    (3, 48, 64),
    (2, 1040, 60),
    (2, 14336, 4),
    (1, 32, 1024),
]


@pytest.mark.parametrize(("rows", "cols", "copies"), COPIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sum_copies(backward: Any, rows: int, cols: int, copies: int, dtype: Dtype):
    back = backward.values((rows * copies + 5, cols), dtype, rows)
    rng: Any = np.random.default_rng(cols)
    position = rng.permutation(len(back))[: rows * copies].reshape(rows, copies).astype(np.int32)
    pitch = cols + 16
    (raw,) = backward.run(
        "sum_copies",
        [to_bits(back, dtype), position],
        [rows * pitch * 2],
        dtype=dtype,
        rows=rows,
        cols=cols,
        inner=copies,
        in_pitch=cols,
        out_pitch=pitch,
        limit=len(back),
    )
    terms = back[position]
    error = copies * FLOAT32 * np.abs(terms).sum(axis=1)
    backward.check(backward.rows_of(raw, rows, cols, pitch, dtype), terms.sum(axis=1), error, dtype)


@pytest.mark.parametrize(("rows", "cols", "copies"), COPIES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("aics", [1, 2])
def test_gate_gradient(backward: Any, rows: int, cols: int, copies: int, dtype: Dtype, aics: int):
    back = backward.values((rows * copies + 5, cols), dtype, rows)
    dout = backward.values((rows, cols), dtype, cols)
    rng: Any = np.random.default_rng(cols)
    position = rng.permutation(len(back))[: rows * copies].reshape(rows, copies).astype(np.int32)
    pitch = cols + 16
    (raw,) = backward.run(
        "gate_gradient",
        [
            backward.pitched(back, cols + 32, dtype),
            position,
            backward.pitched(dout, pitch, dtype),
        ],
        [rows * copies * 4],
        dtype=dtype,
        aics=aics,
        rows=rows,
        cols=cols,
        inner=copies,
        in_pitch=cols + 32,
        out_pitch=pitch,
        limit=len(back),
    )
    terms = back[position] * dout[:, None, :]
    blocks_of_columns = -(-cols * (copies + 1) * 8 // 140_000) + 1
    depth = int(np.ceil(np.log2(cols))) + blocks_of_columns + 8
    error = depth * FLOAT32 * np.abs(terms).sum(axis=2)
    got = from_bits(raw.view(np.uint32), "f32").reshape(rows, copies)
    backward.check(got, terms.sum(axis=2), error, "f32")


# 14336 columns are three blocks.
@pytest.mark.parametrize(
    ("rows", "cols", "gap"),
    [(1, 16, 0), (7, 48, 0), (16, 2048, 0), (129, 768, 32), (5, 14336, 16), (300, 32, 0)],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_swiglu_grad(backward: Any, rows: int, cols: int, gap: int, dtype: Dtype):
    h = backward.values((rows, 2 * cols), dtype, rows, 2.0)
    h[0, :5] = (-100, 100, -11, 0, -89)
    da = backward.values((rows, cols), dtype, cols)
    pitch = 2 * cols + gap
    (raw,) = backward.run(
        "swiglu_grad",
        [backward.pitched(h, pitch + gap, dtype), backward.pitched(da, cols + gap, dtype)],
        [rows * pitch * 2],
        dtype=dtype,
        rows=rows,
        cols=cols,
        inner=cols + gap,
        in_pitch=pitch + gap,
        out_pitch=pitch,
    )
    gate, up = h[:, :cols], h[:, cols:]
    s = 1 / (1 + np.exp(-gate))
    expected = np.hstack([da * up * s * (1 + gate * (1 - s)), da * gate * s])
    lost = np.where(gate < -88, 3e-39, 0.0)
    slope = (2.5 * FUNCTION_ERROR * s + lost) * (1 + np.abs(gate))
    value = (FUNCTION_ERROR * s + lost) * np.abs(gate)
    error = np.abs(np.hstack([da * up * slope, da * value]))
    backward.check(backward.rows_of(raw, rows, 2 * cols, pitch, dtype), expected, error, dtype)


@pytest.mark.parametrize(
    ("rows", "cols", "gap"),
    [(1, 16, 0), (7, 48, 16), (16, 7168, 0), (129, 272, 0), (300, 1008, 0), (2, 50000, 16)],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_add_rows(backward: Any, rows: int, cols: int, gap: int, dtype: Dtype):
    a, b = (backward.values((rows, cols), dtype, seed) for seed in (rows, cols))
    (raw,) = backward.run(
        "add_rows",
        [backward.pitched(a, cols + 16, dtype), backward.pitched(b, cols + gap, dtype)],
        [rows * (cols + gap) * 2],
        dtype=dtype,
        aics=2,
        rows=rows,
        cols=cols,
        inner=cols + gap,
        in_pitch=cols + 16,
        out_pitch=cols + gap,
    )
    got = backward.rows_of(raw, rows, cols, cols + gap, dtype)
    backward.check(got, a + b, FLOAT32 * np.abs(a + b), dtype)


@pytest.mark.parametrize(
    "kernel", ["scaled", "sum_copies", "gate_gradient", "swiglu_grad", "add_rows"]
)
def test_no_rows(backward: Any, kernel: str):
    scalars = {"cols": 32, "inner": 32, "in_pitch": 64, "out_pitch": 64, "limit": 1}
    (raw,) = backward.run(kernel, [], [64], **scalars)
    assert (raw.view(np.uint16) == backward.UNTOUCHED).all()


ROUNDED, FLOATS, ADDED = range(3)


def weight_gradient(
    backward: Any,
    rows: int,
    m: int,
    n: int,
    *,
    dtype: Dtype = "bf16",
    kind: int = FLOATS,
    blocking: int = 0,
    gaps: tuple[int, int, int] = (0, 0, 0),
    shares: int = 0,
) -> npt.NDArray[np.float32]:
    """Runs and checks out [m x n] (+)= lhs^T rhs; gaps: elements between the rows of each.

    With shares, each call does every shares-th block. Returns what was found.
    """
    lhs, rhs = backward.values((rows, m), dtype, m), backward.values((rows, n), dtype, n + 1)
    pitch = n + gaps[2]
    result: Dtype = dtype if kind == ROUNDED else "f32"
    before = backward.values((m, n), "f32", 7, 100.0) if kind == ADDED else np.zeros((m, n))
    outputs: list[Any] = [m * pitch * (2 if kind == ROUNDED else 4)]
    if kind == ADDED:
        sums = np.full((m, pitch), backward.UNTOUCHED * 0x10001, np.uint32)
        sums[:, :n] = to_bits(before, "f32")
        outputs = [64, sums]
    raw = backward.run(
        "weight_gradient",
        [
            backward.pitched(lhs, m + gaps[0], dtype),
            backward.pitched(rhs, n + gaps[1], dtype),
        ],
        outputs,
        dtype=dtype,
        variant=3 * blocking + kind,
        rows=m,
        cols=n,
        inner=n + gaps[1],
        in_pitch=m + gaps[0],
        out_pitch=pitch,
        limit=rows,
        shares=shares,
    )[-1]
    expected = before + lhs.T @ rhs
    error = rows * FLOAT32 * (np.abs(lhs).T @ np.abs(rhs))
    got: npt.NDArray[np.float32] = backward.rows_of(raw, m, n, pitch, result)
    backward.check(got, expected, error, result)
    return got


def in_order(backward: Any, rows: int, m: int, n: int, kind: int, section: int) -> Any:
    """Computes weight_gradient bit for bit, as the sum of sums over `section` rows each."""
    lhs, rhs = (
        backward.values(shape, "bf16", seed).astype(np.float32)
        for shape, seed in (((rows, m), m), ((rows, n), n + 1))
    )
    total = np.zeros((m, n), np.float32)
    if kind == ADDED:
        total += backward.values((m, n), "f32", 7, 100.0).astype(np.float32)
    for begin in range(0, rows, section):
        part = np.zeros((m, n), np.float32)
        for row in range(begin, min(begin + section, rows)):
            part += lhs[row, :, None] * rhs[row]
        total += part
    return round_to(total, "bf16") if kind == ROUNDED else total


# Chunks of 256 rows, steps of 64: below, at and above each, with tails of rows that are NaN in L1.
@pytest.mark.parametrize("rows", [0, 1, 7, 16, 129, 300, 528, 777])
@pytest.mark.parametrize("kind", [ROUNDED, FLOATS, ADDED], ids=["rounded", "floats", "added"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_weight_gradient(backward: Any, rows: int, kind: int, dtype: Dtype):
    weight_gradient(backward, rows, 144, 272, dtype=dtype, kind=kind)


@pytest.mark.parametrize(("m", "n"), [(16, 16), (128, 256), (256, 512), (272, 528), (16, 2064)])
@pytest.mark.parametrize("rows", [0, 33, 257])
def test_weight_gradient_blocks(backward: Any, rows: int, m: int, n: int):
    weight_gradient(backward, rows, m, n)


# The largest number of rows for which blocks are half as wide, and one more.
@pytest.mark.parametrize("rows", [2040, 2041])
@pytest.mark.parametrize("kind", [ROUNDED, FLOATS, ADDED], ids=["rounded", "floats", "added"])
def test_weight_gradient_of_few_and_of_many_rows(backward: Any, rows: int, kind: int):
    weight_gradient(backward, rows, 144, 528, kind=kind)


# Blocks of 256 x 128, half as wide in sections of 256 rows, the last of two chunks or one. Four
# blocks in a row of blocks and more, with a narrow last one, several rows of blocks and smaller.
@pytest.mark.parametrize("rows", [1021, 1024, 1190, 1281])
@pytest.mark.parametrize(("m", "n"), [(16, 208), (272, 400)])
@pytest.mark.parametrize("kind", [FLOATS, ADDED], ids=["floats", "added"])
def test_weight_gradient_in_sections(backward: Any, rows: int, m: int, n: int, kind: int):
    got = weight_gradient(backward, rows, m, n, kind=kind, blocking=3)
    np.testing.assert_array_equal(got, in_order(backward, rows, m, n, kind, 256))


# Sections are used only with more rows, four blocks in a row of blocks, a float result, and all
# blocks in one task.
@pytest.mark.parametrize(
    ("rows", "n", "kind", "shares"),
    [
        *((1020, 400, FLOATS, shares) for shares in (0, 1, 2)),
        *((1030, 192, FLOATS, shares) for shares in (0, 1, 2)),
        *((1030, 400, ROUNDED, shares) for shares in (0, 1, 2)),
        *((1030, 400, kind, 2) for kind in (FLOATS, ADDED)),
    ],
)
def test_weight_gradient_not_in_sections(backward: Any, rows: int, n: int, kind: int, shares: int):
    got = weight_gradient(backward, rows, 32, n, kind=kind, blocking=3, shares=shares)
    np.testing.assert_array_equal(got, in_order(backward, rows, 32, n, kind, rows))


# 1: two results in L0C and the fullest L0A; 2: single fractals; 4 and 5: the CANN-like kernel, with
# one result in L0C though 5 has room for more.
@pytest.mark.parametrize("blocking", [1, 2, 4, 5])
@pytest.mark.parametrize("rows", [1, 260, 530])
@pytest.mark.parametrize("kind", [ROUNDED, ADDED], ids=["rounded", "added"])
def test_weight_gradient_blockings(backward: Any, blocking: int, rows: int, kind: int):
    weight_gradient(backward, rows, 144, 176, kind=kind, blocking=blocking)


# Operands inside wider buffers; with a pitch above 65535 elements, rows are copied one by one.
@pytest.mark.parametrize("gaps", [(16, 48, 32), (65536, 0, 0), (0, 65536, 0), (0, 0, 65536)])
@pytest.mark.parametrize("kind", [ROUNDED, ADDED], ids=["rounded", "added"])
def test_weight_gradient_pitches(backward: Any, gaps: tuple[int, int, int], kind: int):
    weight_gradient(backward, 21, 48, 80, kind=kind, gaps=gaps)


# Blocks of 16 x 16, 9 x 3 of them: each is added once.
@pytest.mark.parametrize("shares", [1, 2, 24, 30])
@pytest.mark.parametrize("rows", [0, 33])
@pytest.mark.parametrize("kind", [ROUNDED, ADDED], ids=["rounded", "added"])
@pytest.mark.parametrize("blocking", [2, 5])
def test_weight_gradient_by_shares(backward: Any, rows: int, shares: int, kind: int, blocking: int):
    weight_gradient(backward, rows, 144, 48, kind=kind, blocking=blocking, shares=shares)


def refused(backward: Any, kernel: str, inputs: list[Any], **scalars: int) -> None:
    """Asserts that the kernel traps."""
    with pytest.raises(DeviceFault) as caught:
        backward.run(kernel, inputs, [1 << 12], **scalars)
    assert caught.value.kind == "trap"


DATA = np.zeros((8, 48), np.uint16)
SIZES = {"rows": 1, "cols": 16, "inner": 1, "in_pitch": 48, "out_pitch": 48, "limit": 4}


@pytest.mark.parametrize(
    "kernel",
    ["scaled", "sum_copies", "gate_gradient", "swiglu_grad", "add_rows", "weight_gradient"],
)
def test_columns_are_whole_data_blocks(backward: Any, kernel: str):
    sizes = SIZES | {"rows": 16, "cols": 24, "inner": 24 if kernel == "weight_gradient" else 1}
    refused(backward, kernel, [DATA, DATA, DATA], **sizes)


@pytest.mark.parametrize("kernel", ["sum_copies", "gate_gradient"])
@pytest.mark.parametrize("row", [4, -1])
def test_copies_are_known_rows(backward: Any, kernel: str, row: int):
    refused(backward, kernel, [DATA, np.array([[row]], np.int32), DATA], **SIZES)


@pytest.mark.parametrize("kernel", ["sum_copies", "gate_gradient"])
def test_a_token_has_at_most_1024_copies(backward: Any, kernel: str):
    position = np.zeros((1, 1025), np.int32)
    refused(backward, kernel, [DATA, position, DATA], **(SIZES | {"inner": 1025}))


@pytest.mark.parametrize("pair", [8, -1])
def test_scaled_rows_are_known_pairs(backward: Any, pair: int):
    gate = np.ones((4, 2), np.float32)
    sizes = SIZES | {"inner": 2}
    refused(backward, "scaled", [DATA, gate, np.array([pair], np.int32)], **sizes)


@pytest.mark.parametrize("kernel", ["sum_copies", "gate_gradient", "swiglu_grad", "scaled"])
def test_the_same_bits_under_every_order_of_the_cores(backward: Any, kernel: str):
    data = to_bits(backward.values((24, 64), "bf16", 3), "bf16")
    position = np.arange(24, dtype=np.int32)
    found: set[bytes] = set()
    for seed in range(4):
        sizes = {"rows": 12, "cols": 32, "in_pitch": 64, "out_pitch": 64, "limit": 24}
        inputs = [data, position, data]
        if kernel == "scaled":
            inputs = [data, position.astype(np.float32), position]
        inner = {"swiglu_grad": 64, "scaled": 1}.get(kernel, 2)
        if kernel == "swiglu_grad":
            inputs = [data, data]
        (raw,) = backward.run(
            kernel, inputs, [12 * 64 * 2], aics=2, seed=seed, inner=inner, **sizes
        )
        found.add(raw.tobytes())
    assert len(found) == 1
