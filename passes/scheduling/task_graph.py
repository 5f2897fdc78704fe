"""Which tasks wait for which, task by task, as one rank sees it.

All ranks have one order, so a schedule is made for one rank that stands for all: what other ranks
put into its memory comes when its own tasks of the same grid points have put theirs. Where ranks
differ, a task is taken to wait for all that it waits for on any rank, so that an order that is
right here is right on each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import IntArray, evaluate_index, flat_events, uses_rank
from hpmoe_ir.dialects.tile import DependenceOp, TasksOp


@dataclass(frozen=True)
class Events:
    """The events of one dependence: who counts towards them, who waits."""

    producer: int
    """Number of the family whose tasks count towards them."""
    consumer: int
    remote: bool
    """Whether they are counted in other ranks' memory."""
    points: IntArray
    """Producers' points, one for each pair of a task and an event."""
    events: IntArray
    """The event of each pair."""
    waited: IntArray
    """The event that each task of the consumer waits for."""
    count: int


@dataclass(frozen=True)
class TaskGraph:
    """The tasks of one rank, numbered family by family."""

    families: Sequence[TasksOp]
    first: IntArray
    """Number of each family's first task; one more at the end."""
    dependences: tuple[Events, ...]

    @property
    def task_count(self) -> int:
        """Number of tasks of a rank."""
        return int(self.first[-1])


def task_graph(
    families: Sequence[TasksOp], dependences: Sequence[DependenceOp], ranks: int
) -> TaskGraph:
    """The graph of a program's tasks."""
    numbers = {f.sym_name.data: i for i, f in enumerate(families)}
    first = np.cumsum([0, *(f.task_count for f in families)])
    return TaskGraph(
        families, first, tuple(_events(d, numbers, families, ranks) for d in dependences)
    )


def _events(
    d: DependenceOp, numbers: dict[str, int], families: Sequence[TasksOp], ranks: int
) -> Events:
    p = numbers[d.producer.root_reference.data]
    c = numbers[d.consumer.root_reference.data]
    of_producer, of_consumer = families[p].coordinates(), families[c].coordinates()
    size, waiting = families[p].task_count, families[c].task_count
    differ = any(map(uses_rank, (*d.source_exprs, *d.target_exprs)))
    seen = range(ranks if differ or d.peer is not None else 1)
    sources = [flat_events(d.source_exprs, d.extents, of_producer, r, size) for r in seen]
    targets = [flat_events(d.target_exprs, d.extents, of_consumer, r, waiting) for r in seen]
    # Events go by the number that they have for the tasks that wait on rank 0.
    names = _names(targets, d.event_count)
    codes: list[IntArray] = []
    for rank in seen:
        if d.peer_expr is None:
            name = names[rank][sources[rank]]
        else:
            owner = np.asarray(evaluate_index(d.peer_expr, of_producer, rank))
            name = names[np.broadcast_to(owner, (size,)), sources[rank]]
        used = np.flatnonzero(name >= 0)
        codes.append(used * d.event_count + name[used])
        if len(codes) == 16:
            codes = [np.unique(np.concatenate(codes))]
    pairs = np.unique(np.concatenate(codes))
    return Events(
        p,
        c,
        d.peer is not None,
        pairs // d.event_count,
        pairs % d.event_count,
        names[0][targets[0]],
        d.event_count,
    )


def _names(targets: Sequence[IntArray], count: int) -> IntArray:
    """For each rank and event, the number of the event on rank 0 that the same tasks wait for.

    -1 for events that nobody waits for. Where tasks that wait for one event on rank 0 wait for
    several on another rank, or the other way round, all events have one name.
    """
    names = np.full((len(targets), count), -1, dtype=np.int64)
    for rank, target in enumerate(targets):
        names[rank, target] = targets[0]
        if (names[rank, target] != targets[0]).any():
            return np.zeros_like(names)
    return names
