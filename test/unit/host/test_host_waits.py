"""Reports of the host when a wait of the kernel has exceeded its budget."""

from __future__ import annotations

import pytest

from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.passes.set_waits import SetWaitsPass

from .conftest import LAYER, HostBuild, build_host, lowered


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> HostBuild:
    """The small layer with a budget for its waits."""
    program = lowered(LAYER, SetWaitsPass(budget=50_000_000))
    return build_host(program, tmp_path_factory.mktemp("bounded"))


def test_lines_are_zeroed_with_the_counters(bounded: HostBuild):
    program = bounded.program
    size = 64 * program.counter_count + 64 * 72
    record = bounded.run(f"create {bounded.table}", "destroy")
    start = f"aclrtMemset symmetric4+{program.counters} "
    assert start + f"{size} of {size} to 0" in record
    assert program.window_bytes == program.counters + size


def test_event_and_task_are_named(bounded: HostBuild):
    """Two cores gave up in this launch; the line of a third is of another launch."""
    program = bounded.program
    given_up = program.given_up
    assert given_up is not None
    swiglu = list(program.families).index("swiglu")
    point = program.families["swiglu"].task_count - 1
    event = program.events["matmul_done"]
    assert event.line is not None
    number = event.line.value.data + event.event_count - 1
    slot = (swiglu << POINT_BITS) + point
    record = bounded.created(
        "launch 1",
        f"set-words symmetric4 {given_up + 3 * 64} 1 0 0 2 0",
        f"set-words symmetric4 {given_up + 7 * 64} 9 0 0 2 0",
        f"set-words symmetric4 {given_up + 25 * 64} 1 {number} 3 4 {slot}",
        "fail aclrtSynchronizeStream 507015 0",
        "status",
    )
    first = next(iter(program.events))
    last = ", ".join(str(n - 1) for n in program.families["swiglu"].extents)
    failed = "status: 1: moe_layer: aclrtSynchronizeStream after launch 1 failed with ACL error"
    assert any(line.startswith(failed) for line in record)
    (task,) = (line for line in record if line.startswith("aic3 gave up in @"))
    assert task.endswith(f": waited for event 0 of @{first}, saw 0, expected 2")
    assert (
        f"aiv1 gave up in @swiglu ({last}): waited for event {event.event_count - 1} of "
        "@matmul_done, saw 3, expected 4"
    ) in record
    assert not any(line.startswith("aic7 ") for line in record)


def test_a_device_that_does_not_answer(bounded: HostBuild):
    """Without a readable device the report is the failure alone."""
    record = bounded.created(
        "launch 1",
        "fail aclrtSynchronizeStream 507015 0",
        "fail aclrtMemcpy 507015 0",
        "status",
    )
    assert any(line.startswith("status: 1: ") for line in record)
    assert not any("gave up" in line for line in record)
