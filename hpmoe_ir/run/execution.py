"""Execution of generated device source on the CPU model, with all ranks in one process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.dialects.index import evaluate_index, flat_events
from hpmoe_ir.dialects.queue import POINT_BITS, POINT_MASK
from hpmoe_ir.dialects.tile import (
    BufferOp,
    MemorySpace,
    buffer_bytes,
    buffer_type,
    copy_bytes,
    element_bytes,
)
from hpmoe_ir.lowering.program import LoweredProgram
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.output import write_file
from hpmoe_ir.runtime.cpu_build import KernelEntry, build, cache_dir
from hpmoe_ir.runtime.cpu_model import Counters, EventCounter, MemoryModel, RankLaunch, execute
from hpmoe_ir.runtime.device_fault import MAX_WAITING, DeviceFault, MemoryRange, Waiting
from hpmoe_ir.runtime.task_records import Records

Raw: TypeAlias = np.ndarray[Any, np.dtype[Any]]

DEVICE_INCLUDE = Path(__file__).parents[1] / "runtime" / "device"
"""Include directory of the device headers, which are in its subdirectory `hpmoe/`."""


class ExecutionError(ValueError):
    """Inputs that do not match the program's buffers."""


@dataclass(frozen=True)
class RankInputs:
    """Inputs of one rank for one launch: raw arrays by buffer name, and the number of tokens."""

    arrays: Mapping[str, Raw]
    tokens: int


def kernel_entry(program: LoweredProgram) -> KernelEntry:
    """Returns the C++ signature of the generated kernel."""
    pointers = [b.sym_name.data for b in program.arguments]
    return KernelEntry(
        program.name, (*pointers, "table", "workspace", "windows"), ("tokens", "launch")
    )


def build_program(
    program: LoweredProgram, source: str, *, quick: bool = False, sanitize: bool = False
) -> Path:
    """Compiles the device source against the CPU model; the executable is cached by content.

    `quick` disables optimization, for sources that run once. `sanitize` enables the address and
    undefined-behaviour sanitizers. Raises CompilerMissing, CompileError, or InputError if the cache
    can't be written.
    """
    directory = cache_dir() / "sources"
    path = directory / f"{program.name}-{hashlib.sha256(source.encode()).hexdigest()[:16]}.cpp"
    functions = (family.find_kernel().ascendc for family in program.families.values())
    extra = {function.include for function in functions if function.include is not None}
    include = [DEVICE_INCLUDE, *sorted(extra)]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != source.encode():
            # Atomic: another process never sees a partial file.
            write_file(path, source.encode())
        return build(path, kernel_entry(program), include, quick=quick, sanitize=sanitize)
    except OSError as e:
        raise InputError(
            f"can't keep built files here, see $HPMOE_CACHE: {e.strerror}", str(cache_dir())
        ) from e


def run_program(
    program: LoweredProgram,
    executable: Path,
    table: bytes,
    launches: Sequence[Sequence[RankInputs]],
    seed: int = 0,
    read_back: tuple[str, ...] = (),
    late: Sequence[int] = (),
    memory: MemoryModel = "strong",
    checks: bool = True,
    trace: list[Records] | None = None,
) -> list[list[dict[str, Raw]]]:
    """Runs all launches and returns the raw arrays by output buffer for each launch and rank.

    `launches[n][r]` are the inputs of rank r in launch n; outputs with token rows have the rank's
    number of tokens. `read_back` also returns the bytes of "workspace" or "windows" after each
    launch. `seed` determines the order of the cores; ranks in `late` run only while no other rank
    can. `memory`: when writes to global memory become visible. `checks`: whether to detect races.
    `trace`: a list to which the records of all tasks are appended. Raises DeviceFault with the
    names of the tasks involved, or ExecutionError if inputs do not match the buffers.
    """
    runs = [
        [_rank_launch(program, inputs, number) for inputs in launch]
        for number, launch in enumerate(launches, start=1)
    ]
    windows = program.window_bytes
    image = _initial_windows(program, windows)
    try:
        results = execute(
            executable,
            kernel_entry(program),
            runs,
            {"table": table, "workspace": program.workspace_bytes, "windows": image},
            aics=program.orders[CoreKind.AIC].core_count,
            machine=program.machine,
            seed=seed,
            late=late,
            read_back=read_back,
            counters=event_counters(program),
            memory=memory,
            checks=checks,
            trace=trace,
        )
    except DeviceFault as fault:
        raise name_tasks(program, fault) from None
    return [
        [
            {
                b.sym_name.data: _shaped(b, result[b.sym_name.data], inputs.tokens)
                for b in program.results
            }
            | {name: result[name] for name in read_back}
            for result, inputs in zip(by_rank, launch, strict=True)
        ]
        for by_rank, launch in zip(results, launches, strict=True)
    ]


