"""Timing of generated code: the executable of the checked run, with clocks and no arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dialects.queue import POINT_BITS, POINT_MASK
from hpmoe_ir.dialects.tile import BufferOp, buffer_type, element_bytes
from hpmoe_ir.execution import ExecutionError, Raw, name_tasks
from hpmoe_ir.lowering.program import LoweredProgram
from hpmoe_ir.machine import Machine
from hpmoe_ir.machine_rates import RATE_NAMES
from hpmoe_ir.runtime.cpu_model import DeviceFault, Job, run_job, write_machine

Records: TypeAlias = np.ndarray[Any, np.dtype[Any]]

TASK = np.dtype(
    [
        ("rank", "<i4"),
        ("core", "<i4"),
        ("slot", "<u4"),
        ("event", "<i4"),
        ("turn", "<f8"),
        ("ready", "<f8"),
        ("start", "<f8"),
        ("done", "<f8"),
        ("end", "<f8"),
        ("busy", "<f8"),
    ]
)
"""One task. Times are ns since the kernel's start.

| field | meaning |
| --- | --- |
| rank, core | where it ran; AICs of the rank count from 0, AIVs from the number of AICs |
| slot | the queue's slot: number of the family, then 24 bits of its grid point |
| event | counter that was short the longest, -1 where none was |
| turn | the core turned to the task |
| ready | its last look at a counter was over; `turn` where it has none |
| start | its body began; `end` where it has none |
| done | its first signal left, all that it wrote being there; `end` where it has none |
| end | the core was free again |
| busy | ns in which the matrix unit, on an AIV the vector unit, worked |
"""

PIPES = ("s", "v", "m", "mte1", "mte2", "mte3", "all", "fix")
RESOURCES = ("link_in", "link_out", "l2", "hbm")
TOTALS = np.dtype(
    [
        ("end", "<f8"),
        *((f"{name}_bytes", "<f8") for name in RESOURCES),
        *((f"aic_{name}", "<f8") for name in PIPES),
        *((f"aiv_{name}", "<f8") for name in PIPES),
    ]
)
"""Of one rank: when its last core ended, bytes moved by resource, ns by pipe over all cores."""


@dataclass(frozen=True)
class Stages:
    """Families that run one after the other, each launched by the host.

    stage: number of each family of the program, 0 first; in every queue it must not fall.
    communicates: for each stage, whether all ranks end it together.
    """

    stage: Mapping[str, int]
    communicates: Sequence[bool]


@dataclass(frozen=True)
class Timeline:
    """What a timed run found."""

    program: LoweredProgram
    machine: Machine
    tasks: Records
    """Records of type `TASK`, by rank, core and time."""
    totals: Records
    """Records of type `TOTALS`, by rank."""

    @property
    def time_us(self) -> float:
        """From the kernel's start to the end of the last core of any rank."""
        return float(self.totals["end"].max()) / 1000

    def family(self, name: str) -> Records:
        """The records of one family's tasks."""
        number = list(self.program.families).index(name)
        return self.tasks[self.tasks["slot"] >> POINT_BITS == number]

    def points(self, tasks: Records) -> Records:
        """The grid point of each task, as its row-major number."""
        return tasks["slot"] & POINT_MASK

    def busy(self, core: str, pipe: str) -> float:
        """Mean part of the time in which `pipe` of a core of kind `core` works."""
        cores = self.program.orders[core].core_count * len(self.totals)
        return float(self.totals[f"{core}_{pipe}"].sum()) / (cores * self.time_us * 1000)


@dataclass(frozen=True)
class RankIntegers:
    """What a timed run needs to know of a rank: its tokens, and its inputs of integers."""

    arrays: Mapping[str, Raw]
    tokens: int


