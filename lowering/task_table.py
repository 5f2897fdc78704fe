"""`task-table`: queues, thresholds and sizes of a queue program, in the format the device reads.

Little-endian 32-bit words; sections begin at multiples of 64 bytes.

| section    | content |
| ---------- | ------- |
| header     | 16 words, see `HEADER` |
| sizes      | uint32 each, in the order of the device source's `SizeIndex` |
| thresholds | int32 for each counter: signals in a launch that uses it |
| AIC queues | uint32 first[workers + 1], then slots of all workers |
| AIV queues | the same |

A slot is 4 bytes: the number of the family (the index of its `tile.tasks` in the program) in the
upper 8 bits, the row-major number of the grid point in the lower 24.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.lowering.binary_target import BinaryTarget
from hpmoe_ir.lowering.plan.program import ProgramPlan, plan_program
from hpmoe_ir.lowering.program import lowered_program
from hpmoe_ir.machines.core_kind import CoreKind

MAGIC = 0x544D5048
"""The bytes `HPMT`."""

VERSION = 1

HEADER = (
    "magic",
    "version",
    "bytes",
    "ranks",
    "blocks",
    "families",
    "events",
    "tasks",
    "sizes",
    "size_count",
    "thresholds",
    "aic_queues",
    "aiv_queues",
    "counters",
    "checksum",
    "reserved",
)
"""Words of the header. Sections are given by byte offset; `counters` is the number of 64-byte lines
in the window memory before the events' counters, `events` the number of counters; `checksum` is
the CRC-32 of all bytes after the header."""

ALIGNMENT = 64


class TableError(ValueError):
    """An invalid task table; the message says why."""


@dataclass(frozen=True)
class TaskTableTarget(BinaryTarget):
    """Writes the task table that the generated kernel reads.

    Needs a `queue.program` with planned memory and allocated events.
    """

    name = "task-table"

    program: str = ""
    """Name of the program, for a module with several."""

    def encode(self, ctx: Context, module: ModuleOp) -> bytes:
        return task_table(plan_program(lowered_program(module, self.name, self.program)))


def task_table(plan: ProgramPlan) -> bytes:
    """Returns the bytes of the table of a program."""
    sections = {
        "sizes": np.array([size.value for size in plan.sizes], dtype=np.uint32),
        "thresholds": plan.thresholds.astype(np.uint32),
        "aic_queues": _words(plan, CoreKind.AIC),
        "aiv_queues": _words(plan, CoreKind.AIV),
    }
    body = bytearray()
    offsets: dict[str, int] = {}
    start = 4 * len(HEADER)
    for name, words in sections.items():
        offsets[name] = start + len(body)
        data = words.astype("<u4").tobytes()
        body += data + bytes(-len(data) % ALIGNMENT)
    header = {
        "magic": MAGIC,
        "version": VERSION,
        "bytes": start + len(body),
        "ranks": plan.program.ranks,
        "blocks": plan.queues[CoreKind.AIC].worker_count,
        "families": len(plan.families),
        "events": len(plan.thresholds),
        "tasks": plan.task_count,
        "size_count": len(sections["sizes"]),
        "counters": plan.first_counter_line,
        "checksum": zlib.crc32(bytes(body)),
        "reserved": 0,
        **offsets,
    }
    return np.array([header[name] for name in HEADER], dtype="<u4").tobytes() + bytes(body)


def _words(plan: ProgramPlan, core: CoreKind) -> IntArray:
    queue = plan.queues[core]
    return np.concatenate([queue.first, queue.slots])


@dataclass(frozen=True)
class TaskTable:
    """The contents of a task table, as read by `read_task_table`."""

    header: dict[str, int]
    sizes: IntArray
    thresholds: IntArray
    queues: dict[CoreKind, list[IntArray]]
    """The slots of each worker, by kind of core."""


def read_task_table(data: bytes) -> TaskTable:
    """Reads a table; raises TableError for invalid bytes."""
    if len(data) < 4 * len(HEADER) or len(data) % 4:
        raise TableError(f"a task table has a header of {4 * len(HEADER)} bytes, found {len(data)}")
    words = np.frombuffer(data, dtype="<u4").astype(np.int64)
    header: dict[str, int] = dict(zip(HEADER, words.tolist(), strict=False))
    for name, expected in (("magic", MAGIC), ("version", VERSION), ("bytes", len(data))):
        if header[name] != expected:
            raise TableError(f"{name}: expected {expected:#x}, found {header[name]:#x}")
    checksum = zlib.crc32(data[4 * len(HEADER) :])
    if checksum != header["checksum"]:
        raise TableError(f"checksum: expected {checksum:#x}, found {header['checksum']:#x}")

    def section(name: str, count: int) -> IntArray:
        start = header[name] // 4
        if header[name] % ALIGNMENT or start + count > len(words):
            raise TableError(f"{name}: {count} words at byte {header[name]} are not in the table")
        return words[start : start + count]

    queues: dict[CoreKind, list[IntArray]] = {}
    for core, workers in ((CoreKind.AIC, header["blocks"]), (CoreKind.AIV, 2 * header["blocks"])):
        first = section(f"{core}_queues", workers + 1)
        if first[0] != 0 or (np.diff(first) < 0).any():
            raise TableError(f"{core}_queues: the first slots of the workers do not ascend")
        slots = section(f"{core}_queues", workers + 1 + int(first[-1]))[workers + 1 :]
        queues[core] = [slots[a:b] for a, b in pairwise(first)]
        unknown = slots[slots >> POINT_BITS >= header["families"]]
        if len(unknown):
            raise TableError(
                f"{core}_queues: expected tasks of families 0 to {header['families'] - 1}, found "
                f"one of family {unknown[0] >> POINT_BITS}"
            )
    found = sum(len(queue) for by_worker in queues.values() for queue in by_worker)
    if found != header["tasks"]:
        raise TableError(f"tasks: expected {header['tasks']} in all queues, found {found}")
    return TaskTable(
        header,
        section("sizes", header["size_count"]),
        section("thresholds", header["events"]),
        queues,
    )