def event_counters(program: LoweredProgram) -> Counters:
    """Returns the counters of the program's events, ordered by event number."""
    line_bytes = program.machine.counter_line
    found: list[tuple[int, EventCounter]] = []
    for name, event in program.events.items():
        waited = [_waited_events(program, name, rank) for rank in range(program.ranks)]
        copies, thresholds = event.copy_count, event.thresholds.tolist()
        for copy, index in product(range(copies), range(len(thresholds))):
            number = event.first_line(copy) + index
            offset = program.counters + number * line_bytes
            unwaited = tuple(r for r, events in enumerate(waited) if index not in events)
            counter = EventCounter(name, index, offset, thresholds[index], unwaited, copies, copy)
            found.append((number, counter))
    found.sort(key=lambda numbered: numbered[0])
    events = tuple(counter for _, counter in found)
    return Counters("windows", "launch", events, program.given_up)


def _waited_events(program: LoweredProgram, name: str, rank: int) -> set[int]:
    """Returns the indices of events of family `name` that any task of `rank` waits for."""
    found: set[int] = set()
    for wait in program.waits:
        if wait.event_name == name:
            family = program.families[wait.family_name]
            extents = program.events[name].extents
            if wait.event_range is not None:
                return set(range(program.events[name].event_count))
            points = family.coordinates()
            flat = flat_events(wait.index_exprs, extents, points, rank, family.task_count)
            found.update(flat.tolist())
    return found


MARK = 0x7FBD7FBD
"""Fill word of unwritten memory: NaN as f32 and, in both halves, as bf16 and f16."""


