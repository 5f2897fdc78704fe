"""Policy `tiles`: the tiles of a rank's rows in order, whatever their number.

For programs whose matmuls are cut into tiles that the route numbers (`row-tiles`). Which expert a
tile is of and how many tiles have rows is not known before the launch; but as tiles without rows
come last, dealing them in turn gives each matrix core as many tiles as any other, whatever the
routing. A tile may wait for any put and a put back for any tile, so the order must be safe for all:
puts of the dispatch first, then the products, then the puts back. They do not delay each other,
since puts have vector cores of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from hpmoe_ir.dialects.access import BlockSelector
from hpmoe_ir.dialects.index import IntArray, evaluate_index
from hpmoe_ir.dialects.tile import TasksOp
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.options.options import Range
from hpmoe_ir.passes.analysis.task_roles import (
    FamilyGraph,
    Segment,
    expert_of,
    expert_places,
    is_dispatch,
    is_put,
    is_return,
    is_weight_gradient,
)
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput

BEFORE, DISPATCH, PRODUCTS, GRADIENTS, RETURNS, AFTER = range(6)
"""Phases of the order."""


@dataclass(frozen=True)
class Tiles(Policy):
    """Dispatch, then product after product, tile after tile; puts on vector cores of their own.

    The product whose rows are put back is computed by columns, one block of all tiles after the
    other, so that puts back and sums of a block run while the next one is computed. Weight
    gradients come after it.
    """

    name = "tiles"

    lanes: Annotated[int, Range(0, unit="cores")] = 0
    """Vector cores for puts, at most half of them; 0: as many as saturate the link, at the low end
    of what a core may reach over it."""

    def __call__(self, work: SchedulingInput) -> Order:
        families = work.families
        graph = FamilyGraph.of_dependences(families, work.dependences)
        depths = graph.depths()
        returns = {i for i, f in enumerate(families) if is_return(f)}
        last = {p for r in returns for p in graph.before[r]} | returns
        keys: list[IntArray] = []
        cores: list[IntArray] = []
        before = 0
        phases = _phases(families, graph)
        for i, family in enumerate(families):
            phase = phases[i]
            column = _column(family) if i in last or phase == AFTER else np.zeros(1, np.int64)
            places = expert_places(family, expert_of(family))
            columns = [phase, depths[i], column, i, places]
            keys.append(np.stack(np.broadcast_arrays(*columns), axis=1).astype(np.int64))
            if phase == BEFORE:
                # Family after family goes on where the one before it has ended, so that the task
                # that builds the route has a core of its own beside those that place tokens.
                turn = before + np.arange(family.task_count)
                cores.append(turn % work.cores[family.core_kind])
                before += family.task_count
                continue
            cores.append(self._cores(work, family, phase, keys[-1]))
        return Order(keys, cores=cores)

    @classmethod
    def search_space(cls) -> Mapping[str, Sequence[object]]:
        return {"lanes": (0, 12, 16, 24)}

    def _cores(
        self, work: SchedulingInput, family: TasksOp, phase: int, keys: IntArray
    ) -> IntArray:
        """Deals the tasks of a family in turn to the cores that take them."""
        turn = np.empty(family.task_count, dtype=np.int64)
        turn[np.lexsort(keys.T[::-1])] = np.arange(family.task_count)
        count, column = work.cores[family.core_kind], np.broadcast_to(keys[:, 2], turn.shape)
        blocks = int(column.max(initial=0)) + 1
        if family.core_kind is CoreKind.AIC:
            # Tiles without rows end each block of columns: blocks begin with different cores.
            in_block = turn - column * (family.task_count // blocks)
            return (in_block + column * ceil_div(count, blocks)) % count
        lanes = self._lane_count(work)
        if not lanes:
            return turn % count
        if phase in (DISPATCH, RETURNS):
            return turn % lanes
        apart = lanes + turn % (count - lanes)
        if phase == AFTER:
            # No put is left to wait for when the last sums begin.
            return np.where(column == blocks - 1, turn % count, apart)
        return apart

    def _lane_count(self, work: SchedulingInput) -> int:
        """Returns the number of vector cores for puts, 0 where all cores take puts."""
        if not any(is_put(f) for f in work.families) or work.ranks == 1:
            return 0
        return min(self.lanes or work.machine.link_lanes, work.cores[CoreKind.AIV] // 2)


def _phases(families: Sequence[TasksOp], graph: FamilyGraph) -> list[int]:
    """Returns the phase of each family, not before that of any family that it waits for."""
    segments, depths = graph.segments(), graph.depths()
    phases = [_phase(f, s) for f, s in zip(families, segments, strict=True)]
    for i in sorted(range(len(families)), key=lambda i: depths[i]):
        phases[i] = max([phases[i], *(phases[p] for p in graph.before[i])])
    return phases


def _phase(family: TasksOp, segment: Segment) -> int:
    if segment is Segment.BEFORE and not is_put(family):
        return BEFORE
    if segment is Segment.AFTER:
        return AFTER
    if is_weight_gradient(family):
        return GRADIENTS
    if is_return(family):
        return RETURNS
    if is_dispatch(family):
        return DISPATCH
    return BEFORE if segment is Segment.BEFORE else PRODUCTS


def _column(family: TasksOp) -> IntArray:
    """Returns the block of columns that each task writes, 0 where it writes whole rows."""
    for access in family.write_accesses:
        selector = access.selectors[-1] if access.selectors else None
        if isinstance(selector, BlockSelector):
            value = evaluate_index(selector.index, family.coordinates(), 0)
            return np.broadcast_to(np.asarray(value, dtype=np.int64), (family.task_count,))
    return np.zeros(family.task_count, dtype=np.int64)
