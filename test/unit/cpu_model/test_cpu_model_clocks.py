"""Timed runs of kernels whose times can be computed by hand from the machine description."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.machines.machine import Machine, load_machine
from hpmoe_ir.runtime.cpu_build import KernelEntry
from hpmoe_ir.runtime.cpu_model import RankLaunch
from hpmoe_ir.runtime.cpu_timing import CounterLines, execute_timed
from hpmoe_ir.runtime.task_records import Records

MACHINE = load_machine("ascend-a3")
RATES = MACHINE.rates
BYTES = 64 * 1024
WINDOW = 500.0
"""ns between two updates of the shares of bandwidth."""


def ns(cycles: float) -> float:
    """Returns ns of a number of core cycles."""
    return cycles * 1e9 / RATES.clock_frequency


CALL = ns(RATES.scalar_call)
LOAD = ns(RATES.dma_gm_to_ub_start) + BYTES / RATES.core_bandwidth_gm_to_ub * 1e9
STORE = ns(RATES.dma_ub_to_gm_start) + BYTES / RATES.core_bandwidth_ub_to_gm * 1e9


@pytest.fixture(scope="module")
def clocks(program: Any) -> Any:
    return program("clocks", "in out windows", "which count")


def run(
    clocks: Any, which: int, count: int, *, ranks: int = 1, machine: Machine = MACHINE
) -> tuple[Records, Records]:
    """Records of tasks, by core, and totals; every core has one task, AIVs after the AIC."""
    entry: KernelEntry = clocks.entry
    size = 2 * count * BYTES
    launch = [RankLaunch({"in": size, "out": size}, {"which": which, "count": count})] * ranks
    return execute_timed(
        clocks.executable,
        entry,
        launch,
        {"windows": size + 64},
        aics=1,
        machine=machine,
        counters=CounterLines("windows", 0, 1),
        seconds=60,
    )


def test_loads_one_by_one(clocks: Any):
    """A transfer takes a call, the start of the DMA, and its bytes at one core's bandwidth."""
    tasks, totals = run(clocks, 0, 4)
    aiv = tasks[1]
    # The flag's calls pass while the DMA runs; the next call comes after the wait.
    assert aiv["end"] - aiv["turn"] == pytest.approx(4 * (CALL + LOAD))
    assert aiv["start"] == aiv["turn"]
    assert totals["aiv_mte2"][0] == pytest.approx(4 * LOAD)
    assert totals["l2_bytes"][0] == totals["hbm_bytes"][0] == 4 * BYTES
    assert totals["link_out_bytes"][0] == 0


def test_a_pipeline_takes_its_slower_part(clocks: Any):
    """Loads follow each other without a gap; only the last store adds to the time."""
    count = 10
    tasks, totals = run(clocks, 1, count)
    assert LOAD > STORE
    before = 4 * CALL  # two flags set, one waited for, the first copy
    expected = before + count * LOAD + STORE
    assert tasks[1]["end"] - tasks[1]["turn"] == pytest.approx(expected)
    assert totals["aiv_mte3"][0] == pytest.approx(count * STORE)


def test_two_cores_share_what_one_could_use_alone(clocks: Any):
    """If L2 has the bandwidth of one core, two cores take twice as long."""
    machine = MACHINE.with_rate("shared_bandwidth.l2", RATES.core_bandwidth_gm_to_ub)
    count = 200
    tasks, _ = run(clocks, 2, count, machine=machine)
    together = 2 * count * BYTES / RATES.core_bandwidth_gm_to_ub * 1e9
    for aiv in tasks[1:]:
        assert aiv["end"] - aiv["turn"] == pytest.approx(together, abs=WINDOW)
    alone = run(clocks, 2, count)[0][1]
    assert alone["end"] - alone["turn"] == pytest.approx(count * (CALL + LOAD))


def test_what_was_read_stays_in_l2(clocks: Any):
    """With slow memory, data that fits L2 is slow once; data that does not is slow each time."""
    slow = MACHINE.with_rate("shared_bandwidth.hbm", RATES.core_bandwidth_gm_to_ub / 4)
    count = 64
    tasks, totals = run(clocks, 7, count, machine=slow)
    first, second = tasks[1], tasks[2]
    assert totals["hbm_bytes"][0] == count * BYTES
    assert totals["l2_bytes"][0] == 2 * count * BYTES
    expected = count * BYTES / slow.rates.shared_bandwidth_hbm * 1e9
    # In the first window the core has four times the bandwidth of its later share.
    assert first["end"] - first["turn"] == pytest.approx(expected, abs=3 * WINDOW)
    assert second["end"] - second["turn"] == pytest.approx(count * (CALL + LOAD))
    small = slow.with_rate("l2.bytes", count * BYTES / 2)
    tasks, totals = run(clocks, 7, count, machine=small)
    assert totals["hbm_bytes"][0] == 2 * count * BYTES
    assert tasks[2]["end"] - tasks[2]["turn"] == pytest.approx(expected, abs=3 * WINDOW)


