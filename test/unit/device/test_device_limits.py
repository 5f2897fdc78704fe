"""Checks of the tile kernels: sizes beyond their local memory, operands that do not match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.lowering.ascendc.source import memory_definitions
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.runtime.cpu_build import CompileError, KernelEntry, build
from hpmoe_ir.runtime.device_fault import DeviceFault

MACHINE = load_machine("ascend-a3")
DEVICE_DIR = Path(__file__).parents[3] / "hpmoe_ir" / "runtime" / "device"

BLOCKING = """\
{}
#include "hpmoe/grouped_matmul.h"
extern "C" __global__ __mix__(1, 2) __aicore__ void blocking(GM_ADDR a) {{
  const hpmoe::Tile<bfloat16_t> tile = {{reinterpret_cast<__gm__ bfloat16_t*>(a), 1, 16, 16, 0}};
  hpmoe::GroupedMatmul<bfloat16_t, {}, false>(tile, tile, tile);
}}
"""


@pytest.mark.parametrize(
    "blocking, message",
    [
        ("128, 256, 24", "blocks are whole fractals"),
        ("256, 64, 128", "L0A holds two steps of M x K"),
        ("64, 256, 128", "L0B holds two steps of K x N"),
        ("256, 256, 16", "L0C holds M x N"),
    ],
)
def test_matmul_blocks_beyond_the_memories_do_not_compile(
    tmp_path: Path, blocking: str, message: str
):
    source = tmp_path / "blocking.cpp"
    source.write_text(BLOCKING.format(memory_definitions(MACHINE), blocking))
    with pytest.raises(CompileError, match=message):
        build(source, KernelEntry("blocking", ("a",), ()), [DEVICE_DIR], tmp_path)


def refused(kernels: Any, kernel: str, inputs: list[Any], output: int, **scalars: int) -> None:
    """Asserts that the kernel traps."""
    with pytest.raises(DeviceFault) as caught:
        kernels.run(kernel, inputs, [output, 1 << 20], **scalars)
    assert caught.value.kind == "trap"


@pytest.mark.parametrize("kernel", ["count", "exchange", "route"])
def test_more_experts_than_fit(kernels: Any, kernel: str):
    experts = 4097
    counts = np.zeros((1, 2 * experts), np.int32)
    size = 4 * 5 * experts
    scalars = {"rows": 1, "cols": 0, "inner": experts, "in_pitch": experts, "limit": 1}
    refused(kernels, kernel, [counts], 2 * size, **scalars)


def test_place_tokens_needs_known_experts(kernels: Any):
    ids = np.array([[0, 4]], np.int32)
    counts = np.array([[1, 0, 0, 1], [0, 0, 0, 0]], np.int32)
    refused(kernels, "place", [ids, counts], 8, rows=1, cols=2, inner=4)


@pytest.mark.parametrize("kernel", ["copy", "gather", "swiglu", "weighted_sum"])
def test_columns_are_whole_data_blocks(kernels: Any, kernel: str):
    data = np.zeros((4, 48), np.uint16)
    position = np.zeros((2, 1), np.int32)
    scalars = {"rows": 2, "cols": 24, "inner": 1, "in_pitch": 48, "out_pitch": 24, "limit": 4}
    refused(kernels, kernel, [data, position, position], 96, **scalars)


def test_weighted_sum_needs_known_rows(kernels: Any):
    data = np.zeros((4, 16), np.uint16)
    position, gate = np.array([[4]], np.int32), np.ones((1, 1), np.float32)
    scalars = {"rows": 1, "cols": 16, "inner": 1, "in_pitch": 16, "out_pitch": 16, "limit": 4}
    refused(kernels, "weighted_sum", [data, position, gate], 32, **scalars)


def test_weighted_sum_holds_1024_copies(kernels: Any):
    data = np.zeros((1, 16), np.uint16)
    position, gate = np.zeros((1, 1025), np.int32), np.ones((1, 1025), np.float32)
    scalars = {"rows": 1, "cols": 16, "inner": 1025, "in_pitch": 16, "out_pitch": 16, "limit": 1}
    refused(kernels, "weighted_sum", [data, position, gate], 32, **scalars)
