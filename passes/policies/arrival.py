"""Policy `arrival`: the first matmul in order of arrival of its rows, the last by columns.

The idea is COMET's (Zhang and others, MLSys 2025, arXiv 2502.19811): split the tensor that
communication and computation share along the dimension in which they are independent. The first
matmul takes the rows of all experts by source rank, this rank's own rows first, so that it starts
before rows of other ranks have arrived. The last matmul computes one block of columns of all
experts after the other, so that the return puts start after the first block. COMET does this within
one kernel on GPUs; here the options `source_groups` and `return_cols` of convert-comm-to-tile set
the granularity of the two splits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.access import Access, BlockSelector
from hpmoe_ir.dialects.index import IntArray, dims_used
from hpmoe_ir.dialects.tile import TasksOp
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.analysis.task_roles import (
    FamilyGraph,
    Segment,
    expert_of,
    is_dispatch,
    is_return,
    is_weight_gradient,
    peer_dims,
)
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput


@dataclass(frozen=True)
class Arrival(Policy):
    """Family after family: ordered by source before the last matmul, by columns from there on.

    Dispatch puts go peer by peer, starting with this rank (with `rotate`). A rank receives its own
    rows first, then those of the rank below it, and so on; `assign-queues` (`rotate-sources`)
    counts source groups in this order from the group of this rank. Weight gradients come after all
    other matmuls.
    """

    name = "arrival"

    def __call__(self, work: SchedulingInput) -> Order:
        families = work.families
        graph = FamilyGraph.of_dependences(families, work.dependences)
        segments, depths = graph.segments(), graph.depths()
        returns = {i for i, f in enumerate(families) if is_return(f)}
        last = {
            p for r in returns for p in graph.before[r] if families[p].core_kind is CoreKind.AIC
        }
        keys: list[IntArray] = []
        for i, family in enumerate(families):
            late = is_weight_gradient(family)
            places = np.arange(family.task_count)
            if segments[i] is Segment.LAYER and not late:
                first = _column_dims(family) if i in last | returns else _source_dims(family)
                places = _places(family, first)
            columns = [segments[i], int(late), depths[i], i, places]
            keys.append(np.stack(np.broadcast_arrays(*columns), axis=1).astype(np.int64))
        return Order(keys)


def source_group_dim(family: TasksOp) -> int | None:
    """Returns the coordinate that numbers source groups of `grouped` rows, or None."""
    for region in (*family.write_accesses, *family.read_accesses):
        group = None if region.rows is None else region.rows.source_group
        if group is not None:
            used = dims_used(group)
            if len(used) == 1 and not is_dispatch(family) and not is_return(family):
                return used.pop()
    return None


def _source_dims(family: TasksOp) -> list[int]:
    """Returns the coordinates that separate rows by their time of arrival."""
    group = source_group_dim(family)
    if group is not None:
        return [group]
    return sorted(peer_dims(family)) if is_dispatch(family) else []


def _column_dims(family: TasksOp) -> list[int]:
    """Returns the coordinates that number the blocks of columns that are written."""

    def columns(region: Access) -> set[int]:
        last = region.selectors[-1]
        return dims_used(last.index) if isinstance(last, BlockSelector) else set()

    return sorted({d for region in family.write_accesses for d in columns(region)})


def _places(family: TasksOp, first: list[int]) -> IntArray:
    """Returns each task's rank in its family, sorted by `first`, expert, other coordinates."""
    points = family.coordinates()
    expert = expert_of(family)
    by = [points[d] for d in first]
    by += [expert] if expert is not None else []
    by += [c for d, c in enumerate(points) if d not in first]
    places = np.zeros(family.task_count, dtype=np.int64)
    if by:
        places[np.lexsort(by[::-1])] = np.arange(family.task_count)
    return places