def test_of_a_matrix_l2_holds_the_columns_that_were_read(clocks: Any):
    """Columns that were read before hit L2, also within a task; adjacent columns do not."""
    slow = MACHINE.with_rate("shared_bandwidth.hbm", RATES.core_bandwidth_gm_to_ub / 4)
    count = 8
    panel = count * BYTES // 8
    tasks, totals = run(clocks, 9, count, machine=slow)
    assert totals["l2_bytes"][0] == 4 * panel
    assert totals["hbm_bytes"][0] == 2 * panel
    again, beside = tasks[2], tasks[3]
    load = ns(RATES.dma_gm_to_ub_start) + panel / RATES.core_bandwidth_gm_to_ub * 1e9
    # A hit takes the time of its calls and of the load only.
    assert again["end"] - again["turn"] == pytest.approx(load + CALL)
    misses = panel / slow.rates.shared_bandwidth_hbm * 1e9
    assert beside["end"] - beside["turn"] == pytest.approx(misses, abs=3 * WINDOW)
    # Longer lines also load the adjacent columns.
    _, totals = run(clocks, 9, count, machine=slow.with_rate("l2.line", 1024))
    assert totals["hbm_bytes"][0] == 2 * panel
    _, totals = run(clocks, 9, count, machine=slow.with_rate("l2.line", 2048))
    assert totals["hbm_bytes"][0] == 4 * panel


def test_what_is_added_to_is_read_and_written_by_l2(clocks: Any):
    """A core's transfers count bytes once; a line that is written whole is not fetched before."""
    count = 8
    (_, stored), (_, added) = (run(clocks, which, count) for which in (10, 11))
    assert stored["l2_bytes"][0] == 2 * count * BYTES
    assert added["l2_bytes"][0] == 4 * count * BYTES
    assert added["hbm_bytes"][0] - stored["hbm_bytes"][0] == 2 * count * BYTES
    for pipe in ("aiv_mte3", "aic_fix"):
        assert stored[pipe][0] > 0
        assert added[pipe][0] == pytest.approx(stored[pipe][0])


def test_a_poll_sees_a_signal_at_its_next_look(clocks: Any):
    """A waiting core reads once per latency of a read, and has the value a latency later."""
    tasks, _ = run(clocks, 3, 5)
    waiting, signalling = tasks[1], tasks[2]
    arrived = signalling["done"] + RATES.latency_signal * 1e9
    period = RATES.latency_poll * 1e9 + CALL  # the read, and the call that empties the line
    looks = math.ceil((arrived - waiting["turn"] - CALL) / period)
    known = waiting["turn"] + CALL + looks * period + RATES.latency_poll * 1e9
    assert waiting["ready"] == pytest.approx(known)
    assert waiting["event"] == 0
    # Its loads, a vector operation and the barrier after it precede the signal.
    loads = 5 * (CALL + LOAD)
    fill = ns(RATES.vector_head + RATES.vector_floor + RATES.vector_tail) + CALL
    assert signalling["done"] - signalling["turn"] == pytest.approx(loads + fill + CALL)


@pytest.mark.parametrize("loads", [5, 40])
def test_a_poll_that_pauses_sees_a_signal_later(clocks: Any, loads: int):
    """Reads of a counter are a pause apart; the first one after the arrival sees the signal."""
    tasks, _ = run(clocks, 8, loads)
    waiting, signalling = tasks[1], tasks[2]
    tick = 1e9 / RATES.clock_system_counter
    pause = 1000 * tick
    look = RATES.latency_poll * 1e9 + CALL
    arrived = signalling["done"] + RATES.latency_signal * 1e9 - waiting["turn"]
    looks = math.ceil(arrived / (pause + look))
    found = waiting["ready"] - RATES.latency_poll * 1e9 - waiting["turn"]
    assert looks == (1 if loads == 5 else 2)
    assert found == pytest.approx(looks * (pause + look), abs=looks * 3 * tick)


def test_puts_share_the_link(clocks: Any):
    """One core is bound by its share of the link, two by the link."""
    machine = MACHINE.with_rate("shared_bandwidth.link_out", RATES.core_bandwidth_link)
    count = 40
    tasks, totals = run(clocks, 4, count, ranks=2, machine=machine)
    together = 2 * count * BYTES / RATES.core_bandwidth_link * 1e9
    for aiv in tasks[1:3]:
        assert aiv["end"] - aiv["turn"] == pytest.approx(together, abs=2 * WINDOW)
    assert list(totals["link_out_bytes"]) == [2 * count * BYTES, 0]
    assert list(totals["link_in_bytes"]) == [0, 2 * count * BYTES]
    assert list(totals["l2_bytes"]) == [0, 2 * count * BYTES]
    hot = MACHINE.with_rate("shared_bandwidth.link_in", RATES.core_bandwidth_link)
    assert run(clocks, 4, count, ranks=2, machine=hot)[0][1]["end"] == tasks[1]["end"]


def test_products_take_their_blocks(clocks: Any):
    """A product of 128 x 256 x 64 has 8 * 16 * 4 blocks of a cycle, and a head."""
    tasks, totals = run(clocks, 5, 7)
    cycles = 7 * (RATES.matrix_mmad_head + 8 * 16 * 4)
    assert totals["aic_m"][0] == pytest.approx(ns(cycles))
    assert tasks[0]["busy"] == pytest.approx(ns(cycles))
    assert tasks[0]["end"] - tasks[0]["turn"] == pytest.approx(ns(cycles) + CALL)


def test_a_loop_on_the_system_counter_takes_its_ticks(clocks: Any):
    tasks, _ = run(clocks, 6, 100)
    tick = 1e9 / RATES.clock_system_counter
    assert tasks[1]["end"] - tasks[1]["turn"] == pytest.approx(100 * tick, abs=2 * tick)


def test_the_same_run_has_the_same_times(clocks: Any):
    first, second = run(clocks, 3, 5), run(clocks, 3, 5)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
