"""A timed run and its report: bounds, losses, utilisation and slack."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.timing.bounds import Bounds, bounds, routed_rows
from hpmoe_ir.timing.executed_order import ExecutedOrder, Times, executed_order
from hpmoe_ir.timing.losses import Losses, matrix_core_losses
from hpmoe_ir.timing.overlap import Overlap, overlap
from hpmoe_ir.timing.program_bounds import ProgramBounds, program_bounds
from hpmoe_ir.timing.slack import slack_us
from hpmoe_ir.timing.timed_run import RankIntegers, Stages, Timeline
from hpmoe_ir.timing.usage import Utilisation, exposed_communication_us, sending_tasks, utilisation

DIGITS = 6
"""Decimal places of written times, which are in us."""


@dataclass(frozen=True)
class Configuration:
    """The layer, routing, schedule and pipeline of a timed run."""

    layer: str
    """The summary line of the layer."""
    ranks: int
    tokens: tuple[int, ...]
    """Number of tokens of each rank."""
    routing: str
    seed: int
    function: str
    """Name of the program, which is that of the function of its direction."""
    schedule: str
    """Name of the schedule; `passes` or `compiled` for a pipeline without a name."""
    pipeline: str
    """The passes, as `hpmoe-opt -p` takes them."""


@dataclass(frozen=True)
class Simulation:
    """A configuration, its timed run and the quantities derived from it."""

    configuration: Configuration
    timeline: Timeline
    ranks: Sequence[RankIntegers]
    stages: Stages | None = None
    """Stages, if the run was timed as a sequence of operators."""
    serial_us: float | None = None
    """Time of the schedule `serial` in the same configuration, None if it was not timed."""

    @property
    def time_us(self) -> float:
        """Time from the kernel's start to the end of the last core of any rank."""
        return self.timeline.time_us

    @property
    def speedup(self) -> float | None:
        """Speedup over the schedule `serial`, None if that was not timed."""
        return None if self.serial_us is None else self.serial_us / self.time_us

    @cached_property
    def bounds(self) -> Bounds:
        """Lower bounds of the time of any schedule."""
        return bounds(self.timeline, self.ranks)

    @cached_property
    def program_bounds(self) -> ProgramBounds:
        """Lower bounds of the time of any order of this program's tasks."""
        return program_bounds(self.timeline)

    @cached_property
    def overlap(self) -> Overlap:
        """Times of communication, matrix and vector work, and how well they overlap."""
        return overlap(self.timeline)

    @cached_property
    def order(self) -> ExecutedOrder:
        """The dependences of the run."""
        return executed_order(self.timeline)

    @cached_property
    def hottest_rank(self) -> int:
        """The first rank that receives the most rows; 0 in a mirrored run."""
        if self.simulated_ranks == 1:
            return 0
        rows = routed_rows(self.timeline.program, self.ranks)
        return int(np.argmax([int(rank.received.sum()) for rank in rows]))

    @property
    def simulated_ranks(self) -> int:
        """Number of simulated ranks: all, or 1 in a mirrored run."""
        return len(self.timeline.totals)

    @cached_property
    def losses(self) -> Losses:
        """Breakdown of the hottest rank's time over the largest bound."""
        tasks, cores = self.timeline.tasks, self.timeline.program.orders[CoreKind.AIC].core_count
        matrix = np.flatnonzero((tasks["rank"] == self.hottest_rank) & (tasks["core"] < cores))
        return matrix_core_losses(
            self.order,
            matrix,
            sending_tasks(self.timeline),
            cores=cores,
            time_us=self.time_us,
            matrix_us=self.bounds.matrix_us,
            bound_us=self.bounds.bound_us,
            poll_ns=self.timeline.machine.rates.latency_poll * 1e9,
        )

    @cached_property
    def utilisation(self) -> Utilisation:
        """Utilisation of the hottest rank."""
        return utilisation(self.timeline, self.hottest_rank)

    @cached_property
    def exposed_us(self) -> float:
        """Time in us in which the hottest rank communicates without computing."""
        return exposed_communication_us(self.timeline, self.hottest_rank)

    @cached_property
    def slack_us(self) -> Times:
        """Slack of each task in us."""
        return slack_us(self.order, self.time_us, self._task_stage())

    def _task_stage(self) -> IntArray | None:
        if self.stages is None:
            return None
        numbers = [self.stages.stage[name] for name in self.timeline.program.families]
        return np.array(numbers)[self.timeline.tasks["slot"] >> POINT_BITS]

    def json_text(self) -> str:
        """Returns the report as one JSON object in one line; deterministic for a run."""
        timeline, machine = self.timeline, self.timeline.machine
        losses = {name: _rounded(value) for name, value in asdict(self.losses).items()}
        bound, own, parts = self.bounds, self.program_bounds, self.overlap
        content: dict[str, Any] = {
            **asdict(self.configuration),
            "machine": {"name": machine.name, "sha256": machine.digest},
            "simulated_ranks": self.simulated_ranks,
            "hottest_rank": self.hottest_rank,
            "time_us": _rounded(self.time_us),
            "serial_us": None if self.serial_us is None else _rounded(self.serial_us),
            "bound_us": _rounded(bound.bound_us),
            "bound": bound.largest,
            "bounds": {name: _rounded(value) for name, value in asdict(bound).items()},
            "program_bound_us": _rounded(own.bound_us),
            "program_bound": own.largest,
            "program_bounds": {name: _rounded(value) for name, value in asdict(own).items()},
            "overlap": {
                **{name: _rounded(value) for name, value in asdict(parts).items()},
                "reached": _rounded(parts.reached),
            },
            "losses": losses,
            "utilisation": {n: _rounded(v) for n, v in asdict(self.utilisation).items()},
            "exposed_communication_us": _rounded(self.exposed_us),
            "signals": int(timeline.tasks["signals"].sum()),
            "remote_signals": int(timeline.tasks["remote"].sum()),
            "families": list(timeline.program.families),
            "tasks": self._task_columns(),
        }
        return json.dumps(content, separators=(",", ":"))

    def _task_columns(self) -> dict[str, list[int] | list[float]]:
        """Returns the columns of the task table, with an entry for each task."""
        tasks = self.timeline.tasks
        whole = {
            "rank": tasks["rank"],
            "core": tasks["core"],
            "family": tasks["slot"] >> POINT_BITS,
            "point": self.timeline.points(tasks),
            "sender": self.order.sender,
        }
        times = {
            "turn_us": tasks["turn"] / 1000,
            "ready_us": tasks["ready"] / 1000,
            "end_us": tasks["end"] / 1000,
            "busy_us": tasks["busy"] / 1000,
            "slack_us": self.slack_us,
        }
        columns: dict[str, list[int] | list[float]] = {
            name: column.astype(np.int64).tolist() for name, column in whole.items()
        }
        for name, column in times.items():
            columns[name] = (np.round(column, DIGITS) + 0.0).tolist()
        return columns


def _rounded(value: float) -> float:
    return round(value, DIGITS) + 0.0


def json_file(simulations: Sequence[Simulation]) -> bytes:
    """Returns a JSON array with an object for each configuration, one per line."""
    lines = ",\n".join(simulation.json_text() for simulation in simulations)
    return f"[\n{lines}\n]\n".encode()
