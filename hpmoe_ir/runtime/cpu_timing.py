"""Timed runs of the CPU model: records of the tasks of one launch, and totals of each rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.machines.rates import RATE_NAMES
from hpmoe_ir.runtime.cpu_build import KernelEntry
from hpmoe_ir.runtime.cpu_model import Job, RankLaunch, check_launch, run_job, write_machine
from hpmoe_ir.runtime.task_records import TASK, Records, read_records

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
"""Totals of one rank: end of its last core in ns, bytes moved by resource, and the busy time of
each pipe in ns, summed over all cores of a kind."""


@dataclass(frozen=True)
class CounterLines:
    """The place of event counters: `count` of them, `pitch` bytes apart, from byte `first` of the
    symmetric memory `memory`."""

    memory: str
    first: int
    count: int
    pitch: int = 64


@dataclass(frozen=True)
class Mirror:
    """A simulation of rank 0 alone, with the assumption that peers do the same at the same time.

    ranks: number of ranks. counters: by (slot, n), the number of the counter of rank 0 that a peer
    signals when the task with `slot` of rank 0 sends its n-th signal to a peer. fills: content of
    rank 0's memory that peers would have written, as name, byte offset and bytes.
    """

    ranks: int
    counters: Mapping[tuple[int, int], int]
    fills: Sequence[tuple[str, int, bytes]] = ()


@dataclass(frozen=True)
class TaskNoise:
    """A factor of the time of each task on each rank, independent of all others.

    amplitude: factors are evenly spread over 1 - amplitude to 1 + amplitude. seed: other seeds give
    other factors.
    """

    amplitude: float
    seed: int = 0


@dataclass(frozen=True)
class StageList:
    """Operators that the host launches one after the other, instead of one persistent kernel.

    stage: the stage of each family, by family number; stages must not decrease along a queue.
    communicates: for each stage, whether all ranks end it together. synchronises: for each stage,
    whether the host reads results of it before it launches the next; empty if it reads none.
    """

    stage: Sequence[int]
    communicates: Sequence[bool]
    synchronises: Sequence[bool] = ()


def execute_timed(
    executable: Path,
    entry: KernelEntry,
    launch: Sequence[RankLaunch],
    persistent: Mapping[str, int | bytes] | None = None,
    symmetric: tuple[str, ...] = ("windows",),
    *,
    aics: int,
    machine: Machine,
    counters: CounterLines | None = None,
    stages: StageList | None = None,
    mirror: Mirror | None = None,
    noise: TaskNoise | None = None,
    seconds: int = 600,
) -> tuple[Records, Records]:
    """Runs `launch[rank]` with clocks; returns records of type `TASK`, by rank, core and time, and
    of type `TOTALS`, by rank.

    The arguments are those of `execute`, except that only integer memory needs a content: other
    memory is given by its size in bytes, and is neither stored nor computed. Memory without content
    reads as 0. counters: event counters, for records of waits. stages: times a run of operators
    instead of one kernel. mirror: `launch` then has one rank. noise: disturbs the tasks. Raises
    DeviceFault, ValueError and InputError as `execute` does.
    """
    persistent = persistent or {}
    job = Job()
    ranks = len(launch) if mirror is None else mirror.ranks
    for key, value in (("seed", 0), ("ranks", ranks), ("aics", aics)):
        job.line(key, value)
    job.line("steps", 2**62)
    job.line("seconds", seconds)
    job.line("checks", 0)
    write_machine(job, machine, None)
    job.line("timing")
    for name, attribute in RATE_NAMES.items():
        job.line("clock", name, repr(float(getattr(machine.rates, attribute))))
    if counters is not None:
        job.line("counters", counters.memory, counters.first, counters.count, counters.pitch)
    if stages is not None:
        for stage in stages.stage:
            job.line("stage", stage)
        for value in stages.communicates:
            job.line("communicates", int(value))
        for number, value in enumerate(stages.synchronises):
            if value:
                job.line("synchronises", number)
    if noise is not None:
        job.line("noise", repr(noise.amplitude), noise.seed)
    if mirror is not None:
        job.line("mirror")
        for (slot, number), counter in mirror.counters.items():
            job.line("mirrored", slot, number, counter)
        for name, offset, content in mirror.fills:
            job.line("fill", 0, name, offset, job.add_data(content), len(content))
    for name, value in persistent.items():
        size, data = (value, -1) if isinstance(value, int) else (len(value), job.add_data(value))
        for rank in range(len(launch)):
            job.line("memory", rank, name, int(name in symmetric), size, data)
    for rank, rank_launch in enumerate(launch):
        check_launch(entry, rank_launch, persistent)
        job.line("launch", rank)
        for name, array in rank_launch.arrays.items():
            if isinstance(array, int):
                job.line("array", name, array, -1, -1)
            else:
                job.line("array", name, array.nbytes, job.add_data(array.tobytes()), -1)
        for name, scalar in rank_launch.scalars.items():
            job.line("scalar", name, scalar % 2**32)
    return run_job(executable, job, seconds, _read_timeline)


def _read_timeline(directory: Path) -> tuple[Records, Records]:
    return read_records(directory, TASK), read_records(directory, TOTALS)
