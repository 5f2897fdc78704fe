"""How long tasks take, roughly: what their kernels say for the sizes of their tiles.

For policies that compare orders, not for predictions: routing is taken to be balanced, with as many
tokens as a rank may bring. The time of a task is its kernel's (`Kernel.seconds`), and a poll, a
signal and the use of the link besides.
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
"""Words of the route that a put reads from memory to find its rows."""


@dataclass(frozen=True)
class TaskTimes:
    """Seconds of each task of a family."""

    core: Float64Array
    """For which it takes its core, the link apart."""
    link: Float64Array
    """For which it takes the chip's link to other ranks: 0 for what stays on its rank."""


def task_times(family: TasksOp, work: SchedulingInput) -> TaskTimes:
    """The times of a family's tasks, by its kernel and what the worker does around it."""
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
    # Half of the bytes are loads; what goes to the own rank takes no link.
    away = np.asarray(evaluate_index(peer, family.coordinates(), 0)) != 0
    sent = np.where(away, sizes.rows * kernel.task_cost(sizes).bytes_moved / 2, 0.0)
    core = np.maximum(core, sent / rates.core_bandwidth_link + alone)
    return TaskTimes(core, sent / rates.shared_bandwidth_link_out)


def tile_sizes(family: TasksOp, work: SchedulingInput) -> TileSizes:
    """Sizes of the tiles of a family's tasks, under balanced routing."""
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
    """Tasks that write one part together, 1 unless all parts are written by `scatter`."""
    accesses = family.write_accesses
    if not all(access.scatter for access in accesses):
        return 1
    used = {d for access in accesses for e in access.exprs for d in dims_used(e)}
    return prod(n for d, n in enumerate(family.extents) if d not in used)


def access_columns(access: Access, buffer: BufferOp) -> int:
    """Columns of an access's tile, 1 where they are dynamic rows of one number each."""
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
    """Rows of an access's tile, where they are not dynamic."""
    content = buffer.content
    if isinstance(content, RouteType) or len(access.selectors) < 2:
        return 1
    selector, extent = access.selectors[-2], content.dims[-2]
    return min(selector.size, extent) if isinstance(selector, BlockSelector) else extent


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
