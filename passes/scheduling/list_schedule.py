"""List scheduling of the tasks of a rank: a free core takes the most urgent ready task.

A task is ready when its events are reached. Durations are those of `task_times`; puts occupy
the link one after the other. The order in which tasks start is the order for all ranks; it is safe
since a task starts only after all its producers have ended.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.scheduling.free_cores import FreeCores, Lanes
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput
from hpmoe_ir.passes.scheduling.task_graph import TaskGraph
from hpmoe_ir.passes.scheduling.task_times import task_times


@dataclass(frozen=True)
class Times:
    """Estimated times of all tasks of a rank, in seconds (`TaskTimes`, family after family)."""

    core: Float64Array
    link: Float64Array

    @classmethod
    def of(cls, work: SchedulingInput) -> Times:
        """Computes the times of all tasks of a policy's input."""
        each = [task_times(family, work) for family in work.families]
        if not each:
            return cls(np.zeros(0), np.zeros(0))
        return cls(np.concatenate([t.core for t in each]), np.concatenate([t.link for t in each]))


@dataclass(frozen=True)
class Limit:
    """A concurrency limit: at most `most` of the tasks in the mask `tasks` run at a time."""

    tasks: BoolArray
    most: int
    apart: bool = False
    """Whether these tasks prefer the `most` highest-numbered cores, which other tasks take only
    when no other core is free; it keeps tasks that may wait long out of the other cores' queues."""


def list_schedule(
    work: SchedulingInput,
    graph: TaskGraph,
    times: Times,
    priority: IntArray,
    limits: Sequence[Limit] = (),
    lanes: Lanes | None = None,
) -> Order:
    """Simulates one rank and returns the order in which tasks start, and the core of each.

    `priority` ([N]) is a number for each task, lowest first. Tasks of a limit are held back while
    its bound is reached; limits must not overlap each other or the lanes.
    """
    return _Simulation(work, graph, times, priority, limits, lanes).run()


