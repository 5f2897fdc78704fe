"""Roles of task families, derived from their accesses and dependences.

Policies of other systems distinguish dispatch, matmuls and weight gradients. A family's role
follows from its accesses, not from its name, so that operators of other packages are recognized
too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np

from hpmoe_ir.dialects import queue
from hpmoe_ir.dialects.access import Access, RowKind
from hpmoe_ir.dialects.index import IntArray, dims_used, evaluate_index
from hpmoe_ir.dialects.tile import DependenceOp, TasksOp, families_of
from hpmoe_ir.machines.core_kind import CoreKind


def expert_of(family: TasksOp) -> IntArray | None:
    """Returns the local expert of each task's rows; None if the accesses have no single expert."""
    for access in (*family.write_accesses, *family.read_accesses):
        expert = None if access.rows is None else access.rows.local_expert
        if expert is not None:
            value = evaluate_index(expert, family.coordinates(), 0)
            return np.broadcast_to(np.asarray(value, dtype=np.int64), (family.task_count,))
    return None


def is_put(family: TasksOp) -> bool:
    """Whether the tasks write into the memory of other ranks."""
    return family.target_peer is not None


def is_dispatch(family: TasksOp) -> bool:
    """Whether the tasks put rows into the windows of the experts' ranks."""
    return is_put(family) and _has_grouped_rows(family.write_accesses)


def is_return(family: TasksOp) -> bool:
    """Whether the tasks put experts' rows into the windows of the tokens' ranks."""
    return is_put(family) and _has_grouped_rows(family.read_accesses) and not is_dispatch(family)


def is_weight_gradient(family: TasksOp) -> bool:
    """Whether matrix tasks sum over an expert's rows: they read rows and write none."""
    return (
        family.core_kind is CoreKind.AIC
        and _has_grouped_rows(family.read_accesses)
        and all(a.rows is None for a in family.write_accesses)
    )


def _has_grouped_rows(accesses: Iterable[Access]) -> bool:
    return any(a.rows is not None and a.rows.kind is RowKind.GROUPED for a in accesses)


def peer_dims(family: TasksOp) -> set[int]:
    """Returns the coordinates that determine the rank that the tasks write to."""
    peer = family.target_peer
    return set() if peer is None else dims_used(peer)


def expert_places(family: TasksOp, expert: IntArray | None) -> IntArray:
    """Returns each task's position in its family, sorted by expert, other coordinates, peer."""
    peers = peer_dims(family)
    points = family.coordinates()
    by = [expert] if expert is not None else []
    by += [c for d, c in enumerate(points) if d not in peers]
    by += [points[d] for d in sorted(peers)]
    places = np.zeros(family.task_count, dtype=np.int64)
    if by:
        places[np.lexsort(by[::-1])] = np.arange(family.task_count)
    return places


class Segment(IntEnum):
    """Consecutive segments of a program; a policy orders the tasks within each."""

    BEFORE = 0
    """Families that dispatch waits for, such as building the route."""
    LAYER = 1
    """Puts, matrix tasks and the families between them."""
    AFTER = 2
    """Vector tasks that no put or matrix task waits for: sums of copies, copies of saved values."""


class FamilyGraph:
    """The wait-for graph between families, which are numbered in program order."""

    def __init__(self, families: Sequence[TasksOp], pairs: Iterable[tuple[str, str]]) -> None:
        """Builds the graph from pairs of family names, of which the second waits for the first."""
        numbers = {f.sym_name.data: i for i, f in enumerate(families)}
        self.families = families
        self.before: list[set[int]] = [set() for _ in families]
        """The families that each family waits for directly."""
        self.after: list[set[int]] = [set() for _ in families]
        for first, second in pairs:
            self.before[numbers[second]].add(numbers[first])
            self.after[numbers[first]].add(numbers[second])

    @classmethod
    def of_dependences(
        cls, families: Sequence[TasksOp], dependences: Sequence[DependenceOp]
    ) -> FamilyGraph:
        """Builds the graph of a tile program."""
        pairs = [
            (d.producer.root_reference.data, d.consumer.root_reference.data) for d in dependences
        ]
        return cls(families, pairs)

    @classmethod
    def of_queues(cls, program: queue.ProgramOp) -> FamilyGraph:
        """Builds the graph of a queue program."""
        pairs = [
            (signal.family_name, wait.family_name)
            for signal in queue.signals_of(program)
            for wait in queue.waits_of(program)
            if signal.event_name == wait.event_name
        ]
        return cls(list(families_of(program).values()), pairs)

    def segments(self) -> list[Segment]:
        """Returns the segment of each family."""
        before = self.upstream({i for i, f in enumerate(self.families) if is_dispatch(f)})
        inside = {
            i for i, f in enumerate(self.families) if f.core_kind is CoreKind.AIC or is_put(f)
        }
        inside |= self.upstream(inside)
        return [
            Segment.BEFORE if i in before else Segment.LAYER if i in inside else Segment.AFTER
            for i in range(len(self.families))
        ]

    def depths(self) -> list[int]:
        """Returns the length of the longest chain of dependences that ends at each family.

        Families of equal depth do not wait for each other, even indirectly. If the graph of
        families has a cycle, which is legal if the tasks have none, the depths have no meaning.
        """
        depths = [0] * len(self.before)
        # Longest paths of an acyclic graph: one round for each step that a path can have.
        for _ in depths:
            longer = [max((depths[b] + 1 for b in before), default=0) for before in self.before]
            if longer == depths:
                break
            depths = longer
        return depths

    def upstream(self, families: set[int]) -> set[int]:
        """Returns the families that `families` wait for, directly or indirectly."""
        return _reachable(families, self.before)

    def downstream(self, families: set[int]) -> set[int]:
        """Returns the families that wait for `families`, directly or indirectly."""
        return _reachable(families, self.after)


def _reachable(start: set[int], steps: list[set[int]]) -> set[int]:
    found: set[int] = set()
    todo = list(start)
    while todo:
        for following in steps[todo.pop()] - found:
            found.add(following)
            todo.append(following)
    return found
