"""List scheduling of the tasks of a rank: what is ready and most urgent goes first.

A core that gets free takes, of all tasks whose events are reached, the one with the first priority.
Times are those of `task_times`; puts queue up for the link. The order in which tasks are taken is
an order for all ranks: a task is taken when all that it waits for has ended.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.passes.order_policy import Order, Work
from hpmoe_ir.passes.task_graph import TaskGraph
from hpmoe_ir.passes.task_times import FloatArray, task_times


@dataclass(frozen=True)
class Times:
    """Times of all tasks of a rank, in seconds."""

    core: FloatArray
    link: FloatArray

    @classmethod
    def of(cls, work: Work) -> Times:
        """The times of the tasks that a policy is given."""
        each = [task_times(family, work) for family in work.families]
        if not each:
            return cls(np.zeros(0), np.zeros(0))
        return cls(np.concatenate([t.core for t in each]), np.concatenate([t.link for t in each]))


def list_schedule(work: Work, graph: TaskGraph, times: Times, priority: IntArray) -> Order:
    """The order in which cores take the tasks, and the core of each; lower priority goes first."""
    return _Simulation(work, graph, times, priority).run()


class _Simulation:
    """Cores of one rank that take tasks as time goes on."""

    def __init__(self, work: Work, graph: TaskGraph, times: Times, priority: IntArray) -> None:
        self.work, self.graph = work, graph
        self.core_time, self.link_time = times.core.tolist(), times.link.tolist()
        self.priority = priority.tolist()
        self.kind = [f.core.data for f in work.families for _ in range(f.task_count)]
        self.remote_delay = work.machine.rates.latency_remote_signal
        self.local_delay = work.machine.rates.latency_signal
        self._link_events()
        self.free = {kind: list(range(n)) for kind, n in work.cores.items()}
        self.ready: dict[str, list[tuple[int, int]]] = {kind: [] for kind in work.cores}
        self.taken = np.full(graph.task_count, -1, dtype=np.int64)
        self.core = np.zeros(graph.task_count, dtype=np.int64)

    def _link_events(self) -> None:
        """Numbers all events, and lists who counts and who waits."""
        graph = self.graph
        counts: list[IntArray] = []
        pairs: list[tuple[IntArray, IntArray]] = []
        waits: list[tuple[IntArray, IntArray]] = []
        self.remote: list[bool] = []
        begin = 0
        for d in graph.dependences:
            counts.append(np.bincount(d.events, minlength=d.count))
            pairs.append((d.points + graph.first[d.producer], d.events + begin))
            waiting = np.arange(len(d.waited)) + graph.first[d.consumer]
            waits.append((waiting, d.waited + begin))
            self.remote += [d.remote] * d.count
            begin += d.count
        self.missing = np.concatenate([*counts, np.zeros(0, np.int64)]).tolist()
        self.signals = _grouped(pairs, graph.task_count)
        self.waiters = _grouped([(e, t) for t, e in waits], begin)
        tasks = np.concatenate([*(t for t, _ in waits), np.zeros(0, np.int64)])
        self.unmet: list[int] = np.bincount(tasks, minlength=graph.task_count).tolist()

    def run(self) -> Order:
        """Takes all tasks; a program whose events are never reached leaves some for the end."""
        happenings: list[tuple[float, int, int]] = []
        for event, missing in enumerate(self.missing):
            if missing == 0 and self.waiters[event]:
                heapq.heappush(happenings, (0.0, 0, event))
        for task, unmet in enumerate(self.unmet):
            if unmet == 0:
                heapq.heappush(self.ready[self.kind[task]], (self.priority[task], task))
        now, number, link_free = 0.0, 0, 0.0
        while True:
            for kind, ready in self.ready.items():
                free = self.free[kind]
                while ready and free:
                    _, task = heapq.heappop(ready)
                    self.core[task] = heapq.heappop(free)
                    self.taken[task] = number
                    number += 1
                    end = now + self.core_time[task]
                    if self.link_time[task]:
                        link_free = max(link_free, now) + self.link_time[task]
                        end = max(end, link_free)
                    heapq.heappush(happenings, (end, 1, task))
            if not happenings:
                break
            now = happenings[0][0]
            while happenings and happenings[0][0] <= now:
                _, is_task, which = heapq.heappop(happenings)
                if is_task:
                    self._end(which, now, happenings)
                else:
                    self._reach(which)
        return self._order(number)

    def _end(self, task: int, now: float, happenings: list[tuple[float, int, int]]) -> None:
        heapq.heappush(self.free[self.kind[task]], int(self.core[task]))
        for event in self.signals[task]:
            self.missing[event] -= 1
            if self.missing[event] == 0:
                delay = self.remote_delay if self.remote[event] else self.local_delay
                heapq.heappush(happenings, (now + delay, 0, event))

    def _reach(self, event: int) -> None:
        for task in self.waiters[event]:
            self.unmet[task] -= 1
            if self.unmet[task] == 0:
                heapq.heappush(self.ready[self.kind[task]], (self.priority[task], task))

    def _order(self, number: int) -> Order:
        left = np.flatnonzero(self.taken < 0)
        self.taken[left] = number + np.arange(len(left))
        cuts = self.graph.first[1:-1]
        keys = [k[:, None] for k in np.split(self.taken, cuts)]
        if not self.work.families:
            return Order([])
        return Order(keys, cores=np.split(self.core, cuts))


def _grouped(pairs: list[tuple[IntArray, IntArray]], count: int) -> list[list[int]]:
    """The second numbers of pairs by the first ones, which are below `count`."""
    first = np.concatenate([*(a for a, _ in pairs), np.zeros(0, np.int64)])
    second = np.concatenate([*(b for _, b in pairs), np.zeros(0, np.int64)])
    order = np.argsort(first, kind="stable")
    ends = np.cumsum(np.bincount(first, minlength=count)).tolist()
    values = second[order].tolist()
    return [values[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if count else []