class _Simulation:
    """Event-driven simulation of the cores of one rank."""

    def __init__(
        self,
        work: SchedulingInput,
        graph: TaskGraph,
        times: Times,
        priority: IntArray,
        limits: Sequence[Limit],
        lanes: Lanes | None,
    ) -> None:
        self.work, self.graph = work, graph
        limit = np.zeros(graph.task_count, dtype=np.int64)
        for number, found in enumerate(limits, 1):
            limit[found.tasks] = number
        self.limit: list[int] = limit.tolist()
        self.apart = [False, *(found.apart for found in limits)]
        self.left = [graph.task_count, *(found.most for found in limits)]
        self.held: dict[CoreKind, list[list[tuple[int, int]]]] = {
            kind: [[] for _ in self.left] for kind in work.cores
        }
        self.core_time, self.link_time = times.core.tolist(), times.link.tolist()
        self.priority = priority.tolist()
        self.kind = [f.core_kind for f in work.families for _ in range(f.task_count)]
        self.remote_delay = work.machine.rates.latency_remote_signal
        self.local_delay = work.machine.rates.latency_signal
        self._link_events()
        apart: dict[CoreKind, int] = {
            self.kind[int(np.argmax(found.tasks))]: found.most
            for found in limits
            if found.apart and found.tasks.any()
        }
        self.free = {kind: FreeCores(n, apart.get(kind, 0)) for kind, n in work.cores.items()}
        self.ready: dict[CoreKind, list[tuple[int, int]]] = {kind: [] for kind in work.cores}
        lanes = lanes or Lanes(CoreKind.AIV, np.full(graph.task_count, -1), 0)
        self.lane: list[int] = lanes.lane.tolist()
        self.lane_left, self.lane_cores = lanes.sizes, self.free[lanes.kind]
        self.lane_ready: list[list[tuple[int, int]]] = [[] for _ in range(lanes.count)]
        self.taken = np.full(graph.task_count, -1, dtype=np.int64)
        self.core = np.zeros(graph.task_count, dtype=np.int64)

    def _link_events(self) -> None:
        """Numbers all events and lists the signallers and waiters of each."""
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
        """Runs all tasks; tasks whose events are never reached come last in the order."""
        agenda: list[tuple[float, int, int]] = []
        for event, missing in enumerate(self.missing):
            if missing == 0 and self.waiters[event]:
                heapq.heappush(agenda, (0.0, 0, event))
        for task, unmet in enumerate(self.unmet):
            if unmet == 0:
                self._make_ready(task)
        now, number, link_free = 0.0, 0, 0.0
        while True:
            for task in self._taken_now():
                self.taken[task] = number
                number += 1
                end = now + self.core_time[task]
                if self.link_time[task]:
                    link_free = max(link_free, now) + self.link_time[task]
                    end = max(end, link_free)
                heapq.heappush(agenda, (end, 1, task))
            if not agenda:
                break
            now = agenda[0][0]
            while agenda and agenda[0][0] <= now:
                _, is_task, which = heapq.heappop(agenda)
                if is_task:
                    self._end(which, now, agenda)
                else:
                    self._reach(which)
        return self._order(number)

    def _make_ready(self, task: int) -> None:
        entry, lane = (self.priority[task], task), self.lane[task]
        if lane < 0:
            heapq.heappush(self.ready[self.kind[task]], entry)
        else:
            heapq.heappush(self.lane_ready[lane], entry)
            self.lane_cores.begin_lane(lane)

    def _taken_now(self) -> Iterator[int]:
        """Assigns ready tasks to free cores, and yields each."""
        for lane, ready in enumerate(self.lane_ready):
            if not ready:
                continue
            core = self.lane_cores.take_of_lane(lane, self.lane_left[lane] == 1)
            if core is not None:
                self.lane_left[lane] -= 1
                task = heapq.heappop(ready)[1]
                self.core[task] = core
                yield task
        for kind, ready in self.ready.items():
            free = self.free[kind]
            while free and (task := self._next(ready, self.held[kind])) is not None:
                self.core[task] = free.take(self.apart[self.limit[task]])
                yield task

    def _next(self, ready: list[tuple[int, int]], held: list[list[tuple[int, int]]]) -> int | None:
        """Takes the most urgent task whose limit is not reached, or None."""
        while ready and self.left[self.limit[ready[0][1]]] == 0:
            entry = heapq.heappop(ready)
            heapq.heappush(held[self.limit[entry[1]]], entry)
        first = ready
        for tasks, left in zip(held, self.left, strict=True):
            if tasks and left and (not first or tasks[0] < first[0]):
                first = tasks
        if not first:
            return None
        task = heapq.heappop(first)[1]
        self.left[self.limit[task]] -= 1
        return task

    def _end(self, task: int, now: float, agenda: list[tuple[float, int, int]]) -> None:
        self.free[self.kind[task]].give(int(self.core[task]))
        self.left[self.limit[task]] += 1
        for event in self.signals[task]:
            self.missing[event] -= 1
            if self.missing[event] == 0:
                delay = self.remote_delay if self.remote[event] else self.local_delay
                heapq.heappush(agenda, (now + delay, 0, event))

    def _reach(self, event: int) -> None:
        for task in self.waiters[event]:
            self.unmet[task] -= 1
            if self.unmet[task] == 0:
                self._make_ready(task)

    def _order(self, number: int) -> Order:
        left = np.flatnonzero(self.taken < 0)
        self.taken[left] = number + np.arange(len(left))
        cuts = self.graph.first[1:-1]
        keys = [k[:, None] for k in np.split(self.taken, cuts)]
        if not self.work.families:
            return Order([])
        return Order(keys, cores=np.split(self.core, cuts))


def _grouped(pairs: list[tuple[IntArray, IntArray]], count: int) -> list[list[int]]:
    """Groups the second numbers of pairs by the first numbers, which are below `count`."""
    first = np.concatenate([*(a for a, _ in pairs), np.zeros(0, np.int64)])
    second = np.concatenate([*(b for _, b in pairs), np.zeros(0, np.int64)])
    order = np.argsort(first, kind="stable")
    ends = np.cumsum(np.bincount(first, minlength=count)).tolist()
    values = second[order].tolist()
    return [values[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if count else []
