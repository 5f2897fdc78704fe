"""Policy `list`: list scheduling with critical-path priorities and simulated ready times.

The classic heuristic for tasks on heterogeneous processors (Graham 1969; priorities by the longest
path to the end as in HEFT, Topcuoglu and others 2002): a free core takes, of the ready tasks, the
one with the longest path to the end of the program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.passes.analysis.task_roles import FamilyGraph, expert_of, expert_places
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.scheduling.list_schedule import Times, list_schedule
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput
from hpmoe_ir.passes.scheduling.task_graph import TaskGraph, task_graph


@dataclass(frozen=True)
class ListOrder(Policy):
    """List schedule of one rank, used on all ranks; see `task_graph`.

    Ties go to the lower expert. Times are for balanced routing; the order is safe for any routing.
    """

    name = "list"

    def __call__(self, work: SchedulingInput) -> Order:
        graph = task_graph(work.families, work.dependences, work.ranks)
        times = Times.of(work)
        depths = FamilyGraph.of_dependences(work.families, work.dependences).depths()
        length = critical_path_lengths(graph, times, depths, work.machine)
        return list_schedule(work, graph, times, priorities(work, [-np.round(length, 9)]))


def priorities(work: SchedulingInput, keys: list[Float64Array | IntArray]) -> IntArray:
    """Returns each task's rank in the order of `keys`; ties by expert, then place in its family.

    Each array of `keys` has one value for each task of all families, most significant array first.
    Returns int64[task_count], 0 for the most urgent task.
    """
    experts: list[IntArray] = []
    places: list[IntArray] = []
    for family in work.families:
        expert = expert_of(family)
        places.append(expert_places(family, expert))
        experts.append(np.zeros_like(places[-1]) if expert is None else expert)
    none = np.zeros(0, np.int64)
    ties = [np.concatenate([*experts, none]), np.concatenate([*places, none])]
    order = np.lexsort([*ties[::-1], *keys[::-1]])
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    return numbers


def critical_path_lengths(
    graph: TaskGraph, times: Times, depths: list[int], machine: Machine
) -> Float64Array:
    """Returns for each task the length of its critical path: the longest chain that starts with it.

    float64[task_count], in seconds, from the start of the task; signal latencies included.
    """
    length = times.core.copy()
    for family in sorted(range(len(depths)), key=lambda i: -depths[i]):
        begin, end = graph.first[family], graph.first[family + 1]
        after = np.zeros(end - begin)
        for d in graph.dependences:
            if d.producer != family:
                continue
            follows = np.zeros(d.count)
            waiting = length[graph.first[d.consumer] : graph.first[d.consumer + 1]]
            np.maximum.at(follows, d.waited, waiting)
            delay = (
                machine.rates.latency_remote_signal if d.remote else machine.rates.latency_signal
            )
            np.maximum.at(after, d.points, follows[d.events] + delay)
        length[begin:end] += after
    return length
