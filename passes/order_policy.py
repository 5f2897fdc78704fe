"""Orders of tasks: a key for each task, by which all cores of a kind take them.

An order is safe when it is one global order of all tasks, of all ranks, in which each task comes
after the tasks that it waits for: then the first task that has not ended is at the head of its
queue and waits for nothing that has not ended. Both policies here are such orders by construction;
their keys do not depend on the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from hpmoe_ir.dialects.index import IntArray, evaluate_index
from hpmoe_ir.dialects.region import GroupedRows
from hpmoe_ir.dialects.tile import DependenceOp, TasksOp
from hpmoe_ir.passes.dependence import flat_events, ranks_that_differ

Keys: TypeAlias = list[IntArray]
"""For each family, one row of keys for each task; rows compare from left to right."""


def operator_order(families: Sequence[TasksOp], dependences: Sequence[DependenceOp]) -> Keys:
    """Family after family, in the order of the program."""
    return [
        np.stack([np.full(f.task_count, i), np.arange(f.task_count)], axis=1)
        for i, f in enumerate(families)
    ]


def depth_first(
    families: Sequence[TasksOp], dependences: Sequence[DependenceOp], ahead: int
) -> Keys:
    """Expert after expert: all families of an expert before the next expert's.

    Families that work on the rows of one expert take turns expert by expert; those before and
    after, which join all experts, keep their place. Each time that the rows pass from vector cores
    to matrix cores again, the family falls one expert behind, so that the matrix cores have the
    next expert's first product to do while the vector cores work on this one's. Puts that rows
    begin with are `ahead` experts early.
    """
    numbers = {f.sym_name.data: i for i, f in enumerate(families)}
    experts = [_expert_of(f) for f in families]
    phase = [int(e is not None) for e in experts]
    lag = [0] * len(families)
    # Whether no other family has worked on the rows before, in the same phase.
    first = [True] * len(families)
    for d in sorted(dependences, key=lambda d: numbers[d.consumer.root_reference.data]):
        p = numbers[d.producer.root_reference.data]
        c = numbers[d.consumer.root_reference.data]
        joins = (experts[p] is None) != (experts[c] is None)
        if phase[p] + int(joins) > phase[c]:
            phase[c] = phase[p] + int(joins)
            lag[c], first[c] = 0, True
        if experts[p] is None or experts[c] is None or phase[p] != phase[c]:
            continue
        again = families[p].core.data == "aiv" and families[c].core.data == "aic" and not first[p]
        lag[c] = max(lag[c], lag[p] + int(again))
        first[c] = False
    keys: Keys = []
    for i, family in enumerate(families):
        count = family.task_count
        expert = experts[i]
        turn = np.zeros(count, dtype=np.int64)
        if expert is not None:
            turn = expert + (-ahead if first[i] else lag[i])
        keys.append(
            np.stack([np.full(count, phase[i]), turn, np.full(count, i), np.arange(count)], axis=1)
        )
    return keys


def _expert_of(family: TasksOp) -> IntArray | None:
    """The local expert whose rows each task works on, None where it is not one expert."""
    for region in (*family.write_regions, *family.read_regions):
        rows = region.rows
        if isinstance(rows, GroupedRows):
            value = evaluate_index(rows.expert, family.coordinates(), 0)
            return np.broadcast_to(np.asarray(value, dtype=np.int64), (family.task_count,))
    return None


POLICIES: dict[str, Callable[[Sequence[TasksOp], Sequence[DependenceOp], int], Keys]] = {
    "depth-first": depth_first,
    "operator-order": lambda families, dependences, ahead: operator_order(families, dependences),
}
"""Policies by name; `ahead` is how many experts puts are early."""


def first_violation(
    families: Sequence[TasksOp], dependences: Sequence[DependenceOp], keys: Keys, ranks: int
) -> tuple[DependenceOp, int, int] | None:
    """A dependence whose consumer is not after all of its producers, with the two tasks' points.

    Keys are the same on all ranks, so comparing the latest producer of each event with the
    earliest consumer, whatever their ranks, is enough (and more than is needed).
    """
    numbers = {f.sym_name.data: i for i, f in enumerate(families)}
    flat = np.concatenate(keys) if keys else np.zeros((0, 1), dtype=np.int64)
    place = np.empty(len(flat), dtype=np.int64)
    place[np.lexsort(flat.T[::-1])] = np.arange(len(flat))
    starts = np.cumsum([0, *(len(k) for k in keys)])
    for d in dependences:
        p = numbers[d.producer.root_reference.data]
        c = numbers[d.consumer.root_reference.data]
        latest = np.full(d.event_count, -1)
        earliest = np.full(d.event_count, len(flat))
        producers = place[starts[p] : starts[p + 1]]
        consumers = place[starts[c] : starts[c + 1]]
        for rank in ranks_that_differ((d,), ranks):
            source = flat_events(
                d.source_exprs, d.extents, families[p].coordinates(), rank, len(producers)
            )
            target = flat_events(
                d.target_exprs, d.extents, families[c].coordinates(), rank, len(consumers)
            )
            np.maximum.at(latest, source, producers)
            np.minimum.at(earliest, target, consumers)
        wrong = np.flatnonzero(latest >= earliest)
        if wrong.size:
            at = int(wrong[0])
            return (
                d,
                int(np.flatnonzero(producers == latest[at])[0]),
                int(np.flatnonzero(consumers == earliest[at])[0]),
            )
    return None
