"""Runs device code on the CPU model; returns output arrays or raises a DeviceFault."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import TypeVar

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.machines.machine import SYSTEM_RESERVED, Machine
from hpmoe_ir.runtime.cpu_build import KernelEntry
from hpmoe_ir.runtime.device_fault import DeviceFault, read_fault
from hpmoe_ir.runtime.task_records import TASK, Records, read_records

PATTERN = b"\xbd\x7f\xbd\x7f"
"""The content of memory before its first write: NaN as f32, f16 and bf16, 2143125437 as i32."""

FAULT_STATUS = 10
"""Exit status of the executable after a fault, which it has written to `fault.json`."""

MemoryModel = Literal["strong", "weak", "early"]
MEMORY_MODELS: tuple[MemoryModel, ...] = ("strong", "weak", "early")
"""Visibility of writes to global memory: at once; or delayed and out of order until a barrier; or
so, and lines enter the data caches of cores early, before the reads that need them."""

Bytes = npt.NDArray[np.uint8]
T = TypeVar("T")
Persistent = int | bytes | Sequence[bytes]


@dataclass
class RankLaunch:
    """One launch on one rank.

    arrays: the content of an input, or the size in bytes of an output, by argument name.
    scalars: values of the kernel's uint32_t arguments.
    in_out: inputs that the kernel also writes; their content at the end is an output too.
    """

    arrays: dict[str, npt.NDArray[Any] | int]
    scalars: dict[str, int] = field(default_factory=dict[str, int])
    in_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class EventCounter:
    """The counter of one event: an int32 at byte `offset` of its memory, alone in its cache line.

    Each launch adds `threshold`; with two `copies`, each launch n for which n mod 2 is `copy`. The
    other words of the line are scratch. `unwaited`: ranks on which no task waits for the event, so
    that signals of a launch may still arrive in the next one.
    """

    event: str
    index: int
    offset: int
    threshold: int
    unwaited: tuple[int, ...] = ()
    copies: int = 1
    copy: int = 0


@dataclass(frozen=True)
class Counters:
    """The event counters of a program, in symmetric memory; they are 0 before the first launch.

    memory: name of that memory. launch: the scalar argument that is the number of the launch, from
    1. events: by event number. given_up: byte offset of one cache line for each core, AIC then AIV,
    in which a core that gives up a wait records it: launch, event number, value seen, target, slot;
    0 before the first launch.
    """

    memory: str
    launch: str
    events: tuple[EventCounter, ...]
    given_up: int | None = None


class Job:
    """Builder of a job: the lines of its text, its input data and the size of its results."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.data: list[bytes] = []
        self.data_bytes = 0
        self.result_bytes = 0

    def line(self, *words: object) -> None:
        """Appends a line of words."""
        self.lines.append(" ".join(map(str, words)))

    def add_data(self, data: bytes) -> int:
        """Appends `data` to the job's data; returns its byte offset there."""
        offset = self.data_bytes
        padded = -len(data) % 64
        self.data += [data, bytes(padded)]
        self.data_bytes += len(data) + padded
        return offset

    def add_result(self, size: int) -> int:
        """Reserves `size` bytes of the job's results; returns their byte offset."""
        offset = self.result_bytes
        self.result_bytes += size + -size % 64
        return offset


def _size(name: str, value: Persistent, ranks: int) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, bytes):
        return len(value)
    if len(value) != ranks:
        raise ValueError(f"persistent '{name}': expected {ranks} contents, found {len(value)}")
    sizes = {len(content) for content in value}
    if len(sizes) != 1:
        raise ValueError(f"persistent '{name}': sizes differ between ranks: {sorted(sizes)}")
    return sizes.pop()


