"""Slack of the tasks of a timed run: the delay of each that leaves the total time unchanged."""

from __future__ import annotations

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.timing.executed_order import ExecutedOrder, Times


def slack_us(order: ExecutedOrder, time_us: float, stage: IntArray | None = None) -> Times:
    """Computes the slack of each task in us, over the queues and signals of an executed run.

    The time from a task's last trigger (the end of its predecessor in the queue, or its last
    signal) to its end is assumed constant, polls included. `stage` is the stage of each task in a
    run of operators; no task may then end later than the last of its stage and rank.
    """
    tasks, count = order.tasks, len(order.tasks)
    limit = np.full(count, time_us * 1000)
    if stage is not None:
        _, group = np.unique(np.stack([stage, tasks["rank"]]), axis=1, return_inverse=True)
        ends = np.zeros(count)
        np.maximum.at(ends, group.ravel(), tasks["end"])
        limit = ends[group.ravel()]
    queued = ~order.first_of_queue
    before = np.where(queued, np.roll(tasks["end"], 1), 0.0)
    after: list[float] = (tasks["end"] - np.maximum(before, order.arrival)).tolist()
    rest: list[float] = (tasks["end"] - tasks["done"]).tolist()
    signals = _by_task(order.signal_task, count)
    waits = _by_task(order.wait_task, count)
    signal_counter: list[int] = order.signal_counter.tolist()
    signal_latency: list[float] = order.signal_latency.tolist()
    wait_counter: list[int] = order.wait_counter.tolist()
    latest: list[float] = limit.tolist()
    counters: list[float] = [float("inf")] * order.counters
    # A task is ready after its predecessor in the queue and after the tasks that signal it.
    latest_first: list[int] = np.lexsort((np.arange(count), tasks["ready"]))[::-1].tolist()
    for task in latest_first:
        for signal in signals[task]:
            allowed = counters[signal_counter[signal]] - signal_latency[signal] + rest[task]
            latest[task] = min(latest[task], allowed)
        trigger = latest[task] - after[task]
        if queued[task]:
            latest[task - 1] = min(latest[task - 1], trigger)
        for wait in waits[task]:
            counter = wait_counter[wait]
            counters[counter] = min(counters[counter], trigger)
    return (np.array(latest) - tasks["end"]) / 1000


def _by_task(task: IntArray, count: int) -> list[list[int]]:
    """Returns the indices in `task` at which each of `count` tasks occurs."""
    indices: list[list[int]] = [[] for _ in range(count)]
    owners: list[int] = task.tolist()
    for index, owner in enumerate(owners):
        indices[owner].append(index)
    return indices
