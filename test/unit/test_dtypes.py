"""Rounding to bf16 and f16 in NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpmoe_ir.dtypes import (
    DtypeError,
    check_dtype,
    from_bits,
    round_to,
    to_bits,
    underflow_error,
    unit_roundoff,
)


@pytest.mark.parametrize(
    "value, rounded",
    [
        (1.0, 1.0),
        (1.0 + 2**-8, 1.0),  # a tie goes to the even neighbour below
        (1.0 + 3 * 2**-8, 1.0 + 2**-6),  # and above
        (1.0 + 2**-8 + 2**-20, 1.0 + 2**-7),
        (-(2.0**127) * (1 + 2**-9), -(2.0**127)),
        (3.4e38, np.inf),
        (np.inf, np.inf),
        (0.0, 0.0),
    ],
)
def test_bfloat16_rounds_to_nearest_even(value: float, rounded: float):
    found = round_to(np.array([value], np.float32), "bf16")[0]
    assert found == rounded


def test_bfloat16_keeps_nan():
    # The lowest bits set alone would be carried away into infinity.
    signalling = np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(round_to(signalling, "bf16")).all()


@given(st.integers(0, 0xFFFF), st.sampled_from(["bf16", "f16"]))
def test_bits_survive_the_way_there_and_back(bits: int, name: str):
    dtype = check_dtype(name)
    raw = np.array([bits], np.uint16)
    value = from_bits(raw, dtype)
    if not np.isnan(value[0]):
        assert to_bits(value, dtype)[0] == bits


@given(st.floats(-1e4, 1e4, width=32), st.sampled_from(["bf16", "f16", "f32"]))
def test_rounding_is_within_the_unit_roundoff(value: float, name: str):
    dtype = check_dtype(name)
    error = abs(float(round_to(np.array([value], np.float32), dtype)[0]) - value)
    assert error <= unit_roundoff(dtype) * abs(value) + underflow_error(dtype)


def test_bytes_are_read_as_elements():
    raw = to_bits(np.array([[1.0, 2.0]], np.float32), "bf16")
    assert raw.dtype.itemsize == 2
    assert from_bits(raw.view(np.uint8), "bf16").tolist() == [[1.0, 2.0]]


def test_memory_of_another_size_is_refused():
    with pytest.raises(DtypeError) as e:
        from_bits(np.zeros(3, np.uint32), "bf16")
    assert str(e.value) == "expected raw bf16 memory, found uint32 (3,)"


def test_unknown_type_is_refused():
    with pytest.raises(DtypeError) as e:
        check_dtype("bfloat16")
    assert str(e.value) == "unknown element type 'bfloat16', expected one of bf16, f16, f32, f64"
