"""Utilisation of the machine in a timed run, and its exposed communication."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import IntArray, evaluate_index
from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.analysis.task_roles import is_put
from hpmoe_ir.runtime.task_records import Records
from hpmoe_ir.timing.executed_order import Times
from hpmoe_ir.timing.timed_run import Timeline


@dataclass(frozen=True)
class Utilisation:
    """Mean utilisation of a rank's resources over the run, 0 to 1."""

    aic: float
    """Matrix units, by busy time."""
    aiv: float
    """Busiest pipe of the vector cores (vector unit, loads or stores), by busy time."""
    link: float
    """Links, in the busier direction, by bytes."""
    hbm: float
    """Memory behind L2, by bytes."""


def utilisation(timeline: Timeline, rank: int) -> Utilisation:
    """Computes the utilisation of `rank` from its totals."""
    program, rates, totals = timeline.program, timeline.machine.rates, timeline.totals[rank]
    cores = {kind: program.orders[kind].core_count for kind in (CoreKind.AIC, CoreKind.AIV)}
    ns = timeline.time_us * 1000

    def bandwidth(resource: str, peak: float) -> float:
        return float(totals[f"{resource}_bytes"]) / (peak * ns * 1e-9)

    pipes = [float(totals[f"aiv_{pipe}"]) for pipe in ("v", "mte2", "mte3")]
    return Utilisation(
        aic=float(totals["aic_m"]) / (cores[CoreKind.AIC] * ns),
        aiv=max(pipes) / (cores[CoreKind.AIV] * ns),
        link=max(
            bandwidth("link_out", rates.shared_bandwidth_link_out),
            bandwidth("link_in", rates.shared_bandwidth_link_in),
        ),
        hbm=bandwidth("hbm", rates.shared_bandwidth_hbm),
    )


def target_ranks(timeline: Timeline) -> IntArray:
    """Returns the rank into whose memory each task puts rows; its own for other tasks."""
    tasks = timeline.tasks
    target = tasks["rank"].astype(np.int64)
    for number, family in enumerate(timeline.program.families.values()):
        if family.target_peer is not None:
            rows = np.flatnonzero(tasks["slot"] >> POINT_BITS == number)
            point = np.unravel_index(timeline.points(tasks[rows]), family.extents)
            target[rows] = evaluate_index(family.target_peer, point, target[rows])
    return target


def sending_tasks(timeline: Timeline) -> Records:
    """Returns for each task whether it puts rows into another rank's memory."""
    return target_ranks(timeline) != timeline.tasks["rank"]


def exposed_communication_us(timeline: Timeline, rank: int) -> float:
    """Returns the time in us in which `rank` sends or receives rows and none of its cores computes.

    A core computes during a task that uses its matrix or vector unit and is not a put.
    """
    tasks, target = timeline.tasks, target_ranks(timeline)
    families = timeline.program.families.values()
    puts = np.array([is_put(family) for family in families])[tasks["slot"] >> POINT_BITS]
    here = tasks["rank"] == rank
    sends = here != (target == rank)
    computes = here & ~puts & (tasks["busy"] > 0)
    return exclusive_ns(tasks[sends], tasks[computes]) / 1000


def exclusive_ns(active: Records, others: Records) -> float:
    """Returns the time in ns in which one of the `active` tasks runs and none of `others`.

    A task runs from `ready` to `end`.
    """
    times: list[Times] = []
    steps: list[Times] = []
    for tasks, weight in ((active, np.array([1, 0])), (others, np.array([0, 1]))):
        times += [tasks["ready"], tasks["end"]]
        steps += [np.tile(weight, (len(tasks), 1)), np.tile(-weight, (len(tasks), 1))]
    time, step = np.concatenate(times), np.concatenate(steps)
    ascending = np.argsort(time, kind="stable")
    depth = np.cumsum(step[ascending], axis=0)[:-1]
    lasts = np.diff(time[ascending])
    return float(lasts[(depth[:, 0] > 0) & (depth[:, 1] == 0)].sum())