def simulate(
    program: LoweredProgram,
    executable: Path,
    table: bytes,
    ranks: Sequence[RankIntegers],
    machine: Machine | None = None,
    stages: Stages | None = None,
    seconds: int = 600,
) -> Timeline:
    """How long one launch takes, with what `build_program` made, on all ranks.

    `machine` is the program's own by default; its sizes must be the same. Raises ExecutionError
    where inputs or stages do not fit, DeviceFault where the run fails.
    """
    machine = machine or program.machine
    if len(ranks) != program.ranks:
        raise ExecutionError(f"expected inputs of {program.ranks} ranks, found {len(ranks)}")
    job = Job()
    blocks = program.orders["aic"].core_count
    for key, value in (("seed", 0), ("ranks", program.ranks), ("blocks", blocks)):
        job.line(key, value)
    job.line("steps", 2**62)
    job.line("seconds", seconds)
    job.line("checks", 0)
    write_machine(job, machine, None)
    write_clock(job, machine)
    if stages is not None:
        _write_stages(job, program, stages)
    pitch = machine.counter_line
    job.line("counters", "windows", program.counters, program.event_count, pitch)
    shared = job.add_data(table)
    sizes = {
        "table": len(table),
        "workspace": program.workspace_bytes,
        "windows": program.window_bytes,
    }
    for name, size in sizes.items():
        for rank in range(program.ranks):
            symmetric = int(name == "windows")
            job.line("memory", rank, name, symmetric, size, shared if name == "table" else -1)
    for rank, inputs in enumerate(ranks):
        job.line("launch", rank)
        for buffer in program.arguments:
            _write_argument(job, buffer, inputs)
        job.line("scalar", "tokens", inputs.tokens)
        job.line("scalar", "launch", 1)
    try:
        tasks, totals = run_job(executable, job, seconds, _read_timeline)
    except DeviceFault as fault:
        raise name_tasks(program, fault) from None
    return Timeline(program, machine, tasks, totals)


def write_clock(job: Job, machine: Machine) -> None:
    """Makes a job a timed one: the rates that durations follow from."""
    job.line("timing")
    for name, attribute in RATE_NAMES.items():
        job.line("clock", name, repr(float(getattr(machine.rates, attribute))))


def _write_stages(job: Job, program: LoweredProgram, stages: Stages) -> None:
    for family in program.families:
        if family not in stages.stage:
            raise ExecutionError(f"stages: no stage for @{family}")
        job.line("stage", stages.stage[family])
    if max(stages.stage.values()) + 1 != len(stages.communicates):
        raise ExecutionError(
            f"stages: expected {max(stages.stage.values()) + 1} entries of communicates, found "
            f"{len(stages.communicates)}"
        )
    for value in stages.communicates:
        job.line("communicates", int(value))


def _write_argument(job: Job, buffer: BufferOp, inputs: RankIntegers) -> None:
    """An input of integers with its content, anything else by its size alone."""
    name, type = buffer.sym_name.data, buffer_type(buffer)
    shape = (inputs.tokens, *type.dims[1:]) if type.rows.data == "tokens" else type.dims
    size = int(np.prod(shape, dtype=np.int64)) * element_bytes(type.element_type)
    data = -1
    if str(type.element_type) == "i32" and buffer.space.data != "output":
        if name not in inputs.arrays:
            raise ExecutionError(f"no value for @{name}, an input of integers")
        value = inputs.arrays[name]
        if value.shape != shape or value.dtype.itemsize != 4:
            raise ExecutionError(
                f"@{name}: expected 4-byte elements of shape {list(shape)}, found "
                f"{value.dtype} {list(value.shape)}"
            )
        data = job.add_data(value.tobytes())
    job.line("array", name, size, data, -1)


def _read_timeline(directory: Path) -> tuple[Records, Records]:
    data = (directory / "timeline.bin").read_bytes()
    count, ranks = (int(n) for n in np.frombuffer(data, "<u8", 2))
    tasks = np.frombuffer(data, TASK, count, 16)
    totals = np.frombuffer(data, TOTALS, ranks, 16 + count * TASK.itemsize)
    return tasks, totals
