"""A profile of stock operators on a machine, as msprof would export it.

Times follow from the model of docs/timing.md; only what msprof shows is written. The operators are
small and large products and element-wise operators on few and all cores, and collectives: a list
to run on a device too, since it lets a profile identify what it can.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hpmoe_ir.calibration.op_summary import (
    CoreTime,
    OpRow,
    Pipe,
    PipeTime,
    Tensor,
    op_summary_file,
)
from hpmoe_ir.calibration.trace_view import Transfer, trace_view_file
from hpmoe_ir.calibration.work import SLOW, elementwise_of, product_of
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.machines.rates import Rates

CORE_US = 1.5
"""Time of a core beside its longest pipe, in the sample."""
TASK_US = 0.8
"""Time of a task beside its cores, in the sample."""
COLLECTIVE_US = 8.0
"""Time of a collective beside its transfers, in the sample."""
RANKS = 8
"""Ranks of the collectives of the sample."""


@dataclass(frozen=True)
class SampleTrace:
    """The files of a profile."""

    op_summary: bytes
    trace_view: bytes


@dataclass(frozen=True)
class _Call:
    """An operator with its operands; for a collective, the bytes out and in."""

    op_type: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    blocks: int
    moved: tuple[int, int] | None = None


def sample_trace(machine: Machine, seed: int, noise: float = 0.0) -> SampleTrace:
    """Returns a profile of rank 0 on `machine`, with operators in the order that `seed` gives.

    noise: standard deviation of each time, as a part of it; one time in thirty is then three times
    as long, as from another task on the device.
    """
    rng = random.Random(seed)
    calls = list(_calls(machine))
    rng.shuffle(calls)
    now, end = 1000.0, 1000.0
    rows: list[OpRow] = []
    transfers: list[Transfer] = []
    collective = False
    for number, call in enumerate(calls):
        gap = machine.rates.latency_launch + (
            machine.rates.latency_collective if collective else 0.0
        )
        now = round(end + _noisy(rng, noise, gap * 1e6), 3)
        row = _row(machine, call, number, now, rng, noise)
        wait = now - end
        end = round(now + row.duration, 3)
        rows.append(replace(row, line=number + 2, wait=wait, duration=end - now))
        collective = call.moved is not None
        if call.moved is not None:
            transfers += _transfers(call.moved, now, row.duration)
    return SampleTrace(op_summary_file(rows), trace_view_file(transfers, RANKS))


def _noisy(rng: random.Random, noise: float, us: float) -> float:
    if not noise:
        return us
    return us * max(1 + rng.gauss(0, noise), 0.1) * (3 if rng.random() < 1 / 30 else 1)


def _calls(machine: Machine) -> Iterator[_Call]:
    def bf16(*shape: int) -> Tensor:
        return Tensor(shape, "DT_BF16")

    for blocks in (1, 2, 4):
        for m, k, n in (
            *((16, 16 * i, 64) for i in (1, 2, 4)),
            *((128, 16 * i, 128) for i in (1, 2, 4, 8)),
            *((16 * i, 64, 256) for i in (1, 2, 4)),
            *((16 * i, 32, 64) for i in (2, 5, 7)),
        ):
            yield _Call(
                "MatMulV3", (bf16(m, k), bf16(k, n * blocks)), (bf16(m, n * blocks),), blocks
            )
        for op_type in ("Mul", "Exp", "Sqrt", "Add"):
            operands = 1 if op_type in SLOW else 2
            for kib in (2, 4, 8, 16, 24):
                tensor = bf16(kib * 512 * blocks)
                yield _Call(op_type, (tensor,) * operands, (tensor,), blocks)
        for kib in (2, 6, 12, 20):
            wide = Tensor((kib * 512 * blocks,), "DT_FLOAT")
            yield _Call("Cast", (wide,), (bf16(*wide.shape),), blocks)
            yield _Call("Cast", (bf16(*wide.shape),), (wide,), blocks)
    cores = machine.aiv_cores
    l2 = int(machine.rates.l2_bytes)
    for times in (2, 3, 4, 6, 8):
        tensor = bf16(times * l2 // 2 // cores * cores + cores)
        yield _Call("Muls", (tensor,), (tensor,), cores)
    for megabytes in (16, 32, 64, 128, 192):
        much, little = megabytes << 20, megabytes << 17
        for moved in ((much, little), (little, much), (much, much)):
            yield _Call("hcom_alltoallv_", (), (), 0, moved)
    for blocks in (1, 2):
        for megabytes in (1, 2, 4):
            yield _Call(
                "hcom_alltoallv_", (), (), blocks, ((megabytes << 20) * blocks, megabytes << 17)
            )


def _row(
    machine: Machine, call: _Call, number: int, start: float, rng: random.Random, noise: float
) -> OpRow:
    """Returns the row of a call, without its line and its wait."""
    task_type = "AI_CORE" if call.op_type == "MatMulV3" else "AI_VECTOR_CORE"
    row = OpRow(
        line=0,
        stream="2",
        name=f"{call.op_type}{number}",
        op_type=call.op_type,
        task_type="COMMUNICATION" if call.moved is not None else task_type,
        start=start,
        duration=0.0,
        wait=0.0,
        blocks=call.blocks,
        inputs=call.inputs,
        outputs=call.outputs,
        aic=None,
        aiv=None,
        pipes={},
    )
    if call.moved is not None:
        us = _collective_us(machine.rates, call.moved, call.blocks)
        return replace(row, duration=_noisy(rng, noise, us))
    times = {
        pipe: round(_noisy(rng, noise, us), 3) for pipe, us in _pipe_times(machine, row).items()
    }
    core_us = round(max(times.values()) + _noisy(rng, noise, CORE_US), 3)
    cycles = core_us * call.blocks * machine.rates.clock_frequency / 1e6
    core = CoreTime(core_us, cycles)
    pipes = {pipe: PipeTime(us, us / core_us) for pipe, us in times.items()}
    cube = task_type == "AI_CORE"
    return replace(
        row,
        duration=core_us + _noisy(rng, noise, TASK_US),
        aic=core if cube else None,
        aiv=None if cube else core,
        pipes=pipes,
    )


def _pipe_times(machine: Machine, row: OpRow) -> dict[Pipe, float]:
    """Returns the time in us that each pipe of a core is busy."""
    rates = machine.rates
    cycle_us = 1e6 / rates.clock_frequency
    if (product := product_of(row)) is not None:
        loaded = product.left_bytes + product.right_bytes
        left, right = product.left_bytes, product.right_bytes
        to_l0 = left / rates.matrix_l1_to_l0a + right / rates.matrix_l1_to_l0b
        load = 2 * rates.dma_gm_to_l1_start * cycle_us
        store = rates.dma_l0c_to_gm_start * cycle_us
        return {
            Pipe.MAC: (product.cycles + rates.matrix_mmad_head) * cycle_us,
            Pipe.MTE1: to_l0 * cycle_us,
            Pipe.AIC_MTE2: load + loaded / rates.core_bandwidth_gm_to_l1 * 1e6,
            Pipe.FIXPIPE: store + product.result_bytes / rates.core_bandwidth_l0c_to_gm * 1e6,
        }
    work = elementwise_of(row)
    assert work is not None
    # Operands that don't fit UB are moved in pieces of a quarter of it.
    pieces = max(1, (work.in_bytes + work.out_bytes) // work.blocks * 4 // machine.ub_usable)
    if work.one_pass(machine):
        pieces = 1
    loads = pieces * work.inputs * rates.dma_gm_to_ub_start * cycle_us
    stores = pieces * rates.dma_ub_to_gm_start * cycle_us
    load = loads + work.in_bytes / work.blocks / rates.core_bandwidth_gm_to_ub * 1e6
    store = stores + work.out_bytes / work.blocks / rates.core_bandwidth_ub_to_gm * 1e6
    if work.slow:
        cycles = work.elements / work.blocks / rates.vector_slow_elements
    else:
        cycles = work.wide_bytes / work.blocks / rates.vector_bytes_per_cycle
    fixed = rates.vector_head + rates.vector_tail
    compute = (max(cycles, rates.vector_floor) + fixed) * cycle_us
    if work.streams(machine):
        memory = (work.in_bytes + work.out_bytes) / rates.shared_bandwidth_hbm * 1e6
        load, store = max(load, memory), max(store, memory)
    return {Pipe.AIV_MTE2: load, Pipe.VEC: compute, Pipe.MTE3: store}


def _collective_us(rates: Rates, moved: tuple[int, int], cores: int) -> float:
    """Time of a collective with bytes out and in; `cores` carry it out, 0 for none."""
    out, into = moved
    bandwidth = rates.shared_bandwidth_link_out
    if cores:
        bandwidth = min(bandwidth, cores * rates.core_bandwidth_link)
    return COLLECTIVE_US + max(out / bandwidth, into / rates.shared_bandwidth_link_in) * 1e6


def _transfers(moved: tuple[int, int], start: float, duration: float) -> Iterator[Transfer]:
    """Yields the transfers of a collective of rank 0, equally many bytes with each peer."""
    for peer in range(1, RANKS):
        for bytes, source, target in ((moved[0], 0, peer), (moved[1], peer, 0)):
            first, last = (bytes * (peer - i) // (RANKS - 1) for i in (1, 0))
            yield Transfer(start, duration, last - first, source, target)
