"""`forgetful_swiglu`: SwiGLU that leaves out the last row of a tile with more than three."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpmoe_ir.kernels.registry import find_kernel

FORGETFUL_SWIGLU = replace(
    find_kernel("swiglu"),
    name="forgetful_swiglu",
    function="planted_faults::ForgetfulSwiGlu",
    header="planted_faults/swiglu.h",
    include=Path(__file__).parent / "include",
)
