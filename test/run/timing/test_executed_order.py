"""Who waited for whom in a timed run: against what the run itself recorded."""

from __future__ import annotations

import numpy as np
import pytest

from hpmoe_ir.driver.compiler import compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.routing import generate_routing, parse_routing
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.run.execution import build_program
from hpmoe_ir.timing.executed_order import ExecutedOrder, executed_order
from hpmoe_ir.timing.mirrored import simulate_mirrored
from hpmoe_ir.timing.slack import slack_us
from hpmoe_ir.timing.timed_run import RankIntegers, Timeline, simulate

CONFIG = preset_layer("deepseek-v3-tiny").with_sizes(ranks=4, tokens=256)


@pytest.fixture(scope="module", params=["zipf:1.2", "balanced", "mirrored"])
def timeline(request: pytest.FixtureRequest) -> Timeline:
    mirrored = request.param == "mirrored"
    kernel = compile_module(make_context(), layer_module(CONFIG), LowerMoePass()).forward
    spec = parse_routing("balanced" if mirrored else request.param)
    routing = generate_routing(spec, CONFIG, [256] * 4, 0)
    ranks = [RankIntegers({"ids": r.ids}, len(r.ids)) for r in routing]
    executable = build_program(kernel.program, kernel.source)
    run = simulate_mirrored if mirrored else simulate
    return run(kernel.program, executable, kernel.table, ranks)


def test_arrivals_are_between_the_looks(timeline: Timeline):
    """A core that found a counter short turned to the task before the last signal arrived; the
    look that found all of them there began after it."""
    order = executed_order(timeline)
    tasks, look = order.tasks, timeline.machine.rates.latency_poll * 1e9
    waits = np.isfinite(order.arrival)
    assert waits.sum() > len(tasks) / 2
    assert (order.arrival[waits] + look <= tasks["ready"][waits] + 1e-6).all()
    short = tasks["event"] >= 0
    assert short.sum() > len(tasks) / 4
    assert (order.arrival[short] >= tasks["turn"][short]).all()


def test_senders_belong_to_the_event(timeline: Timeline):
    """The last signal is one of an event that the task waits for."""
    order = executed_order(timeline)
    program = timeline.program
    families = list(program.families)
    waited = {w.family_name: set[str]() for w in program.waits}
    for wait in program.waits:
        waited[wait.family_name].add(wait.event_name)
    sent = {s.family_name: set[str]() for s in program.signals}
    for signal in program.signals:
        sent[signal.family_name].add(signal.event_name)
    numbers = order.tasks["slot"] >> 24
    for task in np.flatnonzero(order.sender >= 0):
        sender = families[numbers[order.sender[task]]]
        assert sent[sender] & waited[families[numbers[task]]], (sender, families[numbers[task]])


def time_with_delay(order: ExecutedOrder, late: int, delay: float) -> float:
    """End of the last task, in ns, where the task `late` ends `delay` ns later than it did.

    Every other task takes what it took after its last trigger.
    """
    tasks = order.tasks
    before = np.where(order.first_of_queue, 0, np.roll(tasks["end"], 1))
    after = tasks["end"] - np.maximum(before, order.arrival)
    arrived = np.full(order.counters, -np.inf)
    ends = np.zeros(len(tasks))
    for task in np.lexsort((np.arange(len(tasks)), tasks["ready"])):
        counters = order.wait_counter[order.wait_task == task]
        trigger = arrived[counters].max(initial=-np.inf)
        if not order.first_of_queue[task]:
            trigger = max(trigger, ends[task - 1])
        ends[task] = max(trigger, 0) + after[task] + (delay if task == late else 0)
        mine = order.signal_task == task
        leaves = ends[task] - (tasks["end"][task] - tasks["done"][task])
        at = order.signal_counter[mine]
        arrived[at] = np.maximum(arrived[at], leaves + order.signal_latency[mine])
    return float(ends.max())


def test_a_task_may_be_late_by_its_slack_and_no_more(timeline: Timeline):
    order = executed_order(timeline)
    slack = slack_us(order, timeline.time_us) * 1000
    end = timeline.time_us * 1000
    assert time_with_delay(order, 0, 0) == pytest.approx(end)
    assert slack.min() == pytest.approx(0, abs=1e-6)
    by_slack = np.argsort(slack, kind="stable")
    for task in by_slack[:: len(by_slack) // 10]:
        assert time_with_delay(order, int(task), float(slack[task])) <= end + 1e-6
        assert time_with_delay(order, int(task), float(slack[task]) + 5) == pytest.approx(end + 5)
