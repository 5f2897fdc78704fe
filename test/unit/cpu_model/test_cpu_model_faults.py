"""Each check of the CPU model fires, with its message and the kernel's line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.runtime.device_fault import DeviceFault

SOURCE = (Path(__file__).parent / "faults.cpp").read_text().splitlines()

FAULTS = {
    0: ("alignment", "DataCopy: 28 bytes is not a multiple of 32: the chip drops the rest"),
    1: (
        "address",
        "DataCopy: read of 128 bytes from 'in' of rank 0 + 4000 ends 32 bytes past the allocation's"
        " 4096 bytes",
    ),
    2: (
        "address",
        "DataCopy: write of 32 bytes starts outside any allocation: 32 bytes before 'out' of rank"
        " 0",
    ),
    3: ("alignment", "DataCopy: UB address 16 is not a multiple of 32"),
    4: ("capacity", "LocalTensor: read of UB bytes 194560 to 198656, usable are 196352"),
    5: ("address", "DataCopy: write of UB bytes 4064 to 4128, the tensor ends at 4096"),
    6: ("event-id", "SetFlag<MTE2_V>: event id 6 is not in 0 to 5"),
    7: ("flag", "SetFlag<MTE2_V>(0): already set at faults.cpp:{before} and not waited for"),
    8: ("flag", "WaitFlag<V_MTE3>(3): not set before, the core would hang"),
    9: ("flag", "the kernel ended with SetFlag<V_MTE3>(3) not waited for"),
    10: ("core-kind", "PipeBarrier<PIPE_FIX>: an AIV has no such pipe"),
    11: ("core-kind", "LocalTensor: L1 does not exist on an AIV"),
    12: ("trap", "the kernel called Trap"),
    13: ("address", "DataCopy: write to 'in' of rank 0 + 0, which is an input"),
    14: ("overlap", "Add: UB bytes 32 to 288 are written while 0 to 256 are read"),
    15: ("uninitialised", "GetValue: 'out' of rank 0 + 0 was never written"),
    16: ("uninitialised", "GetValue: UB byte 20 was never written"),
    17: ("address", "aclshmem_ptr: 'in' of rank 0 + 0 is not symmetric memory"),
    18: ("address", "aclshmem_ptr: rank 9 is not in 0 to 1"),
    19: (
        "address",
        "aclshmem_ptr: 'windows' of rank 1 + 0, expected an address of the calling rank",
    ),
    20: ("event-id", "CrossCoreSetFlag: flag id 12 is not in 0 to 10"),
    21: ("flag", "CrossCoreSetFlag(1): "),
    23: (
        "cache",
        "the kernel ended with a scalar write to 'out' of rank 0 + 0 that was never written back",
    ),
    24: (
        "line",
        "SetValue: the write-back of its cache line is not ordered with the signal of 'windows' of"
        " rank 0, bytes 4 to 8 by aclshmemx_signal_op at faults.cpp:{after}",
    ),
    25: ("state", "DataCopy: SetAtomicAdd is on for another element type"),
    26: ("state", "the kernel ended with SetAtomicAdd on"),
    28: ("range", "DataCopyPad: blockCount 5000 is not in 0 to 4095"),
    31: ("address", "DataCopy: write of 32 bytes starts outside any allocation: address 0x40, in"),
    32: (
        "address",
        "DataCopy: read of 64 bytes from 'in' of rank 0 + 32 ends 32 bytes past the GlobalTensor's"
        " size",
    ),
    33: ("alignment", "Cast: UB address 8194 is not a multiple of 32"),
    35: ("core-kind", "SetFlag<MTE1_M>: an AIV does not have both pipes"),
    36: ("alignment", "DataCopy: 36 bytes is not a multiple of 32: the chip drops the rest"),
    50: ("unsupported", "Mmad with m = 1, which reads A in another layout"),
    51: ("unsupported", "MmadParams::unitFlag other than 0"),
    52: ("unsupported", "FixpipeParamsV220::quantPre that does not fit the output type"),
    53: ("range", "Fixpipe: nSize 24 is not a multiple of 16 up to 4095"),
    54: ("alignment", "LoadData: L0A address 32 is not a multiple of 512"),
    55: ("core-kind", "LoadData: the source is in L0B, expected L1"),
    56: ("core-kind", "Mmad: the left matrix is in L0B, expected L0A"),
    57: ("alignment", "Mmad: L0C address 64 is not a multiple of 1024"),
    58: ("range", "Fixpipe: dstStride 8 is less than nSize 16: rows would overlap"),
    59: ("range", "DataCopy with Nd2NzParams: srcDValue 0 is not in 1 to 65535"),
    60: ("unsupported", "the CPU model does not have DataCopyPad to L1"),
    61: ("core-kind", "LocalTensor: UB does not exist on an AIC"),
    62: (
        "core-kind",
        "CrossCoreSetFlag: mode 1 joins the two AIVs of a group, this is an AIC",
    ),
    63: ("core-kind", "SyncAll<true>: joins the AIVs, this is an AIC"),
    64: ("unsupported", "LoadData2DParams::addrMode other than 0"),
    65: ("capacity", "LoadData: write of L0A bytes 0 to 102400, usable are 65536"),
    66: ("core-kind", "SetFlag<MTE2_V>: an AIC does not have both pipes"),
}


@pytest.fixture(scope="module")
def faults(program: Any) -> Any:
    return program("faults", "in out windows", "which")


def run(faults: Any, which: int, **options: Any) -> DeviceFault:
    arrays = {"in": np.zeros(1024, np.float32), "out": 4096}
    with pytest.raises(DeviceFault) as raised:
        faults.run(
            arrays, {"which": which}, ranks=2, persistent={"windows": bytes(4096)}, **options
        )
    return raised.value


def line_of(which: int) -> int:
    last = next(i for i, line in enumerate(SOURCE, 1) if line.endswith(f"// case {which}"))
    return last - 1 if SOURCE[last - 1].startswith(" " * 10) else last


@pytest.mark.parametrize("which", FAULTS)
def test_fault(faults: Any, which: int):
    """Kind, message, location, marker, and a core of the right kind."""
    fault = run(faults, which)
    kind, message = FAULTS[which]
    line = line_of(which)
    assert fault.kind == kind, str(fault)
    expected = message.format(before=line - 1, after=line + 1)
    assert expected.replace("rank 0", "") in fault.message.replace(f"rank {fault.rank}", "")
    assert fault.location == f"faults.cpp:{line}"
    assert fault.marker == which
    assert fault.core is not None
    assert fault.core.startswith("aic" if which >= 50 else "aiv")
    assert str(fault).startswith(f"faults.cpp:{line}: {kind}: ")


def test_cross_core_flag_left_behind(faults: Any):
    """A cross-core flag that is set and never waited for would be seen by the next kernel."""
    fault = run(faults, 22)
    assert fault.kind == "flag"
    assert fault.message == (
        "the kernel ended with cross-core flag 2 set by some cores of its group only"
    )
    assert fault.core == "aiv0"


def test_work_before_the_core_is_set_up(faults: Any):
    """The atomic mode must be reset: on the chip it would persist into the next kernel."""
    fault = run(faults, 98)
    assert (fault.kind, fault.message) == ("state", "DataCopy before InitSocState")
    arrays = {"in": np.zeros(1024, np.float32), "out": 4096}
    faults.run(arrays, {"which": 99}, persistent={"windows": bytes(4096)})


def test_crash_is_a_fault(faults: Any):
    """A signal names the core, its marker and the last call."""
    fault = run(faults, 27)
    assert fault.kind == "crash"
    assert fault.marker == 27
    assert "Segmentation fault at address 0x0, in no allocation" in fault.message


def test_private_memory_of_another_rank(faults: Any):
    """Only symmetric memory can be reached from another rank, even with the right address."""
    fault = run(faults, 34)
    assert (fault.kind, fault.rank) == ("address", 1)
    assert fault.message == "DataCopy: write of 'out' of rank 0 + 0, which is private to that rank"


def test_livelock(faults: Any):
    """A loop of calls without end is a livelock."""
    fault = run(faults, 29, steps=10_000)
    assert (fault.kind, fault.message) == ("livelock", "SetValue: no end after 10000 API calls")


def test_endless_loop_without_calls(faults: Any):
    """A loop without calls ends by the time limit only."""
    fault = run(faults, 30, seconds=1)
    assert fault.kind == "timeout"
    assert fault.message.startswith("no end after 1 s; last call InitSocState")
    assert fault.marker == 30


def test_hardware_has_eight_event_ids(faults: Any):
    """The limit comes from the machine; with the chip's own, id 6 is an unwaited flag."""
    assert run(faults, 6, event_ids=8).kind == "flag"
