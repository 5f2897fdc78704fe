"""Mutants of the task table: wrong words behind a right checksum, as a wrong lowering would make.

The IR is right, so only a run can notice.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64

from hpmoe_ir.dialects.queue import POINT_BITS, ProgramOp, events_of
from hpmoe_ir.dialects.tile import buffers_of
from hpmoe_ir.dialects.tile.types import dense_i32
from hpmoe_ir.lowering.plan.sizes import camel
from hpmoe_ir.lowering.task_table import HEADER
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.run.execution import Raw
from mutants.mutant import Change, Code


@dataclass(frozen=True)
class TableChange:
    """One change of the words of a table in place."""

    what: str
    apply: Callable[[Raw], None]
    same: Change | None = None
    """The change of the IR that makes the same table, where there is one: for the oracle."""


TableKind = Callable[[Code], Iterator[TableChange]]
"""All changes of one kind that a table allows."""


def changed_table(table: bytes, change: TableChange) -> bytes:
    """The table with a change and a checksum that fits."""
    words = np.frombuffer(table, dtype="<u4").copy()
    change.apply(words)
    words[HEADER.index("checksum")] = zlib.crc32(words[len(HEADER) :].tobytes())
    return words.tobytes()


def _words(code: Code) -> Raw:
    return np.frombuffer(code.table, dtype="<u4")


def _section(code: Code, name: str) -> int:
    return int(_words(code)[HEADER.index(name)]) // 4


def _add(what: str, at: int, step: int, same: Change | None = None) -> TableChange:
    def change(words: Raw) -> None:
        words[at] = (int(words[at]) + step) % (1 << 32)

    return TableChange(what, change, same)


def _exchange(what: str, one: int, two: int) -> TableChange:
    def change(words: Raw) -> None:
        words[one], words[two] = int(words[two]), int(words[one])

    return TableChange(what, change)


def size_names(code: Code) -> list[str]:
    """Names of the sizes, from the source."""
    start = code.source.index("enum SizeIndex")
    names = code.source[start : code.source.index("}", start)].split("{")[1]
    return [n.strip() for n in names.split(",") if n.strip()]


def _counted(name: str, index: int, step: int) -> Change:
    """The threshold of one event, `step` more."""

    def change(p: ProgramOp) -> None:
        event = events_of(p)[name]
        counts = np.array(event.thresholds, dtype=np.int64)
        counts[index] += step
        event.counts = dense_i32(counts)

    return Change(f"@{name} {index}", change)


def threshold_word(code: Code) -> Iterator[TableChange]:
    """The threshold of one event is one more or one less."""
    first = _section(code, "thresholds")
    for name, event in code.program.events.items():
        assert event.line is not None
        for i in range(event.event_count):
            at = first + event.line.value.data + i
            yield _add(f"@{name} {i} plus 1", at, 1, _counted(name, i, 1))
            yield _add(f"@{name} {i} minus 1", at, -1, _counted(name, i, -1))


def _slots(code: Code, core: CoreKind) -> tuple[int, int, int]:
    """First word of the workers' first slots, of the slots, and number of slots."""
    workers = code.program.orders[core].core_count
    first = _section(code, f"{core}_queues")
    return first, first + workers + 1, int(_words(code)[first + workers])


def slot_word(code: Code) -> Iterator[TableChange]:
    """A slot holds another task, or one that does not exist."""
    for core in code.program.orders:
        _, slots, count = _slots(code, core)
        for i in range(count):
            at = slots + i
            yield _add(f"{core} slot {i}: the next point", at, 1)
            yield _add(f"{core} slot {i}: the next family", at, 1 << POINT_BITS)
            yield _add(f"{core} slot {i}: no family", at, 200 << POINT_BITS)
            if i + 3 < count:
                yield _exchange(f"{core} slots {i} and {i + 3}", at, at + 3)


def queue_bound(code: Code) -> Iterator[TableChange]:
    """A core's queue begins a slot too late or too early; the neighbour's ends there."""
    for core, order in code.program.orders.items():
        first, _, _ = _slots(code, core)
        for worker in range(1, order.core_count + 1):
            yield _add(f"{core} queue {worker} plus 1", first + worker, 1)
            yield _add(f"{core} queue {worker} minus 1", first + worker, -1)


def _is_offset(names: list[str], i: int) -> bool:
    return i + 1 < len(names) and names[i + 1] == f"{names[i]}High"


def size_word(code: Code) -> Iterator[TableChange]:
    """A size, a first counter line or a constant is one more, one less, or 16 more."""
    first, names = _section(code, "sizes"), size_names(code)
    for i, name in enumerate(names):
        if name.endswith("High") or _is_offset(names, i):
            continue
        for step in (1, -1, 16):
            yield _add(f"{name} plus {step}" if step > 0 else f"{name} minus 1", first + i, step)


def _moved(code: Code, size: str, step: int) -> Change | None:
    """The buffer whose offset is a size, `step` bytes later."""
    for name, buffer in code.program.buffers.items():
        if f"k{camel(name)}" == size and buffer.offset is not None:
            offset = IntegerAttr(buffer.offset.value.data + step, i64)

            def change(p: ProgramOp, name: str = name) -> None:
                buffers_of(p)[name].offset = offset

            return Change(f"@{name}", change)
    return None


def offset_word(code: Code) -> Iterator[TableChange]:
    """A buffer starts 64 or 512 bytes later, or far outside the memory."""
    first, names = _section(code, "sizes"), size_names(code)
    for i, name in enumerate(names):
        if _is_offset(names, i):
            for step in (64, 512):
                yield _add(f"{name} plus {step}", first + i, step, _moved(code, name, step))
            yield _add(f"{name} plus 4 GiB", first + i + 1, 1)


def header_word(code: Code) -> Iterator[TableChange]:
    """Other numbers of blocks, ranks or events, or other offsets of sections and counters."""
    for name in ("magic", "version", "ranks", "blocks", "events"):
        yield _add(f"{name} plus 1", HEADER.index(name), 1)
        yield _add(f"{name} minus 1", HEADER.index(name), -1)
    for name in ("sizes", "thresholds", "aic_queues", "aiv_queues", "counters"):
        yield _add(f"{name} 64 bytes later", HEADER.index(name), 64)
    yield _exchange("queues exchanged", HEADER.index("aic_queues"), HEADER.index("aiv_queues"))
