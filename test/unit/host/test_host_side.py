"""The C interface of a layer on fakes: order of calls, launches, errors, what is freed."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from hpmoe_ir.lowering.task_table import HEADER

from .conftest import HostBuild

CREATE = [
    "aclrtGetDevice",
    "aclrtGetDeviceInfo 3 cube",
    "aclrtGetDevice",
    "aclrtGetDeviceInfo 3 vector",
    "aclrtMalloc {table}",
    "  is mem1",
    "aclrtMemcpy {table} of {table} to mem1",
    "aclrtMalloc {workspace}",
    "  is mem2",
    "aclrtMalloc 64",
    "  is mem3",
    "aclrtMemcpy 64 of 64 to mem3",
    "aclshmem_align 512 {windows}",
    "  is symmetric4",
    "aclshmem_ptr symmetric4 of rank 0",
    "aclshmem_ptr symmetric4 of rank 1",
    "aclrtMemset symmetric4+{counters} {counter_bytes} of {counter_bytes} to 0",
    "aclshmem_barrier_all",
    "create: 0",
]

DESTROY = [
    "aclrtSynchronizeDevice",
    "aclshmem_free symmetric4",
    "aclrtFree mem3",
    "aclrtFree mem2",
    "aclrtFree mem1",
    "destroy: 0",
    "live: none",
]


def launch(number: int, tokens: int, x: str = "x") -> list[str]:
    """The record of a launch."""
    return [
        "aclrtGetLastError",
        "launch of 24 blocks in stream",
        f"kernel launch={number} tokens={tokens} x={x} ids=ids gate=gate w13=w13 w2=w2 out=out "
        "status=mem3 table=mem1 workspace=mem2 windows=symmetric4",
        "aclrtGetLastError",
        "launch: 0",
    ]


STATUS = ["aclrtSynchronizeStream stream", "aclrtMemcpy 64 of 64 from mem3"]


def test_order_of_calls(host_build: HostBuild):
    program = host_build.program
    sizes = {
        "table": host_build.table.stat().st_size,
        "workspace": program.workspace_bytes,
        "windows": program.window_bytes,
        "counters": program.counters,
        "counter_bytes": 64 * program.counter_count,
    }
    record = host_build.run(f"create {host_build.table}", "launch 5", "status", "destroy")
    create = [line.format(**sizes) for line in CREATE]
    assert record == [*create, *launch(1, 5), *STATUS, "status: 0", *DESTROY]


def test_counters_are_zeroed_and_nothing_else(host_build: HostBuild):
    first, size = host_build.program.counters, 64 * host_build.program.counter_count
    record = host_build.created(
        f"word symmetric4 {first - 4}",
        f"word symmetric4 {first}",
        f"word symmetric4 {first + size - 4}",
    )
    assert record[:3] == [
        f"symmetric4+{first - 4}: a5a5a5a5",
        f"symmetric4+{first}: 00000000",
        f"symmetric4+{first + size - 4}: 00000000",
    ]


def test_launches_are_numbered_by_the_handle(host_build: HostBuild):
    record = host_build.created("launch 64", "launch 1", "launch 0", "destroy")
    assert record == [*launch(1, 64), *launch(2, 1), *launch(3, 0), *DESTROY]


def test_a_refused_launch_takes_no_number(host_build: HostBuild):
    record = host_build.created("launch 65", "launch 1 w13", "launch 0 out x", "destroy")
    assert record[:2] == [
        "launch: 1: moe_layer: expected at most 64 tokens, found 65",
        "launch: 1: moe_layer: w13: expected an address in device memory, found a null pointer",
    ]
    # Without tokens, buffers with a row for each token may be null.
    assert record[2:] == [
        "aclrtGetLastError",
        "launch of 24 blocks in stream",
        "kernel launch=1 tokens=0 x=null ids=ids gate=gate w13=w13 w2=w2 out=null status=mem3 "
        "table=mem1 workspace=mem2 windows=symmetric4",
        "aclrtGetLastError",
        "launch: 0",
        *DESTROY,
    ]


@pytest.mark.parametrize("name", ["x", "ids", "gate", "w13", "w2", "out"])
def test_null_buffers_are_refused(host_build: HostBuild, name: str):
    assert host_build.created(f"launch 1 {name}")[0] == (
        f"launch: 1: moe_layer: {name}: expected an address in device memory, found a null pointer"
    )


def test_over_capacity_is_an_error_that_ends_nothing(host_build: HostBuild):
    record = host_build.created(
        "kernel-status 1 1 300 256", "launch 9", "status", "kernel-status 0 0 0 0", "launch 9",
        "status", "destroy",
    )  # fmt: skip
    assert record == [
        *launch(1, 9),
        *STATUS,
        "status: 2: moe_layer: launch 1: rank 1 would receive 300 rows, its capacity is 256 rows; "
        "every rank stopped before anything was sent",
        *launch(2, 9),
        *STATUS,
        "status: 0",
        *DESTROY,
    ]


def test_no_status_before_a_launch(host_build: HostBuild):
    expected = "status: 1: moe_layer: has no status before the first launch"
    assert host_build.created("status")[0] == expected


BROKEN = [
    (
        ["launch-error 507899", "launch 1"],
        "launch",
        "launch 1 failed with ACL error 507899",
    ),
    (
        ["launch 1", "fail aclrtSynchronizeStream 507011 0", "status"],
        "status",
        "aclrtSynchronizeStream after launch 1 failed with ACL error 507011: no luck",
    ),
    (
        ["launch 1", "fail aclrtMemcpy 107002 0", "status"],
        "status",
        "aclrtMemcpy of the status from the device failed with ACL error 107002: no luck",
    ),
    (
        ["kernel-status -1 0 0 0", "launch 1", "status"],
        "status",
        "launch 1 wrote status -1, expected 0 or 1",
    ),
]


@pytest.mark.parametrize(("commands", "call", "text"), BROKEN)
def test_a_broken_launch_is_the_last(
    host_build: HostBuild, commands: list[str], call: str, text: str
):
    record = host_build.created(*commands, "launch 1", "status", "destroy")
    failed = record.index(f"{call}: 1: moe_layer: {text}")
    assert record[failed + 1 :] == [
        f"launch: 1: moe_layer: can't be launched any more, since {text}",
        f"status: 1: moe_layer: has no status, since {text}",
        *DESTROY,
    ]


def test_an_error_from_before_is_not_the_launch_s(host_build: HostBuild):
    assert host_build.created("last-error 107000", "launch 5", "destroy") == [
        *launch(1, 5),
        *DESTROY,
    ]


CREATE_FAILURES = [
    ("aclrtGetDevice", 0, "aclrtGetDevice"),
    ("aclrtGetDeviceInfo", 0, "aclrtGetDeviceInfo of the number of AIC cores"),
    ("aclrtGetDeviceInfo", 1, "aclrtGetDeviceInfo of the number of AIV cores"),
    ("aclrtMalloc", 0, "aclrtMalloc of {table} bytes for the task table"),
    ("aclrtMemcpy", 0, "aclrtMemcpy of the task table to the device"),
    ("aclrtMalloc", 1, "aclrtMalloc of {workspace} bytes for the workspace"),
    ("aclrtMalloc", 2, "aclrtMalloc of 64 bytes for the status"),
    ("aclrtMemcpy", 1, "aclrtMemcpy of the status to the device"),
    ("aclrtMemset", 0, "aclrtMemset of the counters"),
]


@pytest.mark.parametrize(("call", "before", "text"), CREATE_FAILURES)
def test_failure_of_a_call_of_create(host_build: HostBuild, call: str, before: int, text: str):
    record = host_build.run(f"fail {call} 207001 {before}", f"create {host_build.table}", "destroy")
    what = text.format(
        table=host_build.table.stat().st_size, workspace=host_build.program.workspace_bytes
    )
    expected = f"create: 1: moe_layer: {what} failed with ACL error 207001: no luck"
    # There is no handle, and all memory is freed.
    assert record[-3:] == [expected, "destroy: 0", "live: none"]
    assert "aclshmem_barrier_all" not in record
    assert sum(line.endswith(" fails") for line in record) == 1


def test_no_room_in_symmetric_memory(host_build: HostBuild):
    record = host_build.run("fail aclshmem_align 1 0", f"create {host_build.table}")
    windows = host_build.program.window_bytes
    assert record[-2:] == [
        f"create: 1: moe_layer: aclshmem_align of {windows} bytes for the windows failed: the "
        "symmetric memory is used up, or another rank did not take part",
        "live: none",
    ]


@pytest.mark.parametrize("rank", range(2))
def test_a_rank_out_of_reach(host_build: HostBuild, rank: int):
    record = host_build.run(f"fail aclshmem_ptr 1 {rank}", f"create {host_build.table}")
    assert record[-2:] == [
        f"create: 1: moe_layer: the windows of rank {rank} are out of reach: aclshmem_ptr has no "
        "address for them on this device",
        "live: none",
    ]
    assert "aclshmem_barrier_all" not in record


UNFIT = [
    ("cores 20 48", "the task table needs 24 AIC cores, device 3 has 20"),
    ("cores 24 40", "the task table needs 48 AIV cores, device 3 has 40"),
]


@pytest.mark.parametrize(("command", "text"), UNFIT)
def test_a_device_with_too_few_cores(host_build: HostBuild, command: str, text: str):
    record = host_build.run(command, f"create {host_build.table}")
    assert record[-2] == f"create: 1: moe_layer: {text}; compile with its machine description"
    assert not any(line.startswith(("aclrtMalloc", "aclshmem")) for line in record)


def test_a_device_with_more_cores(host_build: HostBuild):
    assert "create: 0" in host_build.run("cores 25 50", f"create {host_build.table}", "destroy")


def test_the_ranks_must_be_those_of_the_table(host_build: HostBuild):
    record = host_build.run("ranks 4", f"create {host_build.table}")
    assert record[-2] == ("create: 1: moe_layer: compiled for 2 ranks, the symmetric memory has 4")
    record = host_build.run("shmem-status 1", f"create {host_build.table}")
    assert record[-2] == (
        "create: 1: moe_layer: the symmetric memory is not initialised, aclshmemx_init_status "
        "says 1"
    )


def changed(table: bytes, word: str, value: int) -> bytes:
    """A table with another word in its header."""
    words = np.frombuffer(table, dtype="<u4").copy()
    words[HEADER.index(word)] = value
    return words.tobytes()


def broken_tables(table: bytes) -> list[tuple[bytes, str]]:
    """Tables that must be refused, and the messages."""
    flipped = bytearray(table)
    flipped[-1] ^= 1
    found = zlib.crc32(table[64:])
    other = zlib.crc32(bytes(flipped[64:]))
    return [
        (table[:1], "expected at least the 64 bytes of its header, found 1"),
        (table[:63], "expected at least the 64 bytes of its header, found 63"),
        (changed(table, "magic", 1), "magic: expected 0x544d5048, found 0x00000001"),
        (changed(table, "version", 2), "version: expected 1, found 2"),
        (
            table[:-4],
            f"bytes: expected {len(table)} as its header says, found {len(table) - 4}",
        ),
        (
            table + bytes(4),
            f"bytes: expected {len(table)} as its header says, found {len(table) + 4}",
        ),
        (bytes(flipped), f"checksum: expected 0x{other:08x}, found 0x{found:08x}"),
        (changed(table, "ranks", 4), "ranks: expected 2, found 4"),
        (changed(table, "blocks", 20), "blocks: expected 24, found 20"),
        (changed(table, "reserved", 7), "reserved: expected 0, found 7"),
        # Intact, but of another layer.
        (
            changed(bytes(flipped), "checksum", other),
            f"checksum: expected 0x{found:08x}, found 0x{other:08x}",
        ),
    ]


@pytest.mark.parametrize("case", range(11))
def test_a_wrong_table_is_refused(host_build: HostBuild, tmp_path: Path, case: int):
    data, text = broken_tables(host_build.table.read_bytes())[case]
    path = tmp_path / "table.bin"
    path.write_bytes(data)
    # Refused before any call of the runtime.
    assert host_build.run(f"create {path}") == [
        f"create: 1: moe_layer: task table: {text}",
        "live: none",
    ]


@pytest.mark.parametrize("before", range(3))
def test_destroy_frees_all_that_it_can(host_build: HostBuild, before: int):
    record = host_build.created(f"fail aclrtFree 507000 {before}", "destroy")
    kept, name = [("mem3", "status"), ("mem2", "workspace"), ("mem1", "task table")][before]
    assert record[-2:] == [
        f"destroy: 1: moe_layer: aclrtFree of the {name} failed with ACL error 507000: no luck",
        f"live: {kept}",
    ]


def test_destroy_reports_what_went_wrong_on_the_device(host_build: HostBuild):
    record = host_build.created("fail aclrtSynchronizeDevice 507015 0", "launch 1", "destroy")
    assert record[-2:] == [
        "destroy: 1: moe_layer: aclrtSynchronizeDevice failed with ACL error 507015: no luck",
        "live: none",
    ]


def test_null_pointers(host_build: HostBuild):
    assert host_build.run("create-null", "launch 1", "status", "destroy") == [
        "create: 1: moe_layer: task table: expected its bytes, found a null pointer",
        "create: 1: moe_layer_create: handle: found a null pointer",
        "launch: 1: moe_layer_launch: handle: found a null pointer",
        "status: 1: moe_layer_status: handle: found a null pointer",
        "destroy: 0",
        "live: none",
    ]
    record = host_build.created("launch-null")
    assert record[0] == "launch: 1: moe_layer_launch: arguments: found a null pointer"


def test_symmetric_bytes_hold_the_windows_at_any_place(host_build: HostBuild):
    assert host_build.run("symmetric-bytes")[0] == str(host_build.program.window_bytes + 512)
