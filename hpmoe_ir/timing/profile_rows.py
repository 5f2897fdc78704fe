"""A timed run as msprof would export it: a row for each operator that the host launches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpmoe_ir.calibration.op_summary import CoreTime, OpRow, Pipe, PipeTime
from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.runtime.task_records import Records
from hpmoe_ir.timing.timed_run import Stages, Timeline


def profile_rows(timeline: Timeline, stages: Stages | None, rank: int = 0) -> list[OpRow]:
    """Returns the rows of one rank, in the order of time.

    A run of stages has one row for each, any other run has one for its persistent kernel. The pipe
    that a timed run knows of a task is its cube or its vector unit. Shapes are not given: those of
    fused operators don't say what they move.
    """
    tasks = timeline.tasks[timeline.tasks["rank"] == rank]
    if stages is None:
        return [_row(timeline, tasks, timeline.program.name, 0.0, False)]
    numbers = np.array([stages.stage[name] for name in timeline.program.families])
    of_task = numbers[tasks["slot"] >> POINT_BITS]
    rows: list[OpRow] = []
    for number, communicates in enumerate(stages.communicates):
        names = [name for name, stage in stages.stage.items() if stage == number]
        mine = tasks[of_task == number]
        if len(mine):
            before = rows[-1].end if rows else 0.0
            rows.append(_row(timeline, mine, "_".join(names), before, communicates))
    return rows


def _row(timeline: Timeline, tasks: Records, name: str, before: float, communicates: bool) -> OpRow:
    """Returns the row of `tasks`, whose operator before ended at `before` us."""
    start, end = float(tasks["turn"].min()) / 1000, float(tasks["end"].max()) / 1000
    aics = timeline.program.orders[CoreKind.AIC].core_count
    cube = tasks["core"] < aics
    kinds: Sequence[tuple[Pipe, Records]] = ((Pipe.MAC, tasks[cube]), (Pipe.VEC, tasks[~cube]))
    cores: dict[Pipe, CoreTime] = {}
    pipes: dict[Pipe, PipeTime] = {}
    blocks = 0
    for pipe, mine in kinds:
        if communicates or not len(mine):
            continue
        # One kernel has as many blocks as cores of its main kind.
        count = len(np.unique(mine["core"]))
        blocks = blocks or count
        us = float((mine["end"] - mine["turn"]).sum()) / 1000 / blocks
        cycles = us * blocks * timeline.machine.rates.clock_frequency / 1e6
        busy = float(mine["busy"].sum()) / 1000 / blocks
        cores[pipe] = CoreTime(us, cycles)
        pipes[pipe] = PipeTime(busy, busy / us)
    task_type = "MIX_AIC" if len(cores) > 1 else "AI_CORE" if Pipe.MAC in cores else ""
    return OpRow(
        line=0,
        stream="0",
        name=name,
        op_type=name,
        task_type="COMMUNICATION" if communicates else task_type or "AI_VECTOR_CORE",
        start=start,
        duration=end - start,
        wait=max(start - before, 0.0) if before else 0.0,
        blocks=blocks,
        inputs=(),
        outputs=(),
        aic=cores.get(Pipe.MAC),
        aiv=cores.get(Pipe.VEC),
        pipes=pipes,
    )
