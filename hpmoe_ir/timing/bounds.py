"""What no schedule of a layer can beat on a machine, for one routing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod

import numpy as np

from hpmoe_ir.dialects.access import Access, BlockSelector, RowCounts, RowKind
from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, TasksOp, buffer_type, element_bytes
from hpmoe_ir.kernels.device import CUBE_MACS
from hpmoe_ir.lowering.program import LoweredProgram
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.rates import Rates
from hpmoe_ir.passes.analysis.task_roles import FamilyGraph, is_put
from hpmoe_ir.run.execution import ExecutionError
from hpmoe_ir.timing.timed_run import RankIntegers, Timeline, ids_of

WINDOW_ROWS = frozenset({RowKind.GROUPED, RowKind.SENT})
"""Kinds of rows that go from rank to rank."""


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of the time of one launch, in us, each for the rank where it is largest.

    They follow from the layer, the routing and the machine: no schedule of the layer moves them.
    What one program's own tasks can't beat is in `hpmoe_ir.timing.program_bounds`.
    """

    matrix_us: float
    """Products of the routing's rows, at the peak of all matrix cores: no padding, no start."""
    memory_us: float
    """Inputs that are used, each moved once, and what of the outputs exceeds L2, at the bandwidth
    of memory."""
    link_out_us: float
    """Rows sent to other ranks, without padding."""
    link_in_us: float
    """Rows received from other ranks, without padding."""
    latency_us: float
    """Signals on the way of a row: one where it moves between matrix and vector cores, a remote
    one where it moves to another rank, each read at the first poll after its arrival."""

    @property
    def largest(self) -> str:
        """Name of the largest bound, without its unit."""
        name = max(fields(self), key=lambda field: getattr(self, field.name)).name
        return name.removesuffix("_us")

    @property
    def bound_us(self) -> float:
        """The largest bound."""
        return max(getattr(self, field.name) for field in fields(self))


def routed_rows(program: LoweredProgram, ranks: Sequence[RankIntegers]) -> list[RowCounts]:
    """Rows of each rank under the routing in its inputs. Raises ExecutionError without one."""
    routes = [t for b in program.buffers.values() if isinstance(t := b.content, RouteType)]
    ids = ids_of(program)
    if not routes:
        raise ExecutionError(f"@{program.name} has no route that its inputs decide")
    experts = routes[0].experts.data
    counts = [np.bincount(r.arrays[ids].ravel(), minlength=experts) for r in ranks]
    received = np.sum(counts, axis=0).reshape(program.ranks, -1)
    return [
        RowCounts(inputs.tokens, int(inputs.arrays[ids].size), received[rank])
        for rank, inputs in enumerate(ranks)
    ]


def bounds(timeline: Timeline, ranks: Sequence[RankIntegers]) -> Bounds:
    """Bounds for what a timed run was given: `ranks` are its inputs.

    Nothing that the run counted is used, so all programs of a layer have the same bounds. Raises
    ExecutionError where the inputs have no routing.
    """
    program, rates = timeline.program, timeline.machine.rates
    rows = routed_rows(program, ranks)
    macs = max(_macs(program, rank) for rank in rows)
    peak = CUBE_MACS * program.orders[CoreKind.AIC].core_count * rates.clock_frequency
    memory = max(_argument_bytes(program, rank, rates.l2_bytes) for rank in rows)
    link_out, link_in = _link_bytes(program, timeline.sent)
    return Bounds(
        matrix_us=macs / peak * 1e6,
        memory_us=memory / rates.shared_bandwidth_hbm * 1e6,
        link_out_us=link_out / rates.shared_bandwidth_link_out * 1e6,
        link_in_us=link_in / rates.shared_bandwidth_link_in * 1e6,
        latency_us=_latency_us(program, rates, _between_ranks(timeline.sent)),
    )


def parts_of_peak(timeline: Timeline, ranks: Sequence[RankIntegers]) -> dict[str, float]:
    """For each family of matrix tasks, the part of a core's peak that its tasks reach alone.

    Valid rows and columns count as work. Of rank 0; `ranks` are the inputs of the run. Families
    whose tasks have no rows are left out. Raises ExecutionError where the inputs have no routing.
    """
    program = timeline.program
    rows = routed_rows(program, ranks)[0]
    cycles_per_us = timeline.machine.rates.clock_frequency / 1e6
    found: dict[str, float] = {}
    for name, family in program.families.items():
        macs = _family_macs(program, family, rows)
        if family.core_kind is CoreKind.AIC and macs:
            tasks = timeline.family(name)
            alone_us = float(tasks["alone"][tasks["rank"] == 0].sum()) / 1000
            found[name] = macs / CUBE_MACS / cycles_per_us / alone_us
    return found


