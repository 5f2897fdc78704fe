"""Timed runs of generated code: the same tasks as the checked run, times within their bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from hpmoe_ir.driver.compiler import CompiledKernel, compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import FUNCTION, layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.kernels.device import CUBE_MACS
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import generate_routing, parse_routing
from hpmoe_ir.layer.values import LayerValues, make_values
from hpmoe_ir.lowering.task_table import HEADER
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.machines.rates import RATE_NAMES
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.run.directions import forward_arguments
from hpmoe_ir.run.execution import ExecutionError, build_program, run_program
from hpmoe_ir.run.levels import rank_inputs
from hpmoe_ir.run.signature import signatures
from hpmoe_ir.runtime.device_fault import DeviceFault
from hpmoe_ir.runtime.task_records import Records
from hpmoe_ir.schedule.named import NAMED
from hpmoe_ir.timing.bounds import Bounds, bounds, parts_of_peak, routed_rows
from hpmoe_ir.timing.mirrored import simulate_mirrored
from hpmoe_ir.timing.overlap import Overlap, overlap
from hpmoe_ir.timing.program_bounds import ProgramBounds, program_bounds
from hpmoe_ir.timing.timed_run import RankIntegers, Stages, Timeline, simulate

CONFIG = preset_layer("deepseek-v3-tiny").with_sizes(ranks=4, tokens=64)


@dataclass(frozen=True)
class Built:
    """A compiled layer with values."""

    config: LayerConfig
    kernel: CompiledKernel
    executable: Path
    values: LayerValues

    @property
    def integers(self) -> list[RankIntegers]:
        """What a timed run needs."""
        return [RankIntegers({"ids": r.ids}, len(r.ids)) for r in self.values.routing]

    def simulate(self, **options: object) -> Timeline:
        """A timed run."""
        return simulate(
            self.kernel.program,
            self.executable,
            self.kernel.table,
            self.integers,
            **options,  # pyright: ignore[reportArgumentType]
        )


def built(routing: str, lowering: LowerMoePass) -> Built:
    kernel = compile_module(make_context(), layer_module(CONFIG), lowering).forward
    values = make_values(CONFIG, [64, 33, 0, 7], parse_routing(routing), 3, 1)
    return Built(CONFIG, kernel, build_program(kernel.program, kernel.source), values)


@pytest.fixture(scope="module", params=["balanced", "zipf:1.2", "one-expert"])
def layer(request: pytest.FixtureRequest) -> Built:
    return built(request.param, LowerMoePass())


@pytest.fixture(scope="module")
def skewed() -> Built:
    return built("zipf:1.2", LowerMoePass(policy=OperatorOrder()))


def order(tasks: Records) -> dict[tuple[int, int], list[int]]:
    """Slots in the order in which each core took them."""
    cores: dict[tuple[int, int], list[int]] = {}
    for task in tasks:
        cores.setdefault((int(task["rank"]), int(task["core"])), []).append(int(task["slot"]))
    return cores


def test_checked_and_timed_runs_do_the_same_tasks(layer: Built):
    """One executable, one table: each core does the same tasks in the same order."""
    trace: list[Records] = []
    forward = signatures(layer_module(CONFIG))[FUNCTION]
    given = forward_arguments(forward, layer.values)
    launch = [rank_inputs(layer.kernel, values) for values in given]
    program = layer.kernel.program
    run_program(program, layer.executable, layer.kernel.table, [launch], seed=1, trace=trace)
    timeline = layer.simulate()
    assert order(timeline.tasks) == order(trace[0])
    assert len(timeline.tasks) == 4 * sum(f.task_count for f in program.families.values())
    # Steps of the checked run and times of the timed one both ascend along a queue.
    for tasks, key in ((trace[0], "turn"), (timeline.tasks, "turn")):
        for mine in np.split(tasks, np.flatnonzero(np.diff(tasks["core"])) + 1):
            assert (np.diff(mine[key]) >= 0).all()


def test_times_of_a_task_are_in_their_order(layer: Built):
    tasks = layer.simulate().tasks
    for before, after in (
        ("turn", "ready"),
        ("ready", "start"),
        ("start", "done"),
        ("done", "end"),
    ):
        assert (tasks[before] <= tasks[after] + 1e-6).all(), (before, after)
    assert (tasks["alone"] <= tasks["done"] - tasks["turn"] + 1e-6).all()
    assert (tasks["busy"] <= tasks["done"] - tasks["start"] + 1e-6).all()


def test_no_time_is_below_a_bound(layer: Built):
    timeline = layer.simulate()
    found, own = bounds(timeline, layer.integers), program_bounds(timeline)
    for each in (found, own):
        assert timeline.time_us >= each.bound_us
        assert each.bound_us == getattr(each, f"{each.largest}_us")
    rows = [int(r.received.sum()) for r in routed_rows(layer.kernel.program, layer.integers)]
    config = layer.config
    assert sum(rows) == (64 + 33 + 0 + 7) * config.top_k
    macs = max(rows) * (config.hidden * 2 * config.width + config.width * config.hidden)
    cycles = macs / CUBE_MACS / timeline.machine.aic_cores
    assert found.matrix_us == pytest.approx(cycles / timeline.machine.rates.clock_frequency * 1e6)
    # Tasks compute whole fractals, and load and store: more than the products at the peak.
    aic = timeline.machine.aic_cores
    matrix = timeline.tasks[timeline.tasks["core"] < aic]
    alone = [matrix["alone"][matrix["rank"] == rank].sum() for rank in range(4)]
    assert own.matrix_tasks_us == pytest.approx(max(alone) / aic / 1000)
    assert own.matrix_tasks_us > found.matrix_us
    # Every rank's chain goes through each operator: at least one task of each.
    chain = sum(
        timeline.family(name)["alone"].min() for name in ("count", "exchange", "build_route")
    )
    assert own.chain_us > chain / 1000


def test_parts_of_the_peak_are_products_over_the_time_of_their_tasks(layer: Built):
    timeline = layer.simulate()
    found = parts_of_peak(timeline, layer.integers)
    rows = int(routed_rows(layer.kernel.program, layer.integers)[0].received.sum())
    hidden, width = layer.config.hidden, layer.config.width
    sizes = {"matmul": hidden * 2 * width, "matmul_1": width * hidden}
    assert list(found) == list(sizes)
    for name, macs in sizes.items():
        tasks = timeline.family(name)
        seconds = tasks["alone"][tasks["rank"] == 0].sum() / 1e9
        cycles = rows * macs / CUBE_MACS
        assert found[name] * seconds == pytest.approx(
            cycles / timeline.machine.rates.clock_frequency
        )
        assert 0 < found[name] < 1


def test_the_link_carries_the_rows_of_other_ranks(layer: Built):
    """Rows go out and come back once each; counts and signals are little beside them."""
    timeline = layer.simulate()
    ids = [r.ids for r in layer.values.routing]
    local = layer.config.local_experts
    away = [int((part // local != rank).sum()) for rank, part in enumerate(ids)]
    home = [
        sum(int((part // local == rank).sum()) for r, part in enumerate(ids) if r != rank)
        for rank in range(4)
    ]
    row = layer.config.hidden * 2
    for rank, totals in enumerate(timeline.totals):
        payload = (away[rank] + home[rank]) * row
        assert payload <= totals["link_out_bytes"] <= payload + 200_000
        assert payload <= totals["link_in_bytes"] <= payload + 200_000


def test_a_run_has_the_same_bytes_again(skewed: Built):
    first, second = skewed.simulate(), skewed.simulate()
    assert first.tasks.tobytes() == second.tasks.tobytes()
    assert first.totals.tobytes() == second.totals.tobytes()


# What a small layer that is one kernel does not feel.
UNFELT = {
    "latency.cross_core",
    "latency.launch",
    "latency.host_sync",
    "latency.collective",
    "clock.system_counter",
}
# A queue that is always long enough, a cache that is.
AMPLE = {"matrix.queue_depth", "l2.bytes", "l2.line"}


@pytest.mark.parametrize("name", sorted(RATE_NAMES.keys() - AMPLE))
def test_a_slower_machine_takes_longer(skewed: Built, name: str):
    """Each rate has its effect, and in the right direction."""
    machine = skewed.kernel.program.machine
    faster = name.startswith(("clock", "core_bandwidth", "shared_bandwidth")) or name in (
        "matrix.l1_to_l0a",
        "matrix.l1_to_l0b",
        "vector.bytes_per_cycle",
        "vector.slow_elements",
    )
    value = machine.numbers[name].value
    slow = machine.with_rate(name, value / 1000 if faster else value * 1000)
    before, after = skewed.simulate(), skewed.simulate(machine=slow)
    if name in UNFELT:
        assert after.tasks.tobytes() == before.tasks.tobytes()
    else:
        assert after.time_us > before.time_us


STAGES = {
    "count": 0,
    "exchange": 1,
    "place": 1,
    "build_route": 2,
    "dispatch": 3,
    "matmul": 4,
    "swiglu": 5,
    "matmul_1": 6,
    "return": 7,
    "weighted_sum": 8,
}
COMMUNICATES = [False, True, False, True, False, False, False, True, False]


def test_stages_follow_each_other(skewed: Built):
    """A stage begins a launch after the last task of the one before, on all ranks if it sent."""
    timeline = skewed.simulate(stages=Stages(STAGES, COMMUNICATES))
    rates = timeline.machine.rates
    by_stage = [
        np.concatenate([timeline.family(f) for f, n in STAGES.items() if n == stage])
        for stage in range(9)
    ]
    for stage, communicates in enumerate(COMMUNICATES[:-1]):
        before, after = by_stage[stage], by_stage[stage + 1]
        for rank in range(4):
            ended = before if communicates else before[before["rank"] == rank]
            gap = rates.latency_launch + (rates.latency_collective if communicates else 0)
            begun = after[after["rank"] == rank]["turn"].min()
            assert begun >= ended["end"].max() + gap * 1e9 - 1e-6
    fused = skewed.simulate()
    launches = 8 * rates.latency_launch + 3 * rates.latency_collective
    assert timeline.time_us > launches * 1e6
    assert timeline.time_us > fused.time_us


def test_stages_that_do_not_fit_are_refused(skewed: Built):
    few = {name: stage for name, stage in STAGES.items() if name != "swiglu"}
    with pytest.raises(ExecutionError, match="no stage for @swiglu"):
        skewed.simulate(stages=Stages(few, COMMUNICATES))
    with pytest.raises(ExecutionError, match="expected 9 entries of communicates, found 8"):
        skewed.simulate(stages=Stages(STAGES, COMMUNICATES[1:]))
    back = STAGES | {"weighted_sum": 1}
    with pytest.raises(ExecutionError, match="a queue of the aiv cores returns to an earlier"):
        skewed.simulate(stages=Stages(back, COMMUNICATES[:-1]))


# With 8 experts a row of counts is as short as a signal, and is none.
@pytest.mark.parametrize("experts", [64, 8])
def test_one_rank_stands_for_all_where_all_do_the_same(experts: int):
    """Rank 0 alone, with mirrored peers, takes as long as with real ones."""
    config = preset_layer("deepseek-v3-tiny").with_sizes(
        ranks=4, tokens=1024, hidden=1024, experts=experts
    )
    kernel = compile_module(make_context(), layer_module(config), LowerMoePass()).forward
    executable = build_program(kernel.program, kernel.source)
    routing = generate_routing(parse_routing("balanced"), config, [1024] * 4, 0)
    ranks = [RankIntegers({"ids": r.ids}, len(r.ids)) for r in routing]
    every = simulate(kernel.program, executable, kernel.table, ranks)
    alone = simulate_mirrored(kernel.program, executable, kernel.table, ranks)
    assert alone.time_us == pytest.approx(every.time_us, rel=0.02)
    assert order(alone.tasks) == order(every.tasks[every.tasks["rank"] == 0])
    assert len(alone.totals) == 1
    for name in ("link_in_bytes", "link_out_bytes", "l2_bytes"):
        assert alone.totals[name][0] == pytest.approx(every.totals[name][0], rel=0.01)
    assert bounds(alone, ranks) == bounds(every, ranks)
    own, all_ranks = program_bounds(alone), program_bounds(every)
    assert own.chain_us == pytest.approx(all_ranks.chain_us, rel=0.02)


def test_a_routing_that_ranks_see_differently_is_not_mirrored(skewed: Built):
    kernel = skewed.kernel
    with pytest.raises(ExecutionError, match="a routing in which all ranks send alike"):
        simulate_mirrored(kernel.program, skewed.executable, kernel.table, skewed.integers)


def test_destinations_that_do_not_rotate_are_not_mirrored():
    layer = built("balanced", LowerMoePass(rotate=False))
    ids = np.tile(np.arange(2, dtype=np.int32), (64, 1))
    local = CONFIG.local_experts
    ranks = [RankIntegers({"ids": (ids + local * r) % CONFIG.experts}, 64) for r in range(4)]
    with pytest.raises(ExecutionError, match="destinations that are counted from the sending rank"):
        simulate_mirrored(layer.kernel.program, layer.executable, layer.kernel.table, ranks)


def test_a_wait_that_never_ends_names_its_event(skewed: Built):
    """As in a checked run: who waits, for which event, at what count."""
    kernel = skewed.kernel
    words = np.frombuffer(kernel.table, "<u4").copy()
    words[words[HEADER.index("thresholds")] // 4] += 1  # of the first event
    with pytest.raises(DeviceFault) as fault:
        simulate(kernel.program, skewed.executable, words.tobytes(), skewed.integers)
    assert fault.value.kind == "deadlock"
    # The first of the cores that are listed wait for rows that are never sent.
    assert (
        "@matmul (0, 0, 0, 0) on rank 0 aic0 waits for event 0 of @dispatch_done: 0 signals"
        in str(fault.value)
    )
    # One line for each core.
    cores = re.findall(r"rank \d+ ai[cv]\d+", str(fault.value))
    listed = re.findall(r"on (rank \d+ ai[cv]\d+) waits", str(fault.value))
    assert len({*listed}) == len(listed) == len(cores)


def test_inputs_that_do_not_fit_are_refused(skewed: Built):
    kernel = skewed.kernel

    def run(ranks: list[RankIntegers]) -> Timeline:
        return simulate(kernel.program, skewed.executable, kernel.table, ranks)

    with pytest.raises(ExecutionError, match="expected inputs of 4 ranks, found 3"):
        run(skewed.integers[:3])
    with pytest.raises(ExecutionError, match="no value for @ids, an input of integers"):
        run([RankIntegers({}, 4)] * 4)
    ids = np.zeros((3, CONFIG.top_k), np.int32)
    with pytest.raises(ExecutionError, match=r"@ids: expected 4-byte elements of shape \[4, 2\]"):
        run([RankIntegers({"ids": ids}, 4)] * 4)


@pytest.mark.parametrize("routing", ["uniform", "zipf:1.2"])
def test_no_schedule_moves_the_bounds(routing: str):
    """Programs that differ in cut, tasks and order have the same bounds, which follow by hand."""
    values = make_values(CONFIG, [64, 33, 0, 7], parse_routing(routing), 3, 1)
    integers = [RankIntegers({"ids": r.ids}, len(r.ids)) for r in values.routing]
    machine = load_machine("ascend-a3")
    found: list[Bounds] = []
    own: list[ProgramBounds] = []
    for name in ("depth-first", "published", "tiles", "serial", "overlap"):
        passes = NAMED[name].passes(machine)
        kernel = compile_module(make_context(), layer_module(CONFIG), passes).forward
        executable = build_program(kernel.program, kernel.source)
        timeline = simulate(kernel.program, executable, kernel.table, integers)
        found.append(bounds(timeline, integers))
        own.append(program_bounds(timeline))
    assert all(each == found[0] for each in found)
    assert len({each.matrix_tasks_us for each in own}) > 1
    # What ranks exchange: each row once to its expert and once back, in bf16.
    local, rates = CONFIG.local_experts, machine.rates
    sent = np.zeros((4, 4), np.int64)
    for rank, each in enumerate(values.routing):
        np.add.at(sent[rank], each.ids.ravel() // local, 1)
    np.fill_diagonal(sent, 0)
    row = CONFIG.hidden * 2
    crossing = sent.sum(axis=0) + sent.sum(axis=1)
    link_us = max(crossing) * row / rates.shared_bandwidth_link_out * 1e6
    assert found[0].link_out_us == pytest.approx(link_us)
    assert found[0].link_in_us == pytest.approx(link_us)
    # Counts, rows there, products, activations, products, rows back: remote, remote, local three
    # times and, from the matrix cores to those that put, once more, remote.
    poll, signal = rates.latency_poll, rates.latency_signal
    assert found[0].latency_us == pytest.approx(
        1e6 * (3 * (rates.latency_remote_signal + poll) + 3 * (signal + poll))
    )


def test_the_overlap_is_the_part_of_the_ideal_gain(skewed: Built):
    parts = Overlap(comm_us=4, matrix_us=10, vector_us=1, measured_us=11)
    assert (parts.serial_us, parts.ideal_us) == (15, 10)
    assert parts.reached == pytest.approx(0.8)
    assert replace(parts, measured_us=15).reached == 0
    assert replace(parts, measured_us=17).reached == pytest.approx(-0.4)
    # Nothing but one part: there is nothing to gain.
    assert Overlap(comm_us=0, matrix_us=10, vector_us=0, measured_us=10).reached == 0
    timeline = skewed.simulate()
    found = overlap(timeline)
    assert found.measured_us == timeline.time_us
    assert found.matrix_us == program_bounds(timeline).matrix_tasks_us
    for part in (found.comm_us, found.vector_us):
        assert 0 < part < timeline.time_us
    assert found.reached < 1
    # All tasks are in one of the three parts.
    aic, aiv = timeline.machine.aic_cores, timeline.machine.aiv_cores
    vector = timeline.tasks[timeline.tasks["core"] >= aic]
    busiest = np.bincount(vector["rank"], vector["alone"]).max() / aiv / 1000
    assert found.vector_us < busiest <= found.vector_us + found.comm_us + 1e-6
