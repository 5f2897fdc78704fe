"""Task-level dependence graph of one rank, for list scheduling.

All ranks share one order, so one representative rank is scheduled: a put of another rank into its
memory is assumed to end when this rank's own put of the same grid point does. Where dependences
differ between ranks, a task has the union of its dependences over all ranks, so that an order that
is safe for this graph is safe on each rank. For the same reason a task that waits for a range of
events waits for all that can be in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hpmoe_ir.dialects.index import IntArray, evaluate_index, flat_events, uses_rank
from hpmoe_ir.dialects.tile import DependenceOp, TasksOp


@dataclass(frozen=True)
class Events:
    """The events of one dependence, with the tasks that signal them and those that wait."""

    producer: int
    """Index of the family whose tasks signal the events."""
    consumer: int
    """Index of the family whose tasks wait for the events."""
    remote: bool
    """Whether the counters may be in another rank's memory."""
    points: IntArray
    """[P] flat grid point of the producer task, for each (task, event) pair."""
    events: IntArray
    """[P] event that the task signals, for each (task, event) pair."""
    waited: IntArray
    """[consumer tasks] the event that each task of the consumer waits for."""
    count: int
    """Number of events."""


@dataclass(frozen=True)
class TaskGraph:
    """The tasks of one rank, numbered family by family."""

    families: Sequence[TasksOp]
    first: IntArray
    """[families + 1] number of each family's first task, then the number of tasks."""
    dependences: tuple[Events, ...]

    @property
    def task_count(self) -> int:
        """Number of tasks of one rank."""
        return int(self.first[-1])


def task_graph(
    families: Sequence[TasksOp], dependences: Sequence[DependenceOp], ranks: int
) -> TaskGraph:
    """Builds the task graph of a program, one rank standing for all."""
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
    differ = any(map(uses_rank, (*d.joined_source, *d.target_exprs)))
    seen = range(ranks if differ or d.peer is not None else 1)
    sources = [flat_events(d.joined_source, d.joined_extents, of_producer, r, size) for r in seen]
    targets = [flat_events(d.target_exprs, d.joined_extents, of_consumer, r, waiting) for r in seen]
    # Events are identified by their numbers on rank 0.
    count = prod(d.joined_extents)
    names = _names(targets, count)
    codes: list[IntArray] = []
    for rank in seen:
        if d.peer_expr is None:
            name = names[rank][sources[rank]]
        else:
            owner = np.asarray(evaluate_index(d.peer_expr, of_producer, rank))
            name = names[np.broadcast_to(owner, (size,)), sources[rank]]
        used = np.flatnonzero(name >= 0)
        codes.append(used * count + name[used])
        if len(codes) == 16:
            codes = [np.unique(np.concatenate(codes))]
    pairs = np.unique(np.concatenate(codes))
    return Events(
        p,
        c,
        d.peer is not None,
        pairs // count,
        pairs % count,
        names[0][targets[0]],
        count,
    )


def _names(targets: Sequence[IntArray], count: int) -> IntArray:
    """Returns [ranks, events]: the event on rank 0 that the same tasks wait for.

    -1 for events without waiters. Where the mapping is not one-to-one (tasks that share an event on
    rank 0 wait for several on another rank, or vice versa), all events are merged into event 0.
    """
    names = np.full((len(targets), count), -1, dtype=np.int64)
    for rank, target in enumerate(targets):
        names[rank, target] = targets[0]
        if (names[rank, target] != targets[0]).any():
            return np.zeros_like(names)
    return names