def _initial_windows(program: LoweredProgram, size: int) -> bytes:
    """Returns window memory before the first launch: NaN words, except that the counters and the
    lines after them are 0."""
    words = np.full(size // 4, MARK, dtype="<u4")
    begin = program.counters // 4
    bytes_of_counters = program.counter_count * program.machine.counter_line
    words[begin : begin + (bytes_of_counters + program.given_up_bytes) // 4] = 0
    return words.tobytes()


def _shape(buffer: BufferOp, tokens: int) -> tuple[int, ...]:
    type = buffer_type(buffer)
    return (tokens, *type.dims[1:]) if type.rows.data == "tokens" else type.dims


def _rank_launch(program: LoweredProgram, inputs: RankInputs, number: int) -> RankLaunch:
    arrays: dict[str, Raw | int] = {}
    for buffer in program.arguments:
        name = buffer.sym_name.data
        shape = _shape(buffer, inputs.tokens)
        size = element_bytes(buffer_type(buffer).element_type)
        if buffer.space.data is MemorySpace.OUTPUT:
            arrays[name] = int(np.prod(shape, dtype=np.int64)) * size
            continue
        if name not in inputs.arrays:
            raise ExecutionError(f"no value for input @{name}")
        value = inputs.arrays[name]
        if value.shape != shape or value.dtype.itemsize != size:
            raise ExecutionError(
                f"@{name}: expected {size}-byte elements of shape {list(shape)}, found "
                f"{value.dtype} {list(value.shape)}"
            )
        arrays[name] = value
    in_out = tuple(b.sym_name.data for b in program.in_space(MemorySpace.INOUT))
    return RankLaunch(arrays, {"tokens": inputs.tokens, "launch": number}, in_out)


def _shaped(buffer: BufferOp, data: Raw, tokens: int) -> Raw:
    size = element_bytes(buffer_type(buffer).element_type)
    return data.view({2: np.uint16, 4: np.uint32}[size]).reshape(_shape(buffer, tokens))


def task_name(program: LoweredProgram, marker: int) -> str:
    """Returns the name of the task with this marker, such as `@matmul (0, 1, 0, 3)`."""
    families = list(program.families.values())
    number, point = marker >> POINT_BITS, marker & POINT_MASK
    if number >= len(families) or point >= families[number].task_count:
        return f"task {marker:#x}"
    family = families[number]
    coords = np.unravel_index(point, family.extents) if family.extents else ()
    return f"@{family.sym_name.data} ({', '.join(str(int(c)) for c in coords)})"


def name_tasks(program: LoweredProgram, fault: DeviceFault) -> DeviceFault:
    """Adds names to a fault: its tasks, the buffer of a conflicting access and, for waiting cores,
    the event and its producers."""
    lines: list[str] = []
    if fault.marker is not None and not fault.waits:
        lines.append(f"in {task_name(program, fault.marker)} on rank {fault.rank} {fault.core}")
    if (other := fault.other) is not None and other.marker is not None:
        name = task_name(program, other.marker)
        lines.append(f"the other in {name} on rank {other.rank} {other.core}")
    if fault.memory is not None and (place := _buffer_at(program, fault.memory)) is not None:
        lines.append(f"at {place} of rank {fault.memory.rank}")
    return DeviceFault(
        fault.kind,
        "\n  ".join([fault.message, *lines]),
        rank=fault.rank,
        core=fault.core,
        marker=fault.marker,
        location=fault.location,
        waiting=[
            *(_name_waiting(program, waiting) for waiting in fault.waiting[:MAX_WAITING]),
            *fault.waiting[MAX_WAITING:],
        ],
        other=fault.other,
        memory=fault.memory,
    )


def _name_waiting(program: LoweredProgram, waiting: Waiting) -> Waiting:
    """Adds the names of the task and of the event to a waiting core."""
    if waiting.marker is None:
        return waiting
    named = replace(waiting, task=task_name(program, waiting.marker))
    event = _event_at(program, waiting.allocation, waiting.offset)
    if event is None:
        return named
    name, index, threshold = event
    return replace(
        named,
        event=f"event {index} of @{name}: {waiting.memory} signals so far, {threshold} in each "
        f"launch; {_producers(program, name, index, waiting.rank)}",
    )


def _buffer_at(program: LoweredProgram, memory: MemoryRange) -> str | None:
    """Returns the buffer and byte offset, as in `@rows + 96`, of workspace or window memory.

    Names all buffers that share the memory; a counter is named by its event. None if no buffer is
    there.
    """
    event = _event_at(program, memory.allocation, memory.begin)
    if event is not None:
        return f"the counter of event {event[1]} of @{event[0]}"
    spaces = {"workspace": MemorySpace.WORKSPACE, "windows": MemorySpace.WINDOW}
    space = spaces.get(memory.allocation)
    found: list[str] = []
    for buffer in program.in_space(space) if space is not None else ():
        assert buffer.offset is not None
        inside = memory.begin - buffer.offset.value.data
        if not 0 <= inside < buffer_bytes(buffer):
            continue
        copy, at = divmod(inside, copy_bytes(buffer))
        which = f"copy {copy} of " if buffer.copies.value.data > 1 else ""
        found.append(f"{which}@{buffer.sym_name.data} + {at}")
    return " or ".join(found) or None


def _event_at(program: LoweredProgram, allocation: str, offset: int) -> tuple[str, int, int] | None:
    if allocation != "windows" or offset < program.counters:
        return None
    line = (offset - program.counters) // program.machine.counter_line
    for name, event in program.events.items():
        place = line - event.first_line(0)
        if 0 <= place < event.line_count:
            index = place % event.event_count
            return name, index, int(event.thresholds[index])
    return None


def _producers(program: LoweredProgram, event_name: str, index: int, rank: int) -> str:
    """Describes the tasks that signal an event of `rank`: their number and the first one."""
    event = program.events[event_name]
    for signal in program.signals:
        if signal.event_name != event_name:
            continue
        family = program.families[signal.family_name]
        points = family.coordinates()
        found: list[tuple[int, int]] = []
        for source in range(program.ranks):
            flat = flat_events(signal.index_exprs, event.extents, points, source, family.task_count)
            owner = source
            if signal.peer_expr is not None:
                owner = evaluate_index(signal.peer_expr, points, source)
            hits = np.flatnonzero((flat == index) & np.broadcast_to(owner == rank, flat.shape))
            found += [(source, int(p)) for p in hits]
        if found:
            source, point = found[0]
            number = list(program.families).index(signal.family_name)
            first = task_name(program, (number << POINT_BITS) + point)
            text = f"signalled by {first} on rank {source}"
            if len(found) > 1:
                text = f"signalled by {len(found)} tasks, such as {first} on rank {source}"
            if signal.credit_name is not None:
                text += f"; @{signal.credit_name} on rank {rank} counts those without rows"
            return text
    return "signalled by no task"
