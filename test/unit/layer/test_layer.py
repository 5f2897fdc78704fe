"""Sizes of a layer and what is refused."""

from typing import Any

import pytest

from hpmoe_ir.layer.config import LayerConfig, LayerError

SMALL = LayerConfig("small", hidden=64, width=32, experts=4, top_k=2, ranks=2, tokens=64)


def test_sizes_that_follow():
    assert SMALL.local_experts == 2
    assert SMALL.sent_rows == 128
    assert SMALL.receive_rows == SMALL.max_received_rows == 256
    assert SMALL.with_sizes(capacity=100).receive_rows == 100
    # A token can't send two rows to a rank that has one expert.
    assert SMALL.with_sizes(ranks=4).max_received_rows == 256


def test_summary_says_everything():
    assert SMALL.with_sizes(capacity=200, dtype="f16").summary() == (
        "small: hidden 64, expert width 32, top 2 of 4 experts over 2 ranks, "
        "64 tokens a rank, capacity 200 rows, f16"
    )


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({"ranks": 3}, "experts: expected a multiple of the 3 ranks, found 4"),
        ({"top_k": 5}, "top_k: expected at most the 4 experts, found 5"),
        ({"top_k": 0}, "top_k: expected a positive integer, found 0"),
        ({"tokens": True}, "tokens: expected a positive integer, found True"),
        ({"capacity": -1}, "capacity: expected a positive integer, found -1"),
        (
            {"capacity": 257},
            "capacity: expected at most the 256 rows that a rank can receive, found 257",
        ),
        (
            {"dtype": "int8"},
            "dtype: unknown element type 'int8', expected one of bf16, f16, f32, f64",
        ),
        (
            {"tokens": 2**30},
            "tokens: expected at most 2147483647 rows received by a rank, found 4294967296",
        ),
    ],
)
def test_impossible_sizes_are_refused(sizes: dict[str, Any], message: str):
    with pytest.raises(LayerError) as e:
        SMALL.with_sizes(**sizes)
    assert str(e.value) == f"layer 'small': {message}"


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({"hidden": 40}, "hidden: expected a multiple of 16, found 40"),
        ({"width": 8}, "width: expected a multiple of 16, found 8"),
        (
            {"dtype": "f32"},
            "dtype: expected bf16 or f16 (the types of the matrix cores), found 'f32'",
        ),
    ],
)
def test_sizes_for_the_interpreter_only(sizes: dict[str, Any], message: str):
    given: dict[str, Any] = {"hidden": 64, "width": 32} | sizes
    layer = LayerConfig("small", experts=4, top_k=2, **given)
    with pytest.raises(LayerError) as e:
        layer.check_lowerable()
    assert str(e.value) == f"layer 'small': {message}"
