"""What no schedule of a program's tasks can beat on a machine, for one routing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from hpmoe_ir.dialects.access import Access, BlockSelector, RowCounts, RowKind
from hpmoe_ir.dialects.index import evaluate_index, flat_events
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import BufferOp, TasksOp, buffer_type, element_bytes
from hpmoe_ir.kernels.device import CUBE_MACS
from hpmoe_ir.lowering.program import LoweredProgram
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.run.execution import ExecutionError
from hpmoe_ir.runtime.task_records import Records
from hpmoe_ir.timing.timed_run import RankIntegers, Timeline, ids_of


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of the time of one launch, in us, each for the rank where it is largest."""

    matrix_us: float
    """Products of the routing's rows, at the peak of all matrix cores: no padding, no start."""
    vector_us: float
    """The busiest of the vector cores' pipes, evenly spread: what the tile kernels move and
    compute there, at what a core gets alone."""
    memory_us: float
    """Inputs that are used and outputs, each moved once, at the bandwidth of memory."""
    link_out_us: float
    """Bytes sent to other ranks."""
    link_in_us: float
    """Bytes received from other ranks."""
    chain_us: float
    """The longest chain of tasks that wait for each other, each as fast as it is alone from the
    look that finds its counters reached to its signal, with the signals' latencies in between."""
    matrix_tasks_us: float
    """The program's own matrix tasks, each as fast as it is alone, evenly spread over the matrix
    cores: what no order of these tasks can beat, however well the cube is fed within them."""

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

    Products and memory follow from the program and the routing; the vector cores' work, the bytes
    on the links and the times of lone tasks are those that the run counted, which do not depend on
    the schedule. Raises ExecutionError where the inputs have no routing.
    """
    program, rates = timeline.program, timeline.machine.rates
    rows = routed_rows(program, ranks)
    totals = timeline.totals
    aic, aiv = (program.orders[kind].core_count for kind in (CoreKind.AIC, CoreKind.AIV))
    macs = max(_macs(program, rank) for rank in rows)
    memory = max(_argument_bytes(program, rank) for rank in rows)
    pipes = [float(totals[f"aiv_{pipe}"].max()) for pipe in ("v", "mte2", "mte3")]
    return Bounds(
        matrix_us=macs / (CUBE_MACS * aic * rates.clock_frequency) * 1e6,
        vector_us=max(pipes) / aiv / 1000,
        memory_us=memory / rates.shared_bandwidth_hbm * 1e6,
        link_out_us=float(totals["link_out_bytes"].max()) / rates.shared_bandwidth_link_out * 1e6,
        link_in_us=float(totals["link_in_bytes"].max()) / rates.shared_bandwidth_link_in * 1e6,
        chain_us=longest_chain_us(timeline),
        matrix_tasks_us=matrix_tasks_us(timeline),
    )


def matrix_tasks_us(timeline: Timeline) -> float:
    """Time of a rank's matrix tasks, each alone, over its matrix cores; of the rank with most."""
    tasks, cores = timeline.tasks, timeline.program.orders[CoreKind.AIC].core_count
    matrix = tasks[tasks["core"] < cores]
    by_rank = np.bincount(matrix["rank"], matrix["alone"], minlength=1)
    return float(by_rank.max()) / cores / 1000


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


def _argument_bytes(program: LoweredProgram, rows: RowCounts) -> float:
    """Inputs and outputs of a rank; of weights, those of experts that have rows."""
    total = 0.0
    for buffer in program.arguments:
        type = buffer_type(buffer)
        size = float(np.prod(type.dims, dtype=np.float64)) * element_bytes(type.element_type)
        if type.rows.data:
            size *= rows.of_kind(RowKind(type.rows.data)) / type.dims[0]
        elif len(type.dims) == 3 and type.dims[0] == len(rows.received):
            size *= np.count_nonzero(rows.received) / len(rows.received)
        total += size
    return total


def longest_chain_us(timeline: Timeline) -> float:
    """Time of the longest chain of tasks over all ranks, each as fast as it is alone.

    Families come in an order that dependences agree with, so one pass over them is enough.
    """
    program, rates = timeline.program, timeline.machine.rates
    known = {
        name: np.zeros((program.ranks, event.event_count)) for name, event in program.events.items()
    }
    ends_of: dict[str, Records] = {}
    longest = 0.0
    for name, family in program.families.items():
        alone = _alone_us(timeline, timeline.family(name), family)
        points, size = family.coordinates(), family.task_count
        waits = [w for w in program.waits if w.family_name == name]
        signals = program.signals_of_family(name)
        left_out = np.broadcast_to(timeline.left_out(name), (program.ranks, size))
        ends = ends_of[name] = np.zeros((program.ranks, size))
        for rank in range(program.ranks):
            start = np.zeros(size)
            for wait in waits:
                extents = program.events[wait.event_name].extents
                if wait.event_range is not None:
                    # At least the first one, whichever events the route names.
                    start = np.maximum(start, known[wait.event_name][rank].min(initial=0.0))
                    continue
                flat = flat_events(wait.index_exprs, extents, points, rank, size)
                start = np.maximum(start, known[wait.event_name][rank][flat])
            ends[rank] = start + alone[rank]
        longest = max(longest, float(ends.max(initial=0.0)))
        for signal in signals:
            extents = program.events[signal.event_name].extents
            for rank in range(program.ranks):
                flat = flat_events(signal.index_exprs, extents, points, rank, size)
                owner = np.full(size, rank)
                if signal.peer_expr is not None:
                    owner = np.broadcast_to(evaluate_index(signal.peer_expr, points, rank), size)
                latency = np.where(
                    owner == rank, rates.latency_signal * 1e6, rates.latency_remote_signal * 1e6
                )
                at = ends[rank] + latency
                if signal.credit_name is not None:
                    given = ends_of[signal.credit_name][owner, 0] + rates.latency_signal * 1e6
                    at = np.where(left_out[rank], given, at)
                np.maximum.at(known[signal.event_name], (owner, flat), at)
    return longest


def _alone_us(timeline: Timeline, tasks: Records, family: TasksOp) -> Records:
    """Time of each task alone, by rank and grid point."""
    alone = np.zeros((timeline.program.ranks, family.task_count))
    alone[tasks["rank"], timeline.points(tasks)] = tasks["alone"] / 1000
    if len(timeline.totals) == 1:
        alone[:] = alone[0]  # a mirrored run
    return alone