def _macs(program: LoweredProgram, rows: RowCounts) -> int:
    """Multiply-accumulates of all tasks, of valid rows and columns only."""
    return sum(_family_macs(program, family, rows) for family in program.families.values())


def _family_macs(program: LoweredProgram, family: TasksOp, rows: RowCounts) -> int:
    selectors = [a.rows for a in (*family.read_accesses, *family.write_accesses)]
    first = next((s for s in selectors if s is not None), None)
    count = 1 if first is None else first.total_rows(rows, family.extents)
    return count * _row_macs(family, program.buffers)


def _row_macs(family: TasksOp, buffers: dict[str, BufferOp]) -> int:
    """For one row, over all blocks of columns."""

    def columns(access: Access) -> int:
        content = buffers[access.buffer].content
        if isinstance(content, RouteType):
            return 1
        selector = access.selectors[-1]
        whole = isinstance(selector, BlockSelector) or access.rows is not selector
        return content.dims[-1] if whole else 1

    reads = [columns(access) for access in family.read_accesses]
    writes = [columns(access) for access in family.write_accesses]
    return family.find_kernel().cost(reads, writes, family.int_options).macs


def _argument_bytes(program: LoweredProgram, rows: RowCounts, l2_bytes: float) -> float:
    """Bytes of a rank that memory moves: inputs, and outputs that L2 can't keep.

    Of weights and their gradients, those of experts that have rows. L2 is empty at first.
    """
    read = written = 0.0
    for buffer in program.arguments:
        type = buffer_type(buffer)
        size = float(np.prod(type.dims, dtype=np.float64)) * element_bytes(type.element_type)
        if type.rows.data:
            size *= rows.of_kind(RowKind(type.rows.data)) / type.dims[0]
        elif len(type.dims) == 3 and type.dims[0] == len(rows.received):
            size *= np.count_nonzero(rows.received) / len(rows.received)
        if buffer.space.data is MemorySpace.OUTPUT:
            written += size
        else:
            read += size
    return read + max(0.0, written - l2_bytes)


def _between_ranks(sent: IntArray) -> IntArray:
    """[ranks, ranks] rows that each rank sends to each other one, 0 to itself."""
    ranks = len(sent)
    rows = sent.reshape(ranks, ranks, -1).sum(axis=2)
    np.fill_diagonal(rows, 0)
    return rows


def _link_bytes(program: LoweredProgram, sent: IntArray) -> tuple[float, float]:
    """Bytes of rows out of the rank that sends most, and into the rank that receives most.

    Each row of a window that other ranks write is written once, by the rank that has it.
    """
    rows = _between_ranks(sent)
    written = {
        access.buffer
        for family in program.families.values()
        for access in family.write_accesses
        if access.peer is not None
    }
    out, into = np.zeros(len(rows)), np.zeros(len(rows))
    for name in sorted(written):
        content = program.buffers[name].content
        if isinstance(content, RouteType) or content.rows.data not in WINDOW_ROWS:
            continue
        size = prod(content.dims[1:]) * element_bytes(content.element_type)
        # Windows of grouped rows are written by senders, those of sent rows by the experts' ranks.
        moved = rows if content.rows.data == RowKind.GROUPED else rows.T
        out += moved.sum(axis=1) * size
        into += moved.sum(axis=0) * size
    return float(out.max()), float(into.max())


def _latency_us(program: LoweredProgram, rates: Rates, rows: IntArray) -> float:
    """Latencies of the longest chain of families, counted only where no schedule avoids them.

    `rows` are those between ranks. Families of one kind of core may share a core and need no
    signal; a row moves from a matrix to a vector core, or back, through memory and by a signal.
    """
    local = (rates.latency_signal + rates.latency_poll) * 1e6
    remote = (rates.latency_remote_signal + rates.latency_poll) * 1e6
    graph = FamilyGraph.of_queues(program.op)
    ends = [0.0] * len(graph.families)
    for number, family in enumerate(graph.families):
        for before in graph.before[number]:
            sender = graph.families[before]
            if before >= number:
                continue
            crosses = sender.core_kind is not family.core_kind
            signal = remote if is_put(sender) and rows.any() else local if crosses else 0.0
            ends[number] = max(ends[number], ends[before] + signal)
    return max(ends, default=0.0)
