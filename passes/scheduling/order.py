"""Orders of tasks: a sort key for each task, by which the queues are filled.

An order is safe (free of deadlock) when it is a topological order of the tasks of all ranks: each
task comes after the tasks that it waits for. Then the first unfinished task is always at the head
of its queue, and all its producers have ended. `assign-queues` checks the order of every policy.
Keys do not depend on the rank.

Each policy is a module of `passes/policies`; its `registry` maps names to policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from hpmoe_ir.dialects.index import IntArray, evaluate_index, flat_events
from hpmoe_ir.dialects.tile import BufferOp, DependenceOp, TasksOp
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.passes.analysis.dependence import ranks_that_differ

Keys: TypeAlias = list[IntArray]
"""For each family, int[tasks, keys]: one row per task; rows compare lexicographically."""


@dataclass(frozen=True)
class SchedulingInput:
    """Input of a policy: the tasks of a program and the cores that execute them."""

    families: Sequence[TasksOp]
    dependences: Sequence[DependenceOp]
    buffers: dict[str, BufferOp]
    ranks: int
    machine: Machine
    cores: dict[CoreKind, int]
    """Number of cores of each kind that execute tasks."""


@dataclass(frozen=True)
class Order:
    """Result of a policy: the order of all tasks and, optionally, their cores."""

    keys: Keys
    segments: bool = False
    """Whether round-robin assignment restarts with the first core where the first key changes."""
    cores: list[IntArray] | None = None
    """For each family, the core of each task, among those of its kind; None: round robin."""


def first_violation(
    families: Sequence[TasksOp], dependences: Sequence[DependenceOp], keys: Keys, ranks: int
) -> tuple[DependenceOp, int, int] | None:
    """Finds a dependence with a consumer task that is not after all of its producer tasks.

    Returns the dependence and the flat grid points of one such producer and consumer, or None where
    the order is safe. For each event on each rank, compares the latest task of any rank that
    signals it with the earliest task that waits for it; keys are the same on all ranks.
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
        # A consumer may have to wait for any event of a range: those of a range are joined.
        events = prod(d.joined_extents)
        latest = np.full((len(seen), events), -1)
        earliest = np.full((len(seen), events), len(flat))
        for rank in seen:
            of_producer = families[p].coordinates()
            source = flat_events(
                d.joined_source, d.joined_extents, of_producer, rank, len(producers)
            )
            owner = rank if d.peer_expr is None else evaluate_index(d.peer_expr, of_producer, rank)
            np.maximum.at(latest, (np.asarray(owner), source), producers)
            target = flat_events(
                d.target_exprs, d.joined_extents, families[c].coordinates(), rank, len(consumers)
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
