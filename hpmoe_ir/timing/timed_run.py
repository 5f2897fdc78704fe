"""Timing of generated code: the executable of the checked run, with clocks and no arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpmoe_ir.dialects.index import BoolArray
from hpmoe_ir.dialects.queue import POINT_BITS, POINT_MASK
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, buffer_type, element_bytes
from hpmoe_ir.lowering.program import LoweredProgram
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.run.execution import ExecutionError, Raw, kernel_entry, name_tasks
from hpmoe_ir.runtime.cpu_model import RankLaunch
from hpmoe_ir.runtime.cpu_timing import CounterLines, Mirror, StageList, execute_timed
from hpmoe_ir.runtime.device_fault import DeviceFault
from hpmoe_ir.runtime.task_records import Records


@dataclass(frozen=True)
class Stages:
    """Families that run one after the other, as operators that the host launches.

    stage: number of each family of the program, 0 first; along a queue it must not fall.
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

    def left_out(self, name: str) -> BoolArray:
        """[ranks that were run, tasks] which tasks left signals to a credit, having no rows."""
        tasks = self.family(name)
        wanted = len(self.program.signals_of_family(name))
        sent = np.zeros((len(self.totals), self.program.families[name].task_count), dtype=np.int64)
        sent[tasks["rank"], self.points(tasks)] = tasks["signals"]
        return sent < wanted


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
    mirror: Mirror | None = None,
) -> Timeline:
    """How long one launch takes, with what `build_program` made, on all ranks.

    `machine` is the program's own by default; its sizes must be the same. `mirror` is for
    `hpmoe_ir.timing.mirrored.simulate_mirrored`, which runs rank 0 alone. Raises ExecutionError
    where inputs or stages do not fit, DeviceFault where the run fails.
    """
    machine = machine or program.machine
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
            blocks=program.orders[CoreKind.AIC].core_count,
            machine=machine,
            counters=CounterLines(
                "windows", program.counters, program.counter_count, machine.counter_line
            ),
            stages=None if stages is None else _stage_list(program, stages),
            mirror=mirror,
            seconds=seconds,
        )
    except DeviceFault as fault:
        raise name_tasks(program, fault) from None
    return Timeline(program, machine, tasks, totals)


def ids_of(program: LoweredProgram) -> str:
    """The input that has the experts of each token. Raises ExecutionError where there is none."""
    for buffer in program.arguments:
        type = buffer_type(buffer)
        integers = str(type.element_type) == "i32" and type.rows.data == "tokens"
        if integers and buffer.space.data is MemorySpace.INPUT:
            return buffer.sym_name.data
    raise ExecutionError(f"@{program.name} has no route that its inputs decide")


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
    known = list(program.families)
    for core, order in program.orders.items():
        own = np.array([known.index(name) for name in order.family_names], dtype=np.int64)
        stage = by_family[own[order.slot_values >> POINT_BITS]] if own.size else by_family[:0]
        for first, last in zip(order.first_slots[:-1], order.first_slots[1:], strict=True):
            if (np.diff(stage[first:last]) < 0).any():
                raise ExecutionError(
                    f"stages: a queue of the {core} cores returns to an earlier stage"
                )
    return StageList(numbers, stages.communicates)


def _launch(program: LoweredProgram, inputs: RankIntegers) -> RankLaunch:
    arrays = {b.sym_name.data: _argument(b, inputs) for b in program.arguments}
    return RankLaunch(arrays, {"tokens": inputs.tokens, "launch": 1})


def _argument(buffer: BufferOp, inputs: RankIntegers) -> Raw | int:
    """An input of integers with its content, anything else by its size alone."""
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
