"""How much of a machine a timed run used, and how much of its time was communication alone."""

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
    """Parts of the time, 0 to 1, in which a rank used what it has."""

    aic: float
    """The matrix units of its matrix cores."""
    aiv: float
    """The busiest pipe of its vector cores: vector unit, loads or stores."""
    link: float
    """Its links, in the busier direction, by bytes."""
    hbm: float
    """Its memory behind L2, by bytes."""


def utilisation(timeline: Timeline, rank: int) -> Utilisation:
    """What the rank used, from its totals."""
    program, rates, totals = timeline.program, timeline.machine.rates, timeline.totals[rank]
    cores = {kind: program.orders[kind].core_count for kind in (CoreKind.AIC, CoreKind.AIV)}
    ns = timeline.time_us * 1000

    def bandwidth(what: str, most: float) -> float:
        return float(totals[f"{what}_bytes"]) / (most * ns * 1e-9)

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
    """For each task, the rank whose memory it puts rows into; its own where it does not put."""
    tasks = timeline.tasks
    target = tasks["rank"].astype(np.int64)
    for number, family in enumerate(timeline.program.families.values()):
        if family.target_peer is not None:
            rows = np.flatnonzero(tasks["slot"] >> POINT_BITS == number)
            point = np.unravel_index(timeline.points(tasks[rows]), family.extents)
            target[rows] = evaluate_index(family.target_peer, point, target[rows])
    return target


def sending_tasks(timeline: Timeline) -> Records:
    """For each task, whether it puts rows into another rank's memory."""
    return target_ranks(timeline) != timeline.tasks["rank"]


def exposed_communication_us(timeline: Timeline, rank: int) -> float:
    """Time in which rows go over links to or from the rank and no core of it computes, in us.

    A core computes during a task whose matrix or vector unit works and that does not put.
    """
    tasks, target = timeline.tasks, target_ranks(timeline)
    families = timeline.program.families.values()
    puts = np.array([is_put(family) for family in families])[tasks["slot"] >> POINT_BITS]
    here = tasks["rank"] == rank
    sends = here != (target == rank)
    computes = here & ~puts & (tasks["busy"] > 0)
    return alone_ns(tasks[sends], tasks[computes]) / 1000


def alone_ns(some: Records, others: Records) -> float:
    """ns in which one of `some` tasks is at work (from `ready` to `end`) and none of `others`."""
    times: list[Times] = []
    steps: list[Times] = []
    for tasks, weight in ((some, np.array([1, 0])), (others, np.array([0, 1]))):
        times += [tasks["ready"], tasks["end"]]
        steps += [np.tile(weight, (len(tasks), 1)), np.tile(-weight, (len(tasks), 1))]
    time, step = np.concatenate(times), np.concatenate(steps)
    ascending = np.argsort(time, kind="stable")
    depth = np.cumsum(step[ascending], axis=0)[:-1]
    lasts = np.diff(time[ascending])
    return float(lasts[(depth[:, 0] > 0) & (depth[:, 1] == 0)].sum())
