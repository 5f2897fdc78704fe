"""Estimates of task durations from kernel costs and tile sizes.

For policies that compare orders, not for predictions: routing is assumed to be balanced, with the
maximum number of tokens. The time of a task is that of its kernel (`Kernel.seconds`) plus one poll,
one signal and the transfer over the link.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.dialects.access import Access, BlockSelector, WholeSelector
from hpmoe_ir.dialects.index import IntArray, dims_used, evaluate_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import BufferOp, TasksOp, element_bytes
from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.kernels.kernel import TileSizes
from hpmoe_ir.passes.scheduling.order import SchedulingInput

ROUTE_READS = 6
"""Reads of the route that a put makes to find its rows, each as slow as a poll."""


@dataclass(frozen=True)
class TaskTimes:
    """Durations of each task of a family, in seconds."""

    core: Float64Array
    """Time on its core, without contention for the link."""
    link: Float64Array
    """Time on the chip's link to other ranks; 0 for tasks that send nothing to other ranks."""


def task_times(family: TasksOp, work: SchedulingInput) -> TaskTimes:
    """Estimates the times of a family's tasks: its kernel, polls, signals and the link."""
    machine, kernel = work.machine, family.find_kernel()
    rates = machine.rates
    sizes = tile_sizes(family, work)
    alone = rates.latency_poll + rates.latency_signal
    core = kernel.seconds(machine, sizes) + alone
    peer = family.target_peer
    if peer is None:
        return TaskTimes(core, np.zeros(family.task_count))
    if family.route is not None:
        core += ROUTE_READS * rates.latency_poll
    # Half of the bytes moved are loads; rows for this rank do not use the link.
    away = np.asarray(evaluate_index(peer, family.coordinates(), 0)) != 0
    sent = np.where(away, sizes.rows * kernel.task_cost(sizes).bytes_moved / 2, 0.0)
    core = np.maximum(core, sent / rates.core_bandwidth_link + alone)
    return TaskTimes(core, sent / rates.shared_bandwidth_link_out)


def tile_sizes(family: TasksOp, work: SchedulingInput) -> TileSizes:
    """Computes the tile sizes of a family's tasks under balanced routing."""
    reads, writes = (
        tuple(access_columns(a, work.buffers[a.buffer]) for a in accesses)
        for accesses in (family.read_accesses, family.write_accesses)
    )
    result = family.write_accesses[0]
    buffer = work.buffers[result.buffer]
    content = buffer.content
    return TileSizes(
        rows=_rows(family, work),
        read_columns=reads,
        write_columns=writes,
        options=family.int_options,
        result_rows=1 if result.rows is not None else _access_rows(result, buffer),
        result_bytes=0 if isinstance(content, RouteType) else element_bytes(content.element_type),
        sharing=sharing_tasks(family),
    )


def sharing_tasks(family: TasksOp) -> int:
    """Returns how many tasks write the same part; 1 unless all write accesses are `scatter`."""
    accesses = family.write_accesses
    if not all(access.scatter for access in accesses):
        return 1
    used = {d for access in accesses for e in access.exprs for d in dims_used(e)}
    return prod(n for d, n in enumerate(family.extents) if d not in used)


def access_columns(access: Access, buffer: BufferOp) -> int:
    """Returns the columns of an access's tile; 1 for routes and single elements."""
    if isinstance(buffer.content, RouteType):
        return 1
    selector, extent = access.selectors[-1], buffer.content.dims[-1]
    match selector:
        case WholeSelector():
            return extent
        case BlockSelector():
            return min(selector.size, extent)
        case _:
            return 1


def _access_rows(access: Access, buffer: BufferOp) -> int:
    """Returns the rows of an access's tile that has no row selector."""
    content = buffer.content
    if isinstance(content, RouteType) or len(access.selectors) < 2:
        return 1
    selector, extent = access.selectors[-2], content.dims[-2]
    return min(selector.size, extent) if isinstance(selector, BlockSelector) else extent


def _rows(family: TasksOp, work: SchedulingInput) -> Float64Array:
    """Returns the rows of each task under balanced routing; 1 for tasks without row selectors."""
    selectors = [r.rows for r in (*family.write_accesses, *family.read_accesses)]
    found = [s for s in selectors if s is not None]
    routes = [b.content for b in work.buffers.values() if isinstance(b.content, RouteType)]
    if not found or not routes:
        return np.ones(family.task_count)
    points, size = family.coordinates(), family.task_count

    def at(expr: AffineExpr) -> IntArray:
        return np.broadcast_to(np.asarray(evaluate_index(expr, points, 0)), (size,))

    return found[0].balanced_rows(routes[0], at)
