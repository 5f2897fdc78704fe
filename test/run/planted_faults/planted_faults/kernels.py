"""`forgetful_swiglu`: SwiGLU that leaves out the last row of a tile with more than three."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpmoe_ir.kernels.kernel import AscendCFunction
from hpmoe_ir.kernels.registry import find_kernel

FORGETFUL_SWIGLU = replace(
    find_kernel("swiglu"),
    name="forgetful_swiglu",
    ascendc=AscendCFunction(
        "planted_faults::ForgetfulSwiGlu",
        "planted_faults/swiglu.h",
        Path(__file__).parent / "include",
    ),
)
