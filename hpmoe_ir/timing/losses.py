"""The losses of a timed run: a breakdown of the time over its largest lower bound."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from hpmoe_ir.runtime.task_records import Records
from hpmoe_ir.timing.executed_order import ExecutedOrder, Times


@dataclass(frozen=True)
class Losses:
    """Parts of the time over the largest bound, in us, as a mean over one rank's matrix cores."""

    fill_us: float
    """Time before the first matrix task of the rank with rows starts to work."""
    drain_us: float
    """Time from the end of the last matrix task with rows to the end of the run."""
    link_us: float
    """Waiting while the task whose signal arrives last sends its rows over the link."""
    event_us: float
    """Waiting for a signal in all other cases."""
    poll_us: float
    """Time from the arrival of a signal until the core has polled its counter."""
    imbalance_us: float
    """Idle time of cores with no task left, until the rank's last matrix task ends."""
    empty_us: float
    """Time of tasks without rows."""
    stages_us: float
    """Time between two stages: launches, other cores, operators of the vector cores."""
    shared_us: float
    """Extra time of tasks over running alone, as they share memory, L2 and links."""
    tasks_us: float
    """Other time of tasks over the peak of the matrix unit: starts, padding, loads, stores."""
    excused_us: float
    """The matrix cores' bound minus the largest bound; at most 0."""

    @property
    def total_us(self) -> float:
        """The sum of all losses: the time over the largest bound."""
        return sum(getattr(self, field.name) for field in fields(self))


def matrix_core_losses(
    order: ExecutedOrder,
    matrix: Records,
    sends: Records,
    *,
    cores: int,
    time_us: float,
    matrix_us: float,
    bound_us: float,
    poll_ns: float,
) -> Losses:
    """Computes the losses of the rank whose matrix tasks are the rows `matrix` of `order.tasks`.

    `sends` tells for each task of `order` whether it writes into other ranks' memory. `cores` is
    the number of the rank's matrix cores, `time_us` the time of the run, `matrix_us` the bound of
    the products at the peak, `bound_us` the largest bound. `poll_ns` is the time of one poll of a
    counter, which is part of `alone` of a task.
    """
    tasks, end = order.tasks[matrix], time_us * 1000
    works = tasks["busy"] > 0
    first = float(tasks["start"][works].min(initial=end))
    last = float(tasks["end"][works].max(initial=first))
    arrival = np.clip(order.arrival[matrix], tasks["turn"], tasks["ready"])
    send_start = np.clip(send_starts(order, sends)[matrix], tasks["turn"], arrival)

    def within(begins: Times, ends: Times) -> Times:
        return np.maximum(np.minimum(ends, last) - np.maximum(begins, first), 0)

    work = within(tasks["ready"], tasks["end"])
    polled = np.minimum(poll_ns, tasks["ready"] - tasks["turn"])
    longer = tasks["done"] - tasks["ready"] + polled - tasks["alone"]
    shared = np.where(works, np.clip(longer, 0, work), 0)
    queued = order.first_of_queue[matrix]
    before = np.where(queued, 0, np.roll(tasks["end"], 1))
    ends = tasks["end"][np.roll(queued, -1)]
    idle = float(within(ends, np.full_like(ends, last)).sum())
    idle += (cores - len(ends)) * (last - first)

    def mean(values: Times) -> float:
        return float(values.sum()) / cores / 1000

    return Losses(
        fill_us=first / 1000,
        drain_us=(end - last) / 1000,
        link_us=mean(within(send_start, arrival)),
        event_us=mean(within(tasks["turn"], send_start)),
        poll_us=mean(within(arrival, tasks["ready"])),
        imbalance_us=idle / cores / 1000,
        empty_us=mean(work[~works]),
        stages_us=mean(within(before, tasks["turn"])),
        shared_us=mean(shared),
        tasks_us=mean(work[works]) - mean(shared) - matrix_us,
        excused_us=matrix_us - bound_us,
    )


def send_starts(order: ExecutedOrder, sends: Records) -> Times:
    """Returns when the sender of each task's last signal began to send its rows, in ns.

    inf for tasks whose last signal is not from a task that sends rows to another rank.
    """
    sender = order.sender
    remote = (sender >= 0) & sends[sender]
    return np.where(remote, order.tasks["ready"][sender], np.inf)
