"""List scheduling on programs whose best order is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.dialects.index import RANK
from hpmoe_ir.dialects.tile import DependenceOp, TasksOp
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.passes.policies.list_order import critical_path_lengths
from hpmoe_ir.passes.scheduling.free_cores import Lanes
from hpmoe_ir.passes.scheduling.list_schedule import Limit, Times, list_schedule
from hpmoe_ir.passes.scheduling.order import SchedulingInput
from hpmoe_ir.passes.scheduling.task_graph import task_graph

MACHINE = load_machine("ascend-a3")
# Signals that take no time make times easy to read.
FAST = replace(MACHINE, rates=replace(MACHINE.rates, latency_signal=0.0, latency_remote_signal=0.0))
D0 = AffineExpr.dimension(0)


def family(name: str, count: int, core: CoreKind = CoreKind.AIV) -> TasksOp:
    return TasksOp(name, [("i", count)], core, "copy_rows", [], [])


def waits(
    first: TasksOp, second: TasksOp, events: int, peer: AffineExpr | None = None
) -> DependenceOp:
    """Task i of the second waits for task i of the first, on the rank that `peer` says."""
    counts = np.ones(events, dtype=np.int64)
    return DependenceOp(first, second, ["b"], [events], [D0], [D0], counts, peer)


def work_of(
    families: list[TasksOp], dependences: list[DependenceOp], cores: int
) -> SchedulingInput:
    return SchedulingInput(
        families, dependences, {}, 1, FAST, {CoreKind.AIC: cores, CoreKind.AIV: cores}
    )


def test_critical_path_lengths_of_a_chain():
    a, b = family("a", 2), family("b", 2, CoreKind.AIC)
    dependences = [waits(a, b, 2)]
    graph = task_graph([a, b], dependences, 1)
    times = Times(np.array([1.0, 2.0, 10.0, 20.0]), np.zeros(4))
    length = critical_path_lengths(graph, times, [0, 1], FAST)
    np.testing.assert_allclose(length, [11, 22, 10, 20])
    slow = critical_path_lengths(graph, times, [0, 1], MACHINE)
    np.testing.assert_allclose(slow - length, [MACHINE.rates.latency_signal] * 2 + [0, 0])


def test_the_first_priority_goes_first_and_all_cores_work():
    a = family("a", 4)
    work = work_of([a], [], 2)
    graph = task_graph([a], [], 1)
    order = list_schedule(
        work, graph, Times(np.array([5.0, 1.0, 1.0, 1.0]), np.zeros(4)), np.array([3, 0, 1, 2])
    )
    assert order.cores is not None
    assert order.keys[0][:, 0].tolist() == [3, 0, 1, 2]
    # Core 0 and core 1 take tasks 1 and 2, then tasks 3 and 0.
    assert order.cores[0].tolist() == [1, 0, 1, 0]


def test_nothing_is_taken_before_it_is_ready():
    """The most urgent task of b has to wait for the last of a; the others go first."""
    a, b = family("a", 3), family("b", 3)
    work = work_of([a, b], [waits(a, b, 3)], 1)
    graph = task_graph([a, b], work.dependences, 1)
    order = list_schedule(work, graph, Times(np.ones(6), np.zeros(6)), np.array([0, 1, 5, 3, 4, 2]))
    taken = np.argsort(np.concatenate(order.keys)[:, 0]).tolist()
    assert taken == [0, 1, 3, 4, 2, 5]


def test_puts_share_the_link():
    """Two cores put at a time, but the link brings one after the other."""
    a, b = family("a", 2), family("b", 2, CoreKind.AIC)
    work = work_of([a, b], [waits(a, b, 2)], 2)
    graph = task_graph([a, b], work.dependences, 1)
    times = Times(np.array([1.0, 1.0, 9.0, 1.0]), np.array([4.0, 4.0, 0.0, 0.0]))
    order = list_schedule(work, graph, times, np.array([1, 0, 0, 1]))
    assert np.concatenate(order.keys)[:, 0].tolist() == [1, 0, 3, 2]


def test_tasks_under_a_limit_are_held_and_others_go_on():
    """One task of the first family at a time, though two cores are free for them."""
    a, b = family("limited", 3), family("free", 3)
    work = work_of([a, b], [], 2)
    graph = task_graph([a, b], [], 1)
    limited = np.array([True] * 3 + [False] * 3)
    times, first = Times(np.ones(6), np.zeros(6)), np.arange(6)
    free = list_schedule(work, graph, times, first)
    assert np.argsort(np.concatenate(free.keys)[:, 0]).tolist() == [0, 1, 2, 3, 4, 5]
    held = list_schedule(work, graph, times, first, [Limit(limited, 1)])
    assert np.argsort(np.concatenate(held.keys)[:, 0]).tolist() == [0, 3, 1, 4, 2, 5]


def test_tasks_that_are_set_apart_have_the_last_cores():
    a, b = family("apart", 4), family("others", 4)
    work = work_of([a, b], [], 4)
    graph = task_graph([a, b], [], 1)
    limit = Limit(np.array([True] * 4 + [False] * 4), 2, apart=True)
    order = list_schedule(work, graph, Times(np.ones(8), np.zeros(8)), np.arange(8), [limit])
    assert order.cores is not None
    assert set(order.cores[0].tolist()) == {2, 3}
    assert set(order.cores[1].tolist()) == {0, 1}


def test_a_lane_has_a_core_of_its_own_and_keeps_its_order():
    """Others are taken by the other core, also where they are more urgent."""
    a, b = family("lane", 3), family("others", 3)
    work = work_of([a, b], [], 2)
    graph = task_graph([a, b], [], 1)
    times, first = Times(np.array([4.0, 4.0, 1.0, 1.0, 1.0, 20.0]), np.zeros(6)), np.arange(6)[::-1]
    free = list_schedule(work, graph, times, first)
    assert free.keys[0][:, 0].argsort().tolist() == [2, 1, 0]
    assert free.keys[0].min() > free.keys[1].max()
    lane = Lanes(CoreKind.AIV, np.array([0, 0, 0, -1, -1, -1]), 1)
    order = list_schedule(work, graph, times, first, lanes=lane)
    assert order.cores is not None
    assert order.cores[0].tolist() == [1, 1, 1]
    assert np.concatenate(order.keys)[:, 0].argsort().tolist() == [2, 5, 1, 0, 4, 3]
    # Once the lane is done, its core takes what is left.
    assert order.cores[1].tolist() == [1, 1, 0]


@pytest.mark.parametrize("rotated", [True, False])
def test_what_other_ranks_put_comes_with_the_own_tasks_of_the_same_points(rotated: bool):
    """Puts counted from the rank: the p-th one by another rank comes with this rank's p-th."""
    a, b = family("put", 4), family("take", 4, CoreKind.AIC)
    peer = (RANK + D0) % 4 if rotated else D0
    source = RANK
    counts = np.ones(4, dtype=np.int64)
    target = (RANK + D0 * 3) % 4 if rotated else D0
    d = DependenceOp(a, b, ["b"], [4], [source], [target], counts, peer)
    (events,) = task_graph([a, b], [d], 4).dependences
    pairs = set(zip(events.points.tolist(), events.events.tolist(), strict=True))
    found = {take: {p for p, e in pairs if e == events.waited[take]} for take in range(4)}
    if rotated:
        # Task t takes what rank r - t has put with its t-th put.
        assert found == {t: {t} for t in range(4)}
    else:
        # On rank r task t takes the r-th put of rank t: any of them, over all ranks.
        assert found == {t: {0, 1, 2, 3} for t in range(4)}
