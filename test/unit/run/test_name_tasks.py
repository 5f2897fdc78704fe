"""Reports of the CPU model in the program's words: tasks, buffers and events instead of numbers."""

from __future__ import annotations

import pytest

from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.dialects.tile import MemorySpace
from hpmoe_ir.driver.compiled_files import read_compiled
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.lowering.program import LoweredProgram
from hpmoe_ir.run.execution import name_tasks
from hpmoe_ir.runtime.device_fault import MAX_WAITING, DeviceFault, MemoryRange, Party, Waiting
from hpmoe_ir.tools.hpmoe import main


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> LoweredProgram:
    """The forward program of a small layer on two ranks."""
    directory = tmp_path_factory.mktemp("layer")
    with pytest.raises(SystemExit) as stop:
        main(["compile", "--preset", "deepseek-v3-tiny", "--ranks", "2", "-o", str(directory)])
    assert stop.value.code == 0
    return read_compiled(make_context(), directory)[0].kernels["moe_layer"].program


def race(program: LoweredProgram, allocation: str, begin: int) -> DeviceFault:
    """A race between the first tasks of the first two families about four bytes."""
    other = Party(1, "aiv3", 1 << POINT_BITS, "b.h:2", "DataCopy")
    memory = MemoryRange(allocation, 1, begin, begin + 4)
    fault = DeviceFault(
        "race", "read", rank=0, core="aiv0", marker=0, location="a.h:1", other=other, memory=memory
    )
    return name_tasks(program, fault)


def test_both_tasks_and_the_buffer(program: LoweredProgram):
    """The task of either call, and the bytes' place in their buffer and its copy."""
    first, second = list(program.families)[:2]
    doubled = next(b for b in program.in_space(MemorySpace.WINDOW) if b.copies.value.data == 2)
    assert doubled.offset is not None
    fault = race(program, "windows", doubled.offset.value.data + 8)
    lines = fault.message.splitlines()
    assert lines[0] == "read"
    assert lines[1].startswith(f"  in @{first} (0")
    assert lines[1].endswith("on rank 0 aiv0")
    assert lines[2].startswith(f"  the other in @{second} (0")
    assert lines[2].endswith("on rank 1 aiv3")
    assert lines[3] == f"  at copy 0 of @{doubled.sym_name.data} + 8 of rank 1"
    assert fault.other is not None
    assert "the other: DataCopy of rank 1 aiv3" in str(fault)


def test_a_counter_is_named_by_its_event(program: LoweredProgram):
    """The second line of the counters is the second event."""
    line = program.machine.counter_line
    name, event = next((n, e) for n, e in program.events.items() if e.event_count > 1)
    assert event.line is not None
    at = program.counters + (event.line.value.data + 1) * line
    assert f"at the counter of event 1 of @{name} of rank 1" in race(program, "windows", at).message


def waiting(core: str, marker: int | None, allocation: str, offset: int, reason: str) -> Waiting:
    """A core of rank 1 that has seen 2 where 3 is now."""
    return Waiting(1, core, marker, allocation, offset, 2, 3, reason, "a.h:1")


def test_a_line_for_each_waiting_core(program: LoweredProgram):
    """In the program's words where there are such, else in the chip's."""
    line = program.machine.counter_line
    name, event = next((n, e) for n, e in program.events.items() if n == "dispatch_done")
    assert event.line is not None
    at = program.counters + event.line.value.data * line
    first = next(iter(program.families))
    cores = [
        waiting("aiv0", 0, "windows", at, "GetValue"),
        waiting("aiv1", 0, "windows", 64, "GetValue"),
        waiting("aiv2", 0, "cross-core flag", 5, "CrossCoreWaitFlag"),
        waiting("aiv3", None, "SyncAll", 0, "SyncAll"),
        *(waiting("aic0", None, "windows", 64, "GetValue") for _ in range(5)),
    ]
    fault = DeviceFault(
        "deadlock", "no core", rank=1, core="aiv0", marker=0, location="a.h:1", waiting=cores
    )
    text = name_tasks(program, fault)
    header, named, *others = str(text).splitlines()
    # The core at fault is the first of them.
    assert header == "a.h:1: deadlock: no core"
    assert named.startswith(
        f"  @{first} (0) on rank 1 aiv0 waits for event 0 of @{name}: 3 signals"
    )
    assert named.endswith("; saw 2 (a.h:1)")
    last = "  rank 1 aic0 waits in GetValue for windows + 64, saw 2, memory holds 3 (a.h:1)"
    assert others == [
        f"  @{first} (0) on rank 1 aiv1 waits in GetValue for windows + 64, saw 2, memory holds 3 "
        "(a.h:1)",
        f"  @{first} (0) on rank 1 aiv2 waits in CrossCoreWaitFlag for flag 5 (a.h:1)",
        "  rank 1 aiv3 waits in SyncAll for all cores (a.h:1)",
        *[last] * (MAX_WAITING - 4),
        f"  and {len(cores) - MAX_WAITING} more",
    ]


def test_memory_without_buffers(program: LoweredProgram):
    """Of a local memory only the tasks are named."""
    assert " at " not in race(program, "UB", 64).message
