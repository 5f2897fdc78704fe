"""Limits that one call or the kernel's end violates; the program within the limit runs clean."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.runtime.device_fault import DeviceFault

SOURCE = (Path(__file__).parent / "limits.cpp").read_text().splitlines()

LIMITS = {
    0: ("address", "'in' of rank 0 + 4000 ends 160 bytes past the allocation's 4096 bytes"),
    1: ("address", "read of UB bytes 0 to 288, the tensor ends at 256"),
    2: ("address", "ends 4 bytes past the GlobalTensor's size"),
    3: ("alignment", "28 bytes is not a multiple of 32"),
    4: ("alignment", "UB address 16 is not a multiple of 32"),
    5: ("alignment", "fills the 12 bytes up to a multiple of 32 with the block's first element"),
    6: ("alignment", "2 blocks of 28 bytes"),
    7: ("alignment", "2 blocks of 28 bytes"),
    8: ("range", "padding of 0 and 36 bytes is more than 32"),
    9: ("range", "the padding value of a 64-bit type must be 0"),
    10: ("address", "write to 'in' of rank 0 + 0, which is an input"),
    20: ("capacity", "read of UB bytes 4096 to 196896, usable are 196352"),
    21: ("overlap", "UB bytes 32 to 288 are written while 0 to 256 are read"),
    22: ("event-id", "event id 6 is not in 0 to 5"),
    23: ("flag", "SetFlag<MTE2_V>(0): already set at limits.cpp:"),
    24: ("flag", "the kernel ended with SetFlag<V_MTE3>(1) not waited for"),
    25: ("flag", "WaitFlag<V_MTE3>(1): not set before, the core would hang"),
    26: ("state", "the kernel ended with SetAtomicAdd on"),
    30: ("flag", "CrossCoreSetFlag(1): "),
    31: ("flag", "the kernel ended with cross-core flag 2 not waited for"),
}


@pytest.fixture(scope="module")
def limits(program: Any) -> Any:
    return program("limits", "in out", "which fixed")


def run(limits: Any, which: int, fixed: bool, seed: int) -> Any:
    arrays = {"in": np.zeros(1024, np.float32), "out": 4096}
    return limits.run(arrays, {"which": which, "fixed": int(fixed)}, seed=seed)


@pytest.mark.parametrize("which", LIMITS)
def test_limit(limits: Any, which: int):
    """Kind, message, core, marker and line, under every seed."""
    kind, message = LIMITS[which]
    for seed in range(3):
        with pytest.raises(DeviceFault) as raised:
            run(limits, which, False, seed)
        fault = raised.value
        assert fault.kind == kind, str(fault)
        assert message in fault.message
        assert (fault.rank, fault.marker, fault.other) == (0, which, None)
        assert fault.core in ("aiv0", "aiv1") if which >= 30 else fault.core == "aiv0"
        place = [n for n, line in enumerate(SOURCE, 1) if re.search(rf"// {which}$", line)]
        if place:
            assert fault.location == f"limits.cpp:{place[0]}"


@pytest.mark.parametrize("which", LIMITS)
def test_right_twin_runs_clean(limits: Any, which: int):
    """The same program within the limit."""
    for seed in range(3):
        assert run(limits, which, True, seed)["out"].size == 4096
