"""Timing of generated code: runs the checked executable with clocks and without arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.queue import POINT_BITS, POINT_MASK
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, buffer_type, element_bytes
from hpmoe_ir.lowering.program import LoweredProgram
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.run.execution import ExecutionError, Raw, kernel_entry, name_tasks
from hpmoe_ir.runtime.cpu_model import RankLaunch
from hpmoe_ir.runtime.cpu_timing import (
    CounterLines,
    Mirror,
    StageList,
    TaskNoise,
    execute_timed,
)
from hpmoe_ir.runtime.device_fault import DeviceFault
from hpmoe_ir.runtime.task_records import Records


@dataclass(frozen=True)
class Stages:
    """A partition of the task families into stages that run one after the other.

    It models operators that the host launches.
    """

    stage: Mapping[str, int]
    """Number of the stage of each family, from 0; it must not decrease along a queue."""
    communicates: Sequence[bool]
    """For each stage, whether all ranks end it together."""
    synchronises: Sequence[bool] = ()
    """For each stage, whether the host reads results of it before it launches the next."""


@dataclass(frozen=True)
class Timeline:
    """The result of a timed run."""

    program: LoweredProgram
    machine: Machine
    tasks: Records
    """Records of type `TASK`, sorted by rank, core and time."""
    totals: Records
    """Records of type `TOTALS`, one per rank."""
    sent: IntArray
    """[ranks, experts] rows that each rank of the program sends to each expert."""

    @property
    def time_us(self) -> float:
        """Time from the kernel's start to the end of the last core of any rank."""
        return float(self.totals["end"].max()) / 1000

    def family(self, name: str) -> Records:
        """Returns the records of the tasks of the family `name`."""
        number = list(self.program.families).index(name)
        return self.tasks[self.tasks["slot"] >> POINT_BITS == number]

    def points(self, tasks: Records) -> Records:
        """Returns the row-major number of each task's grid point."""
        return tasks["slot"] & POINT_MASK

    def left_out(self, name: str) -> BoolArray:
        """Returns which tasks of a family had no rows and left signals to a credit.

        The shape is [simulated ranks, tasks of the family].
        """
        tasks = self.family(name)
        signals = len(self.program.signals_of_family(name))
        sent = np.zeros((len(self.totals), self.program.families[name].task_count), dtype=np.int64)
        sent[tasks["rank"], self.points(tasks)] = tasks["signals"]
        return sent < signals


@dataclass(frozen=True)
class RankIntegers:
    """Inputs of a timed run on one rank: the number of tokens and the integer arrays.

    Integers such as expert ids determine sizes; the values of floats are never used.
    """

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
    mirror: Mirror | None = None,
    noise: TaskNoise | None = None,
) -> Timeline:
    """Times one launch of a program on all ranks.

    `executable` is the result of `build_program`, `table` the task table, `ranks` the inputs of
    each rank. `machine` defaults to the program's own; another one must have the same sizes.
    `stages` times the program as a sequence of operators. `seconds` limits the real time of the
    run. `mirror` is for `hpmoe_ir.timing.mirrored.simulate_mirrored`, which runs rank 0 alone.
    `noise` disturbs the time of each task.
    Raises ExecutionError for inputs or stages that do not fit the program, DeviceFault if the run
    fails.
    """
    machine = (machine or program.machine).for_ranks(program.ranks)
    if len(ranks) != program.ranks:
        raise ExecutionError(f"expected inputs of {program.ranks} ranks, found {len(ranks)}")
    try:
        tasks, totals = execute_timed(
            executable,
            kernel_entry(program),
            [_launch(program, inputs) for inputs in (ranks if mirror is None else ranks[:1])],
            {
                "table": table,
                "workspace": program.workspace_bytes,
                "windows": program.window_bytes,
            },
            aics=program.orders[CoreKind.AIC].core_count,
            machine=machine,
            counters=CounterLines(
                "windows", program.counters, program.counter_count, machine.counter_line
            ),
            stages=None if stages is None else _stage_list(program, stages),
            mirror=mirror,
            noise=noise,
            seconds=seconds,
        )
    except DeviceFault as fault:
        raise name_tasks(program, fault) from None
    return Timeline(program, machine, tasks, totals, _sent_rows(program, ranks))


def _sent_rows(program: LoweredProgram, ranks: Sequence[RankIntegers]) -> IntArray:
    """Returns the rows that each rank sends to each expert; none without a route."""
    routes = (buffer.type for buffer in program.buffers.values())
    route = next((type for type in routes if isinstance(type, RouteType)), None)
    if route is None:
        return np.zeros((program.ranks, 0), dtype=np.int64)
    ids, experts = ids_of(program), route.experts.data
    counts = [np.bincount(rank.arrays[ids].ravel(), minlength=experts) for rank in ranks]
    return np.array(counts, dtype=np.int64)


def ids_of(program: LoweredProgram) -> str:
    """Returns the name of the input with the expert ids. Raises ExecutionError if there is none."""
    for buffer in program.arguments:
        type = buffer_type(buffer)
        integers = str(type.element_type) == "i32" and type.rows.data == "tokens"
        if integers and buffer.space.data is MemorySpace.INPUT:
            return buffer.sym_name.data
    raise ExecutionError(f"@{program.name}: expected an i32 input of expert ids, found none")


def _stage_list(program: LoweredProgram, stages: Stages) -> StageList:
    for family in program.families:
        if family not in stages.stage:
            raise ExecutionError(f"stages: no stage for @{family}")
    numbers = [stages.stage[family] for family in program.families]
    if max(numbers) + 1 != len(stages.communicates) or min(numbers) < 0:
        raise ExecutionError(
            f"stages: expected {max(numbers) + 1} entries of communicates, found "
            f"{len(stages.communicates)}"
        )
    by_family = np.array(numbers)
    families = list(program.families)
    for core, order in program.orders.items():
        ids = np.array([families.index(name) for name in order.family_names], dtype=np.int64)
        stage = by_family[ids[order.slot_values >> POINT_BITS]] if ids.size else by_family[:0]
        for first, last in zip(order.first_slots[:-1], order.first_slots[1:], strict=True):
            if (np.diff(stage[first:last]) < 0).any():
                raise ExecutionError(
                    f"stages: a queue of the {core} cores returns to an earlier stage"
                )
    return StageList(numbers, stages.communicates, stages.synchronises)


def _launch(program: LoweredProgram, inputs: RankIntegers) -> RankLaunch:
    arrays = {b.sym_name.data: _argument(b, inputs) for b in program.arguments}
    return RankLaunch(arrays, {"tokens": inputs.tokens, "launch": 1})


def _argument(buffer: BufferOp, inputs: RankIntegers) -> Raw | int:
    """Returns the content of an integer input; for any other argument its size in bytes."""
    name, type = buffer.sym_name.data, buffer_type(buffer)
    shape = (inputs.tokens, *type.dims[1:]) if type.rows.data == "tokens" else type.dims
    if str(type.element_type) != "i32" or buffer.space.data is MemorySpace.OUTPUT:
        return int(np.prod(shape, dtype=np.int64)) * element_bytes(type.element_type)
    if name not in inputs.arrays:
        raise ExecutionError(f"no value for @{name}, an input of integers")
    value = inputs.arrays[name]
    if value.shape != shape or value.dtype.itemsize != 4:
        raise ExecutionError(
            f"@{name}: expected 4-byte elements of shape {list(shape)}, found "
            f"{value.dtype} {list(value.shape)}"
        )
    return value