def write_machine(job: Job, machine: Machine, event_ids: int | None) -> None:
    """Adds the sizes of local memories and the number of event ids, by default the machine's."""
    job.line("event_ids", machine.event_ids if event_ids is None else event_ids)
    job.line("space", "L0A", machine.l0a_bytes)
    job.line("space", "L0B", machine.l0b_bytes)
    job.line("space", "L0C", machine.l0c_bytes)
    job.line("space", "L1", machine.l1_bytes - SYSTEM_RESERVED)
    job.line("space", "UB", machine.ub_bytes - SYSTEM_RESERVED)


def _write_counters(job: Job, counters: Counters) -> None:
    given_up = -1 if counters.given_up is None else counters.given_up
    job.line("event_counters", counters.memory, counters.launch, given_up)
    for event in counters.events:
        words = (event.event, event.index, event.offset, event.threshold, event.copies, event.copy)
        job.line("event_counter", *words, len(event.unwaited), *event.unwaited)


def check_launch(entry: KernelEntry, launch: RankLaunch, persistent: Mapping[str, object]) -> None:
    """Raises ValueError unless a launch has exactly the arguments of the entry."""
    given = set(launch.arrays) | set(persistent)
    if missing := [name for name in entry.pointers if name not in given]:
        raise ValueError(f"kernel '{entry.name}': no memory for argument '{missing[0]}'")
    if extra := [name for name in launch.arrays if name not in entry.pointers]:
        raise ValueError(f"kernel '{entry.name}': there is no argument '{extra[0]}'")
    if wrong := set(launch.scalars) ^ set(entry.scalars):
        raise ValueError(
            f"kernel '{entry.name}': scalars are {sorted(entry.scalars)}, found"
            f" {sorted(launch.scalars)} ('{min(wrong)}')"
        )


def execute(
    executable: Path,
    entry: KernelEntry,
    launches: Sequence[Sequence[RankLaunch]],
    persistent: Mapping[str, Persistent] | None = None,
    symmetric: tuple[str, ...] = ("windows",),
    *,
    aics: int,
    machine: Machine,
    seed: int = 0,
    late: Sequence[int] = (),
    read_back: tuple[str, ...] = (),
    steps: int = 1_000_000_000,
    seconds: int = 600,
    event_ids: int | None = None,
    checks: bool = True,
    counters: Counters | None = None,
    memory: MemoryModel = "strong",
    trace: list[Records] | None = None,
) -> list[list[dict[str, Bytes]]]:
    """Runs `launches[launch][rank]` and returns the outputs in the same order, as bytes.

    The launches of a rank run one after the other; ranks run concurrently.
    persistent: memory that every rank keeps for the whole run. A size in bytes allocates
    uninitialised memory, which is uninitialised again before each launch unless symmetric;
    contents, one for all ranks or one for each, are read-only unless symmetric. symmetric: names of
    the persistent memory that other ranks can access. read_back: names of persistent memory whose
    content is returned with the outputs.
    aics: AIC workers of a rank; it has twice as many AIV workers. seed: of the order in which cores
    take turns. late: ranks whose cores take turns only while no core of another rank can proceed.
    steps, seconds: limits of the API calls and of the time of the run, which end it with a fault.
    event_ids: flag ids of a pair of pipes, by default the machine's. checks: enables the detectors
    of order (kinds pipe, race, drain, line and stale) and of uninitialised global memory.
    counters: event counters to check. memory: when writes to global memory become visible.
    trace: a list to which the records of all tasks are appended, by rank and core, in their order.
    Raises DeviceFault; ValueError where names or sizes do not fit the entry; InputError where the
    files of the run can't be written.
    """
    persistent = persistent or {}
    if not launches or not launches[0]:
        raise ValueError("launches: expected at least one launch of one rank, found none")
    ranks = len(launches[0])
    if any(len(launch) != ranks for launch in launches):
        raise ValueError(f"launches: expected {ranks} ranks in each launch")
    if wrong := [rank for rank in late if not 0 <= rank < ranks]:
        raise ValueError(f"late: expected ranks 0 to {ranks - 1}, found {wrong[0]}")
    if not 1 <= aics <= machine.aic_cores:
        raise ValueError(f"aics: expected 1 to {machine.aic_cores}, found {aics}")

    job = Job()
    for key, value in (("seed", seed), ("ranks", ranks), ("aics", aics)):
        job.line(key, value)
    for rank in late:
        job.line("late", rank)
    job.line("steps", steps)
    job.line("seconds", seconds)
    job.line("checks", int(checks))
    job.line("weak", int(memory != "strong"))
    job.line("early", int(memory == "early"))
    write_machine(job, machine, event_ids)
    if counters is not None:
        _write_counters(job, counters)
    sizes = {name: _size(name, value, ranks) for name, value in persistent.items()}
    for name, value in persistent.items():
        shared = job.add_data(value) if isinstance(value, bytes) else -1
        for rank in range(ranks):
            offset = shared
            if not isinstance(value, int | bytes):
                offset = job.add_data(value[rank])
            job.line("memory", rank, name, int(name in symmetric), sizes[name], offset)

    results: list[list[dict[str, tuple[int, int]]]] = []
    for launch in launches:
        results.append([])
        for rank, rank_launch in enumerate(launch):
            check_launch(entry, rank_launch, persistent)
            job.line("launch", rank)
            outputs: dict[str, tuple[int, int]] = {}
            for name, array in rank_launch.arrays.items():
                if isinstance(array, int):
                    outputs[name] = (job.add_result(array), array)
                    job.line("array", name, array, -1, outputs[name][0])
                else:
                    data = array.tobytes()
                    result = -1
                    if name in rank_launch.in_out:
                        result = job.add_result(len(data))
                        outputs[name] = (result, len(data))
                    job.line("array", name, len(data), job.add_data(data), result)
            for name, scalar in rank_launch.scalars.items():
                job.line("scalar", name, scalar % 2**32)
            for name in read_back:
                outputs[name] = (job.add_result(sizes[name]), sizes[name])
                job.line("read_back", name, outputs[name][0])
            results[-1].append(outputs)

    data, tasks = run_job(executable, job, seconds, _read_results)
    if trace is not None:
        trace.append(tasks)
    return [
        [{name: data[at : at + n].copy() for name, (at, n) in rank.items()} for rank in launch]
        for launch in results
    ]


