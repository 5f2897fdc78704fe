"""Dependences of a timed run: the order of its queues, and its signals with their arrivals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dialects.access import cut_tiles
from hpmoe_ir.dialects.index import IntArray, evaluate_index, flat_events
from hpmoe_ir.dialects.queue import POINT_BITS, POINT_MASK, WaitOp
from hpmoe_ir.dialects.tile import TasksOp
from hpmoe_ir.runtime.task_records import Records
from hpmoe_ir.timing.mirrored import mirrored_lines
from hpmoe_ir.timing.timed_run import Timeline

Times: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class ExecutedOrder:
    """The dependences of a timed run.

    Tasks are numbered by their row in `tasks`; counters are numbered over all ranks. In a mirrored
    run, a signal to a peer stands for the corresponding signal from a peer.
    """

    tasks: Records
    """Records of type `TASK`, sorted by rank, core and time."""
    signal_task: IntArray
    signal_counter: IntArray
    signal_latency: Times
    """Time from the sender's `done` to the arrival, in ns."""
    wait_task: IntArray
    wait_counter: IntArray
    counters: int
    """Number of counters of all ranks."""

    @cached_property
    def last_signal(self) -> IntArray:
        """The signal that arrived last at each counter, -1 for none."""
        arrival = self.tasks["done"][self.signal_task] + self.signal_latency
        last = np.full(self.counters, -1, dtype=np.int64)
        ascending = np.argsort(arrival, kind="stable")
        last[self.signal_counter[ascending]] = ascending
        return last

    @cached_property
    def arrival(self) -> Times:
        """The arrival of the last signal that each task waits for, in ns; -inf for none."""
        times = np.full(len(self.tasks), -np.inf)
        signal = self.last_signal[self.wait_counter]
        known = signal >= 0
        np.maximum.at(times, self.wait_task[known], self._arrivals(signal[known]))
        return np.minimum(times, self.tasks["ready"])

    @cached_property
    def sender(self) -> IntArray:
        """The task whose signal arrived last of those that each task waits for; -1 for none."""
        senders = np.full(len(self.tasks), -1, dtype=np.int64)
        signal = self.last_signal[self.wait_counter]
        known = np.flatnonzero(signal >= 0)
        ascending = known[np.argsort(self._arrivals(signal[known]), kind="stable")]
        senders[self.wait_task[ascending]] = self.signal_task[signal[ascending]]
        return senders

    def _arrivals(self, signal: IntArray) -> Times:
        return self.tasks["done"][self.signal_task[signal]] + self.signal_latency[signal]

    @cached_property
    def first_of_queue(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each task is the first of its queue."""
        first = np.ones(len(self.tasks), dtype=np.bool_)
        same = np.diff(self.tasks["rank"]) == 0
        first[1:] = ~(same & (np.diff(self.tasks["core"]) == 0))
        return first


def executed_order(timeline: Timeline) -> ExecutedOrder:
    """Computes the dependences of a timed run from the events and queues of its program.

    Approximates the times of signals: all signals of a task leave with its first one, and credits
    leave when their task ends.
    """
    program, rates, tasks = timeline.program, timeline.machine.rates, timeline.tasks
    ranks, count = len(timeline.totals), program.counter_count
    mirrored = ranks < program.ranks
    signals: list[tuple[IntArray, IntArray, Times]] = []
    waits: list[tuple[IntArray, IntArray]] = []
    rows_of: dict[str, IntArray] = {}
    for number, (name, family) in enumerate(program.families.items()):
        points, size = family.coordinates(), family.task_count
        rows = np.flatnonzero(tasks["slot"] >> POINT_BITS == number)
        row_of = np.zeros((ranks, size), dtype=np.int64)
        row_of[tasks["rank"][rows], tasks["slot"][rows] & POINT_MASK] = rows
        rows_of[name] = row_of
        left_out = timeline.left_out(name)
        for rank in range(ranks):
            for wait in program.waits:
                if wait.family_name != name:
                    continue
                event = program.events[wait.event_name]
                if wait.event_range is not None:
                    task, flat = _range_events(timeline, wait, family, rank)
                    waits.append((row_of[rank, task], flat + event.first_line() + rank * count))
                    continue
                flat = flat_events(wait.index_exprs, event.extents, points, rank, size)
                waits.append((row_of[rank], flat + event.first_line() + rank * count))
            for signal in program.signals:
                if signal.family_name != name:
                    continue
                event = program.events[signal.event_name]
                flat = flat_events(signal.index_exprs, event.extents, points, rank, size)
                line = flat + event.first_line()
                owner = np.full(size, rank)
                if signal.peer_expr is not None:
                    owner = np.broadcast_to(evaluate_index(signal.peer_expr, points, rank), size)
                    if mirrored:
                        line = mirrored_lines(program, signal)
                latency = np.where(owner == rank, rates.latency_signal, rates.latency_remote_signal)
                at = line if mirrored else line + owner * count
                sent = np.ones(size, dtype=bool)
                if signal.credit_name is not None:
                    sent = ~left_out[rank]
                    at_credit = np.unique(at[~sent])
                    giver = rows_of[signal.credit_name][at_credit // count, 0]
                    later = tasks["end"][giver] - tasks["done"][giver]
                    signals.append((giver, at_credit, later + rates.latency_signal * 1e9))
                signals.append((row_of[rank][sent], at[sent], latency[sent] * 1e9))
    none = np.empty(0, dtype=np.int64)
    return ExecutedOrder(
        tasks,
        signal_task=np.concatenate([none, *(s[0] for s in signals)]),
        signal_counter=np.concatenate([none, *(s[1] for s in signals)]),
        signal_latency=np.concatenate([np.empty(0), *(s[2] for s in signals)]),
        wait_task=np.concatenate([none, *(w[0] for w in waits)]),
        wait_counter=np.concatenate([none, *(w[1] for w in waits)]),
        counters=count * ranks,
    )


def _range_events(
    timeline: Timeline, wait: WaitOp, family: TasksOp, rank: int
) -> tuple[IntArray, IntArray]:
    """Returns the pairs of a task of a family on a rank and an event of its range."""
    among = wait.event_range
    assert among is not None
    ranks, experts = timeline.sent.shape
    own = slice(rank * experts // ranks, (rank + 1) * experts // ranks)
    tiles = cut_tiles(among.cut, timeline.sent[:, own].T)
    extents = timeline.program.events[wait.event_name].extents[among.dims :]
    points, size = family.coordinates(), family.task_count
    last = flat_events(wait.index_exprs, extents, points, rank, size)
    values = {e: np.broadcast_to(evaluate_index(e, points, rank), (size,)) for e in among.exprs}
    found = [among.events(tiles, lambda e, i=i: int(values[e][i])) for i in range(size)]
    counts = np.array([end - begin for begin, end in found], dtype=np.int64)
    task = np.repeat(np.arange(size), counts)
    first = np.concatenate([np.arange(*events) for events in found])
    return task, first.astype(np.int64) * prod(extents) + last[task]
