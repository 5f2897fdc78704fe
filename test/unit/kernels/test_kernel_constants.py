"""Constants that the compiler and the device headers both have are the same."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import pytest

from hpmoe_ir.kernels import device, route_layout
from hpmoe_ir.machines.machine import load_machine, machine_names

HEADERS = Path(__file__).parents[3] / "hpmoe_ir" / "runtime" / "device" / "hpmoe"


def header_constant(header: str, name: str) -> int:
    """The value of a constant that a header defines as a number or a product of numbers."""
    text = (HEADERS / header).read_text()
    (value,) = re.findall(rf"constexpr uint32_t {name} = ([0-9 *]+);", text)
    return prod(int(factor) for factor in value.split("*"))


@pytest.mark.parametrize(
    ("header", "name", "value"),
    [
        ("local.h", "kFractal", device.FRACTAL),
        ("local.h", "kUbBytes", device.UB_BYTES),
        ("detail/matmul_block.h", "kMaxSteps", device.MAX_STEPS),
        ("detail/section_pipeline.h", "kChunks", device.SECTION_CHUNKS),
        ("route.h", "kLine", route_layout.WORDS_PER_LINE),
    ],
)
def test_constants_of_the_headers(header: str, name: str, value: int):
    assert header_constant(header, name) == value


@pytest.mark.parametrize("name", machine_names())
def test_the_headers_use_the_memories_of_every_machine(name: str):
    machine = load_machine(name)
    found = [header_constant("local.h", f"k{m}Bytes") for m in ("L0a", "L0b", "L0c", "L1")]
    expected = [machine.l0a_bytes, machine.l0b_bytes, machine.l0c_bytes, machine.l1_usable]
    assert found == expected
    assert device.UB_BYTES <= machine.ub_usable
