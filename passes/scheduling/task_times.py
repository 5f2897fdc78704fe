"""How long tasks take, roughly: from what kernels declare and the rates of the machine.

For policies that compare orders, not for predictions: no pipe of a core is modelled, only which of
its resources is the busiest, under balanced routing with as many tokens as a rank may bring. Of
matrix tasks blocks are counted as their kernels do them (`matrix_times`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.dialects.access import Access, BlockSelector
from hpmoe_ir.dialects.index import IntArray, evaluate_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import BufferOp, TasksOp, element_bytes
from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.kernels.cann_like import PLAIN_PREFIX
from hpmoe_ir.kernels.matmul_tile import CUBE_MACS, ELEMENT_BYTES, MatmulTile
from hpmoe_ir.kernels.matrix_times import Product
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.passes.annotate_costs import family_cost, region_columns, tasks_of_a_region
from hpmoe_ir.passes.scheduling.order import SchedulingInput

ROUTE_READS = 6
"""Words of the route that a put reads from memory to find its rows."""
FLOAT_BYTES = 4
"""Vector kernels compute in float."""


@dataclass(frozen=True)
class TaskTimes:
    """Seconds of each task of a family."""

    core: Float64Array
    """For which it takes its core, the link apart."""
    link: Float64Array
    """For which it takes the chip's link to other ranks: 0 for what stays on its rank."""


def task_times(family: TasksOp, work: SchedulingInput) -> TaskTimes:
    """The times of a family's tasks, by its costs or those that its kernel declares."""
    machine = work.machine
    rates = machine.rates
    cost = (family.cost or family_cost(family, work.buffers)).data
    rows = _rows(family, work)
    cores = machine.cores(family.core.data)
    shared = rates.shared_bandwidth_l2 / cores
    alone = rates.latency_poll + rates.latency_signal
    if family.core.data == "aic":
        core = _matrix_seconds(family, work, rows) + alone
    else:
        compute = cost.vector_elements * FLOAT_BYTES / _vector_bytes(machine)
        move = cost.bytes_moved / min(rates.core_bandwidth_gm_to_ub, shared)
        # Each row, or copy of it, is a transfer by itself.
        regions = (*family.read_accesses, *family.write_accesses)
        row = ELEMENT_BYTES * max(region_columns(r, work.buffers[r.buffer]) for r in regions)
        move += cost.bytes_moved / row * rates.dma_gm_to_ub_start / rates.clock_frequency
        core = rows * max(compute, move) + alone
        if family.route is not None and family.target_peer is not None:
            core += ROUTE_READS * rates.latency_poll
    link = np.zeros(family.task_count)
    peer = family.target_peer
    if peer is not None:
        # Half of the bytes are loads; what goes to the own rank takes no link.
        away = np.asarray(evaluate_index(peer, family.coordinates(), 0)) != 0
        sent = np.where(away, rows * cost.bytes_moved / 2, 0.0)
        core = np.maximum(core, sent / rates.core_bandwidth_link + alone)
        link = sent / rates.shared_bandwidth_link_out
    return TaskTimes(core, link)


def _matrix_seconds(family: TasksOp, work: SchedulingInput, rows: Float64Array) -> Float64Array:
    """Of matrix tasks, on cores that have the chip for themselves."""
    macs = rows * (family.cost or family_cost(family, work.buffers)).data.macs
    options = family.int_options
    if not {"tile_m", "tile_n", "tile_k"} <= options.keys():
        return macs / (CUBE_MACS * work.machine.rates.clock_frequency)
    written = family.write_accesses[0]
    buffer = work.buffers[written.buffer]
    across = region_columns(written, buffer)
    gradient = written.rows is None
    down = np.full_like(rows, _region_rows(written, buffer)) if gradient else rows
    # Tasks that share a result do whole blocks of it.
    shares = tasks_of_a_region(family)
    depth = rows if gradient else macs * shares / np.maximum(down * across, 1)
    assert not isinstance(buffer.content, RouteType)
    return Product(
        work.machine,
        MatmulTile(*(options[f"tile_{d}"] for d in "mnk")),
        down,
        across,
        depth,
        element_bytes(buffer.content.element_type),
        shares,
        plain=family.kernel.data.startswith(PLAIN_PREFIX),
        gradient=gradient,
    ).seconds()


def _region_rows(region: Access, buffer: BufferOp) -> int:
    """Rows of a region of fixed size."""
    content = buffer.content
    if isinstance(content, RouteType) or len(region.selectors) < 2:
        return 1
    selector, extent = region.selectors[-2], content.dims[-2]
    return min(selector.size, extent) if isinstance(selector, BlockSelector) else extent


def _vector_bytes(machine: Machine) -> float:
    return machine.rates.vector_bytes_per_cycle * machine.rates.clock_frequency


def _rows(family: TasksOp, work: SchedulingInput) -> Float64Array:
    """Rows of each task under balanced routing; 1 where a task has no dynamic rows."""
    selectors = [r.rows for r in (*family.write_accesses, *family.read_accesses)]
    found = [s for s in selectors if s is not None]
    routes = [b.content for b in work.buffers.values() if isinstance(b.content, RouteType)]
    if not found or not routes:
        return np.ones(family.task_count)
    points, size = family.coordinates(), family.task_count

    def at(expr: AffineExpr) -> IntArray:
        return np.broadcast_to(np.asarray(evaluate_index(expr, points, 0)), (size,))

    return found[0].balanced_rows(routes[0], at)
