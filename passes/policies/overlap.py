"""Policy `overlap`: part after part of the rows, with return puts hidden under the last matmuls.

List scheduling by critical paths (see `list_order`) keeps cores busy but computes the first matmul
of all experts before the second of any: no return put can start until half the work is done, and
all sums are left for the end. `depth_first` passes rows on early but lets a core wait for its next
task. This policy combines the priorities of `depth_first` with the ready times of list scheduling,
and respects shared resources: no more concurrent puts than saturate the link, and no more sums
concurrent with matmuls than the memory bandwidth allows. The dispatch puts to one rank are issued
in sequence by a dedicated core, so that a rank that receives many times as many rows as others
delays the other ranks little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Annotated

import numpy as np

from hpmoe_ir.dialects.access import BlockSelector
from hpmoe_ir.dialects.index import BoolArray, IntArray, dims_used, evaluate_index
from hpmoe_ir.dialects.tile import TasksOp
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.options.options import Range
from hpmoe_ir.passes.analysis.task_roles import (
    FamilyGraph,
    Segment,
    expert_of,
    is_dispatch,
    is_put,
    is_return,
    is_weight_gradient,
)
from hpmoe_ir.passes.policies.arrival import source_group_dim
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.list_order import priorities
from hpmoe_ir.passes.policies.policy import LookAheadPolicy
from hpmoe_ir.passes.scheduling.free_cores import Lanes
from hpmoe_ir.passes.scheduling.list_schedule import Limit, Times, list_schedule
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput
from hpmoe_ir.passes.scheduling.task_graph import task_graph

SUMMING = 2 / 3
"""Fraction of the vector cores that sum rows while matmuls run; all of them together would exceed
the memory bandwidth. For a DeepSeek-V3 layer on 8, 16 and 64 ranks 1/2, 4/5 and 1 are up to 1.3%
slower, 1/3 is 2% to 4% slower."""

GOLDEN = (3 - 5**0.5) / 2
"""1 minus the inverse golden ratio; its multiples modulo 1 are evenly spread for any count."""


@dataclass(frozen=True)
class Overlap(LookAheadPolicy):
    """Parts of experts' rows one after the other, split finely at the end.

    A part is the rows of an expert from one source group; parts are taken in order of arrival. Each
    matmul lags the one before it by `behind` tasks per matrix core. Where return puts are split by
    columns (`return_cols`, `last_experts`), the matmuls that produce these columns come last and
    compute one block of columns of all their experts after the other; sums follow block by block,
    so that only the sums of the last block remain at the end. Weight gradients have the lowest
    priority and fill idle time.
    """

    name = "overlap"

    behind: Annotated[int, Range(0, unit="tasks")] = 2
    """Lag between the two matmuls, in tasks per AIC."""

    def __call__(self, work: SchedulingInput) -> Order:
        by_expert = DepthFirst(self.ahead)(work).keys
        if not by_expert:
            return Order(by_expert)
        families = work.families
        of_families = FamilyGraph.of_dependences(families, work.dependences)
        segments = of_families.segments()
        ending = _ending(families, of_families)
        keys: list[IntArray] = []
        for i, family in enumerate(families):
            after = segments[i] is Segment.AFTER
            place = 2 if after else int(i in ending)
            columns = [
                int(is_weight_gradient(family)),
                place,
                _column(family) if place else 0,
                by_expert[i][:, 0],
                _turn(work, self, family, by_expert[i][:, 1]),
                i,
                _place(family),
            ]
            keys.append(np.stack(np.broadcast_arrays(*columns), axis=1).astype(np.int64))
        graph = task_graph(families, work.dependences, work.ranks)
        order = priorities(work, list(np.concatenate(keys).T))
        limits = _limits(work, segments, ending)
        return list_schedule(work, graph, Times.of(work), order, limits, _lanes(work))

    @classmethod
    def search_space(cls) -> Mapping[str, Sequence[object]]:
        return {**super().search_space(), "behind": (0, 1, 2, 3, 4, 6)}


def _ending(families: Sequence[TasksOp], graph: FamilyGraph) -> set[int]:
    """Returns the return puts of column blocks and the matmuls with the same column blocks."""
    returns = {i for i, f in enumerate(families) if is_return(f) and _column_block(f)}
    products = {
        p
        for r in returns
        for p in graph.before[r]
        if _column_block(families[p]) == _column_block(families[r])
    }
    return returns | products if products else set()


def _turn(work: SchedulingInput, policy: Overlap, family: TasksOp, by_expert: IntArray) -> IntArray:
    """Returns the part of the rows with which each task is scheduled."""
    expert = expert_of(family)
    if expert is None:
        return by_expert
    groups = max(
        (f.extents[d] for f in work.families if (d := source_group_dim(f)) is not None), default=1
    )
    points = family.coordinates()
    part = expert * groups
    dim = source_group_dim(family)
    if dim is not None:
        part = part + points[dim]
    elif is_put(family) and family.target_peer is not None:
        # Source groups count downwards: rank r + i receives the rows of rank r in its i-th group.
        peer = np.asarray(evaluate_index(family.target_peer, points, 0))
        part = part + (peer if is_dispatch(family) else -peer % work.ranks) * groups // work.ranks
        if is_dispatch(family):
            early = (peer == 0) & (expert < _early_experts(work))
            return np.where(early, expert - work.ranks * groups, part - policy.ahead * groups)
    behind = np.maximum(by_expert - expert, 0)
    return part + behind * _lag(work, policy, groups)


def _place(family: TasksOp) -> IntArray:
    """Returns the place of each task among those of its part.

    Where tiles do not divide evenly, the first of the tasks that share a matmul have one tile more;
    the first core is therefore shifted by about `GOLDEN` of the tasks from expert to expert.
    """
    places, expert = np.arange(family.task_count), expert_of(family)
    if not family.find_kernel().variant.shares_product or expert is None:
        return places
    *_, first, shares = (evaluate_index(s.data, family.coordinates(), 0) for s in family.scalars)
    count = int(np.max(shares))
    steps = [step for step in range(1, count) if gcd(step, count) == 1] or [0]
    step = min(steps, key=lambda step: abs(step - GOLDEN * count))
    return (np.asarray(first) + expert * step) % count


def _lag(work: SchedulingInput, policy: Overlap, groups: int) -> int:
    """Returns the lag of a matmul behind the one before it, in parts."""
    counts = [
        f.task_count / (len(np.unique(expert)) * groups)
        for f in work.families
        if f.core_kind is CoreKind.AIC
        and not is_weight_gradient(f)
        and (expert := expert_of(f)) is not None
    ]
    return (
        int(np.ceil(policy.behind * work.cores[CoreKind.AIC] / max(counts[0], 1))) if counts else 0
    )


def _lanes(work: SchedulingInput) -> Lanes | None:
    """Returns the lanes of the dispatch puts, except the early ones.

    The rows for one rank use one lane, or several where there are fewer other ranks than lanes, so
    that a rank that receives many more rows than others gets them in the order in which it needs
    them. Rows for this rank itself use the lanes of the next rank.
    """
    others, count = work.ranks - 1, _lane_count(work)
    if not count:
        return None
    lanes: list[IntArray] = []
    for family in work.families:
        lane = np.full(family.task_count, -1)
        expert, target = expert_of(family), family.target_peer
        if is_dispatch(family) and expert is not None and target is not None:
            peer = np.asarray(evaluate_index(target, family.coordinates(), 0))
            early = (peer == 0) & (expert < _early_experts(work))
            turn = np.maximum(peer - 1, 0) + (expert * others if others < count else 0)
            lane = np.where(early, -1, turn % count)
        lanes.append(np.broadcast_to(lane, (family.task_count,)))
    return Lanes(CoreKind.AIV, np.concatenate(lanes), count)


def _lane_count(work: SchedulingInput) -> int:
    """Returns the lane count that saturates the link, rounded so that ranks share lanes evenly."""
    others, count = work.ranks - 1, min(_link_cores(work), work.cores[CoreKind.AIV] // 2)
    if not others or not count:
        return 0
    if others < count:
        return round(count / others) * others
    return ceil_div(others, round(others / count))


def _early_experts(work: SchedulingInput) -> int:
    """Returns for how many experts this rank's own rows, which need no link, are put first.

    They keep those matrix cores busy for which the lanes deliver no rows at the start.
    """
    return work.cores[CoreKind.AIC] - _lane_count(work)


def _link_cores(work: SchedulingInput) -> int:
    """Returns the number of cores whose puts saturate the link."""
    rates = work.machine.rates
    return int(np.ceil(rates.shared_bandwidth_link_out / rates.core_bandwidth_link))


def _limits(work: SchedulingInput, segments: list[Segment], ending: set[int]) -> list[Limit]:
    """Returns the limits on concurrent return puts and on concurrent sums before the last columns.

    The last puts are short and come in bursts, so more cores than saturate the link take them.
    """
    puts: list[BoolArray] = []
    last: list[BoolArray] = []
    sums: list[BoolArray] = []
    for i, (family, segment) in enumerate(zip(work.families, segments, strict=True)):
        column = _column(family)
        limited = is_put(family) and not is_dispatch(family) and segment is Segment.LAYER
        put = np.full(family.task_count, limited)
        puts.append(put & (i not in ending))
        last.append(put & (i in ending))
        sums.append((segment is Segment.AFTER) & (column < column.max(initial=0)))
    link = _link_cores(work)
    summing = max(1, round(SUMMING * work.cores[CoreKind.AIV]))
    return [
        Limit(np.concatenate(puts), link),
        Limit(np.concatenate(last), max(link, work.cores[CoreKind.AIV] - summing)),
        Limit(np.concatenate(sums), summing, True),
    ]


def _column_block(family: TasksOp) -> int:
    """Returns the width of the column blocks that tasks write, 0 where they write whole rows."""
    lasts = [region.selectors[-1] for region in family.write_accesses if region.selectors]
    return next((last.size for last in lasts if isinstance(last, BlockSelector)), 0)


def _column(family: TasksOp) -> IntArray:
    """Returns the column block that each task writes, 0 where it writes whole rows."""
    for region in family.write_accesses:
        last = region.selectors[-1] if region.selectors else None
        if isinstance(last, BlockSelector) and dims_used(last.index):
            block = evaluate_index(last.index, family.coordinates(), 0)
            return np.broadcast_to(np.asarray(block), (family.task_count,))
    return np.zeros(family.task_count, dtype=np.int64)
