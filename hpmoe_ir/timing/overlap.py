"""How well a timed run overlaps communication, matrix and vector work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.analysis.task_roles import is_put
from hpmoe_ir.runtime.task_records import Records
from hpmoe_ir.timing.program_bounds import matrix_tasks_us
from hpmoe_ir.timing.timed_run import Timeline


@dataclass(frozen=True)
class Overlap:
    """Times in us of a launch's parts without each other, and of the launch.

    As the fused MoE kernels of Primus-Turbo report them for each stage: T_comm, T_gemm, T_measured,
    and how much of the possible overlap is reached. There a stage is a launch (dispatch with the
    first product, the second product with combine); here the launch of a direction is the only
    stage with a time of its own, and vector work is a third part.
    """

    comm_us: float
    """T_comm: bytes over the busier direction of the links, or the tasks that put them, evenly
    spread over the vector cores, if that is more; of the rank with most."""
    matrix_us: float
    """T_matrix: the matrix tasks, evenly spread over the matrix cores; of the rank with most."""
    vector_us: float
    """T_vector: the vector tasks that put nothing, evenly spread over the vector cores; of the rank
    with most."""
    measured_us: float
    """T_measured: the time of the launch."""

    @property
    def serial_us(self) -> float:
        """The sum of the three parts: the launch if nothing overlapped."""
        return self.comm_us + self.matrix_us + self.vector_us

    @property
    def ideal_us(self) -> float:
        """The longest part: the launch if everything overlapped."""
        return max(self.comm_us, self.matrix_us, self.vector_us)

    @property
    def reached(self) -> float:
        """The part of the ideal gain that is reached: 1 if only the longest part is seen.

        (T_comm + T_matrix + T_vector - T_measured) / (T_comm + T_matrix + T_vector - max of them);
        below 0 for a launch that takes longer than its parts one after the other.
        """
        ideal = self.serial_us - self.ideal_us
        return (self.serial_us - self.measured_us) / ideal if ideal else 0.0


def overlap(timeline: Timeline) -> Overlap:
    """Returns the overlap of a timed run, from the times that its tasks take alone."""
    program, rates, totals = timeline.program, timeline.machine.rates, timeline.totals
    aiv = program.orders[CoreKind.AIV].core_count
    families = program.families.values()
    puts = np.array([is_put(family) for family in families])
    vector = np.array([family.core_kind is CoreKind.AIV for family in families])
    family = timeline.tasks["slot"] >> POINT_BITS

    def spread(chosen: Records) -> float:
        tasks = timeline.tasks[chosen[family]]
        by_rank = np.bincount(tasks["rank"], tasks["alone"], minlength=1)
        return float(by_rank.max()) / aiv / 1000

    return Overlap(
        comm_us=max(
            float(totals["link_out_bytes"].max()) / rates.shared_bandwidth_link_out * 1e6,
            float(totals["link_in_bytes"].max()) / rates.shared_bandwidth_link_in * 1e6,
            spread(puts),
        ),
        matrix_us=matrix_tasks_us(timeline),
        vector_us=spread(vector & ~puts),
        measured_us=timeline.time_us,
    )
