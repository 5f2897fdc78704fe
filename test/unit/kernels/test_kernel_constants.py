"""Constants that the compiler and the device headers both have are the same."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import pytest

from hpmoe_ir.kernels import device, route_layout
from hpmoe_ir.lowering.plan.machine import AIV_PER_AIC, COUNTER_LINE

HEADERS = Path(__file__).parents[3] / "hpmoe_ir" / "runtime" / "device" / "hpmoe"


def header_constant(header: str, name: str) -> int:
    """The value of a constant that a header defines as a number or a product of numbers."""
    text = (HEADERS / header).read_text()
    (value,) = re.findall(rf"constexpr uint32_t {name} = ([0-9 *]+);", text)
    return prod(int(factor) for factor in value.split("*"))


@pytest.mark.parametrize(
    ("header", "name", "value"),
    [
        ("machine.h", "kFractal", device.FRACTAL),
        ("memories.h", "kUbLists", device.UB_LISTS),
        ("memories.h", "kUbRest", device.UB_REST),
        ("machine.h", "kMaxRepeats", device.MAX_REPEATS),
        ("machine.h", "kMaxNzRows", device.MAX_NZ_ROWS),
        ("machine.h", "kCounterLine", COUNTER_LINE),
        ("machine.h", "kAivPerAic", AIV_PER_AIC),
        ("detail/matmul_block.h", "kMaxSteps", device.MAX_STEPS),
        ("detail/section_pipeline.h", "kChunks", device.SECTION_CHUNKS),
        ("machine.h", "kCounterLine", 4 * route_layout.WORDS_PER_LINE),
    ],
)
def test_constants_of_the_headers(header: str, name: str, value: int):
    assert header_constant(header, name) == value
