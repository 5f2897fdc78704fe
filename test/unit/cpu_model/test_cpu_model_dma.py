"""Copies: sizes, gaps, padding, layouts, atomic adds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hpmoe_ir.runtime.cpu_model import PATTERN

FRESH = np.frombuffer(PATTERN, np.int16)[0]


@pytest.fixture(scope="module")
def dma(program: Any) -> Any:
    return program("dma", "in out", "which")


def copied(dma: Any, which: int, elements: int, source: npt.NDArray[Any]) -> npt.NDArray[np.int16]:
    return dma.run({"in": source, "out": elements * 2}, {"which": which})["out"].view(np.int16)


NUMBERS = np.arange(1000, dtype=np.int16)


def test_count_form(dma: Any):
    """Global addresses need no alignment; bytes that are not written keep the pattern."""
    out = copied(dma, 0, 80, NUMBERS)
    np.testing.assert_array_equal(out[5:69], NUMBERS[3:67])
    assert (out[:5] == FRESH).all()
    assert (out[69:] == FRESH).all()


def test_blocks_and_gaps(dma: Any):
    """Lengths and gaps in 32 bytes."""
    out = copied(dma, 1, 48, NUMBERS)
    np.testing.assert_array_equal(out, NUMBERS[:96].reshape(3, 2, 16)[:, 0].ravel())


def test_padding(dma: Any):
    """Each row starts at 32 bytes; a value for the padding fills the whole row."""
    out = copied(dma, 2, 192, NUMBERS).reshape(4, 48)
    for row in range(4):
        expected = np.full(32, -7, np.int16)
        expected[2:19] = NUMBERS[row * 18 : row * 18 + 17]
        np.testing.assert_array_equal(out[row, :32], expected)
    assert (out[:, 32:] == FRESH).all()


def test_rows_out(dma: Any):
    """Gaps in 32 bytes in UB, in bytes in global memory."""
    out = copied(dma, 3, 60, NUMBERS).reshape(3, 20)
    np.testing.assert_array_equal(out[:, :17], NUMBERS[:144].reshape(3, 48)[:, :17])
    assert (out[:, 17:] == FRESH).all()


def test_padding_without_a_value_is_marked(dma: Any):
    """Bytes that the chip leaves undefined must not look like data."""
    out = copied(dma, 4, 16, NUMBERS)
    np.testing.assert_array_equal(out[:5], NUMBERS[:5])
    assert (out[5:] == FRESH).all()


def test_atomic_adds(dma: Any):
    """Each element type doubles; after SetAtomicNone a copy overwrites."""
    source = np.zeros(512, np.uint8)
    source[:128].view(np.float32)[:] = np.linspace(-1, 1, 32)
    source[128:256].view(np.float16)[:] = np.linspace(-1, 1, 64)
    source[256:384].view(np.uint16)[:] = 0x3F81  # bf16 1.0078125
    source[384:].view(np.int32)[:] = np.arange(100, 132)
    out = dma.run({"in": source, "out": 512}, {"which": 5})["out"]
    np.testing.assert_array_equal(out[:128].view(np.float32), 2 * source[:128].view(np.float32))
    np.testing.assert_array_equal(
        out[128:256].view(np.float16), 2 * source[128:256].view(np.float16)
    )
    assert (out[256:384].view(np.uint16) == 0x4001).all()
    words = np.arange(100, 132)
    words[:2] = 200, 108
    np.testing.assert_array_equal(out[384:].view(np.int32), words)


def test_through_l1(dma: Any):
    """An AIC copies out of L1."""
    out = copied(dma, 6, 80, NUMBERS)
    np.testing.assert_array_equal(out[:32], NUMBERS[:32])
    assert (out[32:48] == FRESH).all()
    np.testing.assert_array_equal(out[48:80], NUMBERS[32:64])


def test_rows_to_nz(dma: Any):
    """Column blocks of 16; zeros in the last block, rows beyond the matrix untouched."""
    out = copied(dma, 7, 512, NUMBERS).reshape(2, 16, 16)
    matrix = NUMBERS[:120].reshape(5, 24)[:, :20]
    np.testing.assert_array_equal(out[0, :5], matrix[:, :16])
    np.testing.assert_array_equal(out[1, :5, :4], matrix[:, 16:])
    assert (out[1, :5, 4:] == 0).all()
    assert (out[:, 5:] == FRESH).all()


def test_several_matrices_to_nz(dma: Any):
    """Strides between matrices in elements, between rows in 32 bytes."""
    out = copied(dma, 8, 1024, NUMBERS).reshape(2, 32, 16)
    for matrix in range(2):
        rows = NUMBERS[matrix * 40 : matrix * 40 + 32].reshape(2, 16)
        np.testing.assert_array_equal(out[matrix, 0], rows[0])
        np.testing.assert_array_equal(out[matrix, 2], rows[1])
        assert (out[matrix, 1] == FRESH).all()


def test_atomic_from_l1(dma: Any):
    """An AIC adds to a counter by a copy from L1."""
    source = np.array([5, 0, 0, 0, 0, 0, 0, 0], np.int32)
    out = dma.run({"in": source, "out": 32}, {"which": 9})["out"].view(np.int32)
    assert out.tolist() == [10, 0, 0, 0, 0, 0, 0, 0]
