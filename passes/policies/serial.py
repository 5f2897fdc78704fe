"""Policy `serial`: one operator after the other, as frameworks launch them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.tile import TasksOp
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.passes.analysis.task_roles import FamilyGraph, Segment, expert_of, is_put
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput

GOLDEN = 0.618
"""Fraction of an expert's tasks by which the first core shifts from one expert to the next."""


@dataclass(frozen=True)
class Stage:
    """The task families that form one operator."""

    families: tuple[int, ...]
    communicates: bool
    """Whether it is a collective: it puts rows or counts into other ranks' memory."""
    counts: bool
    """Whether it exchanges the counts of the ranks."""


@dataclass(frozen=True)
class Serial(Policy):
    """Stage after stage, each assigned to the cores round robin from the first core on.

    The tasks of each expert start with a different core, so that the cores that get one tile more
    than others differ from expert to expert.
    """

    name = "serial"
    serial = True

    counts_to_host: bool = False
    """Whether the host reads the counts of the ranks before it launches what depends on them, as it
    does for collectives with sizes of its own for each rank."""

    def __call__(self, work: SchedulingInput) -> Order:
        graph = FamilyGraph.of_dependences(work.families, work.dependences)
        keys: list[IntArray] = [np.empty((0, 0), np.int64)] * len(work.families)
        for number, stage in enumerate(stages_of(graph)):
            for i in stage.families:
                family = work.families[i]
                columns = [number, i, *_turns(family)]
                keys[i] = np.stack(np.broadcast_arrays(*columns), axis=1).astype(np.int64)
        return Order(keys, segments=True)


def stages_of(graph: FamilyGraph) -> list[Stage]:
    """Groups the families of a program into operators, in the order of execution.

    Each family of the layer and each put is an operator of its own; independent families before or
    after the layer share one.
    """
    segments, depths = graph.segments(), graph.depths()
    after = [i for i, s in enumerate(segments) if s is Segment.AFTER]
    tail = dict(zip(after, _depths_among(graph, after), strict=True))
    stages: dict[tuple[int, ...], list[int]] = {}
    for i, family in enumerate(graph.families):
        depth = tail.get(i, depths[i])
        alone = is_put(family) or segments[i] is Segment.LAYER
        stages.setdefault((segments[i], depth, i + 1 if alone else 0), []).append(i)
    return [
        Stage(
            tuple(members),
            any(is_put(graph.families[i]) for i in members),
            any(graph.families[i].kernel.data == "exchange_counts" for i in members),
        )
        for _, members in sorted(stages.items())
    ]


def _depths_among(graph: FamilyGraph, members: list[int]) -> list[int]:
    """Returns the length of the longest chain within `members` that ends at each member."""
    depths = dict.fromkeys(members, 0)
    for _ in members:
        for i in members:
            depths[i] = max((depths[b] + 1 for b in graph.before[i] if b in depths), default=0)
    return [depths[i] for i in members]


def _turns(family: TasksOp) -> list[IntArray]:
    """Returns the sort keys of a family's tasks: expert, then shifted index; puts: the index."""
    points = np.arange(family.task_count)
    expert = None if is_put(family) else expert_of(family)
    if expert is None:
        return [points, np.zeros_like(points)]
    count = ceil_div(family.task_count, int(expert.max()) + 1)
    shift = np.floor(expert * count * GOLDEN).astype(np.int64)
    return [expert, (points + shift) % count]