def _read_results(directory: Path) -> tuple[Bytes, Records]:
    return np.fromfile(directory / "results.bin", np.uint8), read_records(directory, TASK)


def run_job(executable: Path, job: Job, seconds: int, read: Callable[[Path], T]) -> T:
    """Runs a job in a temporary directory and returns what `read` returns for that directory.

    seconds: limit of the run's time; the process is killed a minute later. Raises DeviceFault;
    InputError where the job's files can't be written.
    """
    try:
        return _run_job(executable, job, seconds, read)
    except OSError as e:
        # A failure of the host, such as a full disk, not of the kernel.
        raise InputError(f"can't run the CPU model: {e.strerror}", str(e.filename or "")) from e


def _run_job(executable: Path, job: Job, seconds: int, read: Callable[[Path], T]) -> T:
    with tempfile.TemporaryDirectory(prefix="hpmoe-job-") as name:
        directory = Path(name)
        (directory / "job.txt").write_text("\n".join(job.lines) + "\n")
        with (directory / "data.bin").open("wb") as file:
            file.writelines(job.data)
        results = directory / "results.bin"
        with results.open("wb") as file:
            file.truncate(job.result_bytes)
        try:
            done = subprocess.run(
                [executable, name], capture_output=True, text=True, timeout=seconds + 60
            )
        except subprocess.TimeoutExpired as e:
            raise DeviceFault("timeout", f"no end after {seconds + 60} s") from e
        fault = directory / "fault.json"
        if done.returncode == FAULT_STATUS and fault.is_file():
            raise read_fault(fault)
        if done.returncode != 0:
            reason = done.stderr.strip() or f"status {done.returncode}"
            raise DeviceFault("crash", f"the executable ended early: {reason}")
        return read(directory)
