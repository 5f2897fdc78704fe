"""What no order of one program's tasks can beat: what its order can still gain.

These bounds move with the schedule, which cuts the tasks: see `hpmoe_ir.timing.bounds` for those
that don't.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from hpmoe_ir.dialects.index import evaluate_index, flat_events
from hpmoe_ir.dialects.tile import TasksOp
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.runtime.task_records import Records
from hpmoe_ir.timing.timed_run import Timeline


@dataclass(frozen=True)
class ProgramBounds:
    """Lower bounds of the time of any order of a program's tasks, in us, each for its worst rank.

    Each task is as fast as it is alone, from the look that finds its counters reached to its
    signal.
    """

    matrix_tasks_us: float
    """Its matrix tasks, evenly spread over the matrix cores: however well the cube is fed."""
    vector_us: float
    """The busiest of the vector cores' pipes, evenly spread: what the tile kernels move and
    compute there, at what a core gets alone."""
    chain_us: float
    """The longest chain of tasks that wait for each other, with the signals' latencies between."""

    @property
    def largest(self) -> str:
        """Name of the largest bound, without its unit."""
        name = max(fields(self), key=lambda field: getattr(self, field.name)).name
        return name.removesuffix("_us")

    @property
    def bound_us(self) -> float:
        """The largest bound."""
        return max(getattr(self, field.name) for field in fields(self))


def program_bounds(timeline: Timeline) -> ProgramBounds:
    """Bounds of the program of a timed run, from the times that its tasks take alone."""
    aiv = timeline.program.orders[CoreKind.AIV].core_count
    pipes = [float(timeline.totals[f"aiv_{pipe}"].max()) for pipe in ("v", "mte2", "mte3")]
    return ProgramBounds(
        matrix_tasks_us=matrix_tasks_us(timeline),
        vector_us=max(pipes) / aiv / 1000,
        chain_us=longest_chain_us(timeline),
    )


def matrix_tasks_us(timeline: Timeline) -> float:
    """Time of a rank's matrix tasks, each alone, over its matrix cores; of the rank with most."""
    tasks, cores = timeline.tasks, timeline.program.orders[CoreKind.AIC].core_count
    matrix = tasks[tasks["core"] < cores]
    by_rank = np.bincount(matrix["rank"], matrix["alone"], minlength=1)
    return float(by_rank.max()) / cores / 1000


def longest_chain_us(timeline: Timeline) -> float:
    """Time of the longest chain of tasks over all ranks, each as fast as it is alone.

    Families come in an order that dependences agree with, so one pass over them is enough.
    """
    program, rates = timeline.program, timeline.machine.rates
    known = {
        name: np.zeros((program.ranks, event.event_count)) for name, event in program.events.items()
    }
    ends_of: dict[str, Records] = {}
    longest = 0.0
    for name, family in program.families.items():
        alone = _alone_us(timeline, timeline.family(name), family)
        points, size = family.coordinates(), family.task_count
        waits = [w for w in program.waits if w.family_name == name]
        signals = program.signals_of_family(name)
        left_out = np.broadcast_to(timeline.left_out(name), (program.ranks, size))
        ends = ends_of[name] = np.zeros((program.ranks, size))
        for rank in range(program.ranks):
            start = np.zeros(size)
            for wait in waits:
                extents = program.events[wait.event_name].extents
                if wait.event_range is not None:
                    # At least the first one, whichever events the route names.
                    start = np.maximum(start, known[wait.event_name][rank].min(initial=0.0))
                    continue
                flat = flat_events(wait.index_exprs, extents, points, rank, size)
                start = np.maximum(start, known[wait.event_name][rank][flat])
            ends[rank] = start + alone[rank]
        longest = max(longest, float(ends.max(initial=0.0)))
        for signal in signals:
            extents = program.events[signal.event_name].extents
            for rank in range(program.ranks):
                flat = flat_events(signal.index_exprs, extents, points, rank, size)
                owner = np.full(size, rank)
                if signal.peer_expr is not None:
                    owner = np.broadcast_to(evaluate_index(signal.peer_expr, points, rank), size)
                latency = np.where(
                    owner == rank, rates.latency_signal * 1e6, rates.latency_remote_signal * 1e6
                )
                at = ends[rank] + latency
                if signal.credit_name is not None:
                    given = ends_of[signal.credit_name][owner, 0] + rates.latency_signal * 1e6
                    at = np.where(left_out[rank], given, at)
                np.maximum.at(known[signal.event_name], (owner, flat), at)
    return longest


def _alone_us(timeline: Timeline, tasks: Records, family: TasksOp) -> Records:
    """Time of each task alone, by rank and grid point."""
    alone = np.zeros((timeline.program.ranks, family.task_count))
    alone[tasks["rank"], timeline.points(tasks)] = tasks["alone"] / 1000
    if len(timeline.totals) == 1:
        alone[:] = alone[0]  # a mirrored run
    return alone
