"""Where the time went that a timed run took over its bound: in us, adding up to it."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from hpmoe_ir.runtime.task_records import Records
from hpmoe_ir.timing.executed_order import ExecutedOrder, Times


@dataclass(frozen=True)
class Losses:
    """Parts of the time over the bound, in us, as a mean over the matrix cores of one rank."""

    fill_us: float
    """Before the first matrix task of the rank that has rows begins its work."""
    drain_us: float
    """From the end of the last matrix task that has rows to the end of the run."""
    link_us: float
    """Waiting while the task whose signal came last sent its rows over the link."""
    event_us: float
    """Waiting for a signal otherwise."""
    poll_us: float
    """The signal was there: until the core had looked and knew it."""
    imbalance_us: float
    """Nothing left to do, until the last core of the rank is done."""
    empty_us: float
    """Tasks without rows."""
    stages_us: float
    """Between two stages: launches, other cores, operators that are not of the matrix cores."""
    shared_us: float
    """Tasks that took longer than alone, as they shared memory, L2 and links."""
    tasks_us: float
    """What else tasks took over the peak of the matrix unit: starts, padding, loads, stores."""
    excused_us: float
    """0 or less: what the largest bound has over that of the matrix cores."""

    @property
    def total_us(self) -> float:
        """All of them: the time over the largest bound."""
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
    look_ns: float,
) -> Losses:
    """The losses of the rank whose matrix tasks are the rows `matrix` of `order.tasks`.

    `sends` says for each task whether it writes into other ranks' memory. `cores` is the number of
    the rank's matrix cores, `look_ns` what a look at a counter takes, which `alone` contains.
    """
    tasks, end = order.tasks[matrix], time_us * 1000
    works = tasks["busy"] > 0
    first = float(tasks["start"][works].min(initial=end))
    last = float(tasks["end"][works].max(initial=first))
    arrival = np.clip(order.arrival[matrix], tasks["turn"], tasks["ready"])
    shipped = np.clip(sent_since(order, sends)[matrix], tasks["turn"], arrival)

    def within(begins: Times, ends: Times) -> Times:
        return np.maximum(np.minimum(ends, last) - np.maximum(begins, first), 0)

    work = within(tasks["ready"], tasks["end"])
    looked = np.minimum(look_ns, tasks["ready"] - tasks["turn"])
    longer = tasks["done"] - tasks["ready"] + looked - tasks["alone"]
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
        link_us=mean(within(shipped, arrival)),
        event_us=mean(within(tasks["turn"], shipped)),
        poll_us=mean(within(arrival, tasks["ready"])),
        imbalance_us=idle / cores / 1000,
        empty_us=mean(work[~works]),
        stages_us=mean(within(before, tasks["turn"])),
        shared_us=mean(shared),
        tasks_us=mean(work[works]) - mean(shared) - matrix_us,
        excused_us=matrix_us - bound_us,
    )


def sent_since(order: ExecutedOrder, sends: Records) -> Times:
    """For each task, ns at which the sender of its last signal began to send rows; inf without."""
    sender = order.sender
    remote = (sender >= 0) & sends[sender]
    return np.where(remote, order.tasks["ready"][sender], np.inf)
