"""Orders of tasks: a key for each task, by which all cores of a kind take them.

An order is safe when it is one global order of all tasks, of all ranks, in which each task comes
after the tasks that it waits for: then the first task that has not ended is at the head of its
queue and waits for nothing that has not ended. `assign-queues` checks this of every order that a
policy gives. Keys do not depend on the rank.

Each policy is a module of `passes/policies`; its `registry` has them by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hpmoe_ir.dialects.index import IntArray, evaluate_index, flat_events
from hpmoe_ir.dialects.tile import BufferOp, DependenceOp, TasksOp
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.passes.analysis.dependence import ranks_that_differ

Keys: TypeAlias = list[IntArray]
"""For each family, one row of keys for each task; rows compare from left to right."""


@dataclass(frozen=True)
class SchedulingInput:
    """What a policy is given: the tasks of a program and the cores that take them."""

    families: Sequence[TasksOp]
    dependences: Sequence[DependenceOp]
    buffers: dict[str, BufferOp]
    ranks: int
    machine: Machine
    cores: dict[CoreKind, int]
    """Cores of each kind that take tasks."""


@dataclass(frozen=True)
class Order:
    """What a policy gives."""

    keys: Keys
    segments: bool = False
    """Whether dealing to cores begins anew with the first core where the first key changes."""
    cores: list[IntArray] | None = None
    """For each family, the core of each task, among those that take tasks; None: in turn."""


def first_violation(
    families: Sequence[TasksOp], dependences: Sequence[DependenceOp], keys: Keys, ranks: int
) -> tuple[DependenceOp, int, int] | None:
    """A dependence whose consumer is not after all of its producers, with the two tasks' points.

    On each rank, the latest of the tasks that count towards an event, on whatever rank, is compared
    with the earliest that waits for it; keys are the same on all ranks.
    """
    numbers = {f.sym_name.data: i for i, f in enumerate(families)}
    flat = np.concatenate(keys) if keys else np.zeros((0, 1), dtype=np.int64)
    place = np.empty(len(flat), dtype=np.int64)
    place[np.lexsort(flat.T[::-1])] = np.arange(len(flat))
    starts = np.cumsum([0, *(len(k) for k in keys)])
    for d in dependences:
        p = numbers[d.producer.root_reference.data]
        c = numbers[d.consumer.root_reference.data]
        producers = place[starts[p] : starts[p + 1]]
        consumers = place[starts[c] : starts[c + 1]]
        seen = range(ranks) if d.peer is not None else ranks_that_differ((d,), ranks)
        latest = np.full((len(seen), d.event_count), -1)
        earliest = np.full((len(seen), d.event_count), len(flat))
        for rank in seen:
            of_producer = families[p].coordinates()
            source = flat_events(d.source_exprs, d.extents, of_producer, rank, len(producers))
            owner = rank if d.peer_expr is None else evaluate_index(d.peer_expr, of_producer, rank)
            np.maximum.at(latest, (np.asarray(owner), source), producers)
            target = flat_events(
                d.target_exprs, d.extents, families[c].coordinates(), rank, len(consumers)
            )
            np.minimum.at(earliest[rank], target, consumers)
        wrong = np.argwhere(latest >= earliest)
        if wrong.size:
            rank, event = wrong[0]
            return (
                d,
                int(np.flatnonzero(producers == latest[rank, event])[0]),
                int(np.flatnonzero(consumers == earliest[rank, event])[0]),
            )
    return None
