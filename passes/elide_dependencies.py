"""`elide-dependencies`: removes the dependences that others imply."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass

from hpmoe_ir.dialects.index import IntArray, evaluate_index, flat_events
from hpmoe_ir.dialects.tile import DependenceOp, ProgramOp, TasksOp, families_of
from hpmoe_ir.passes.analysis.dependence import ranks_that_differ
from hpmoe_ir.passes.analysis.level import programs_at


@dataclass(frozen=True)
class ElideDependenciesPass(ModulePass):
    """Removes each dependence that another dependence, or a chain of two, already implies.

    A dependence is removed if every producer task that a consumer waits for through it has ended
    once another wait of the same consumer ends: directly (the other wait covers those tasks of the
    same producer), or in two steps (the tasks waited for have themselves waited for those, on the
    same rank). Chains of three or more dependences are not searched. An empty put that is credited
    sends no signal: a wait for it implies nothing about the tasks that it has itself waited for,
    except the task that gives the credit. Nor does a wait for a range of events, which may be
    empty; and it is never removed.

    Needs the dependences of `insert-dependencies`. Promises that any two tasks that must be ordered
    remain ordered. Idempotent.

    ```
    tile.dependence @gmm1 (e, n) -> @swiglu (e) on @h events (2) from (e) to (e) count 4
    tile.dependence @route () -> @gmm1 (e, n) on @route events () from () to () count 1
    tile.dependence @route () -> @swiglu (e) on @route events () from () to () count 1
    ```
    becomes
    ```
    tile.dependence @gmm1 (e, n) -> @swiglu (e) on @h events (2) from (e) to (e) count 4
    tile.dependence @route () -> @gmm1 (e, n) on @route events () from () to () count 1
    ```
    """

    name = "elide-dependencies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in programs_at(op, ProgramOp, self.name):
            for dependence in implied_dependences(program):
                dependence.detach()
                dependence.erase()


def implied_dependences(program: ProgramOp) -> list[DependenceOp]:
    """Returns the dependences of a program that the remaining ones imply."""
    analysis = _Analysis(program)
    return [d for d in analysis.dependences if analysis.implied(d)]


class _Analysis:
    """The relation between tasks and the events that they wait for and signal, by event number.

    All removals together are safe: the dependences that imply a removed one have shorter steps, and
    the relation between tasks is acyclic.
    """

    def __init__(self, program: ProgramOp) -> None:
        self.ranks = program.ranks.value.data
        self.families = families_of(program)
        self.dependences = [op for op in program.body.block.ops if isinstance(op, DependenceOp)]
        self.points = {n: f.coordinates() for n, f in self.families.items()}
        self.into: dict[str, list[DependenceOp]] = defaultdict(list)
        for d in self.dependences:
            self.into[_consumer(d)].append(d)

    def implied(self, d: DependenceOp) -> bool:
        """Whether another dependence of the same consumer makes `d` unnecessary."""
        if d.among is not None:
            return False
        return any(
            self._implied_by(d, other) for other in self._known(_consumer(d)) if other is not d
        )

    def _known(self, consumer: str) -> list[DependenceOp]:
        """Returns the dependences of a consumer whose events it waits for under every routing."""
        return [d for d in self.into[consumer] if d.among is None]

    def _implied_by(self, d: DependenceOp, other: DependenceOp) -> bool:
        if _producer(other) == _producer(d):
            if _index(self.dependences, other) > _index(self.dependences, d) and _same(d, other):
                return False
            return all(self._covers_directly(d, other, r) for r in self._ranks(d, other))
        firsts = [f for f in self._known(_producer(other)) if _producer(f) == _producer(d)]
        return any(
            all(self._covers_in_two(d, first, other, r) for r in self._ranks(d, first, other))
            for first in firsts
        )

    def _ranks(self, *dependences: DependenceOp) -> range:
        if any(d.peer is not None for d in dependences):
            return range(self.ranks)
        return ranks_that_differ(dependences, self.ranks)

    def _covers_directly(self, d: DependenceOp, other: DependenceOp, rank: int) -> bool:
        if d.peer_expr != other.peer_expr or not _implies_as_much(other, d):
            return False
        waited = _pairs(self._targets(d, rank), self._targets(other, rank))
        counted = self._producers(d, other, rank)
        return all(counted[j] <= {k} for j, ks in waited.items() for k in ks)

    def _covers_in_two(
        self, d: DependenceOp, first: DependenceOp, second: DependenceOp, rank: int
    ) -> bool:
        """Whether `first` then `second` order all that `d` orders, for consumers on `rank`."""
        if d.peer_expr != first.peer_expr or not _implies_as_much(first, d):
            return False
        if second.credit is not None and second.credit_name != _producer(d):
            return False
        waited = _pairs(self._targets(d, rank), self._targets(second, rank))
        middle = self.families[_producer(second)]
        sources = self._sources(second, middle, rank)
        targets = self._targets(first, rank)
        if second.peer_expr is not None:
            # Only producers on this rank: those on other ranks have waited for events in the
            # memory of their own rank.
            owner = evaluate_index(second.peer_expr, self.points[_producer(second)], rank)
            own = np.broadcast_to(owner == rank, sources.shape)
            sources, targets = sources[own], targets[own]
        through = _pairs(sources, targets)
        counted = self._producers(d, first, rank)
        return all(counted[j] <= through[k] for j, ks in waited.items() for k in ks)

    def _targets(self, d: DependenceOp, rank: int) -> IntArray:
        family = self.families[_consumer(d)]
        return flat_events(
            d.target_exprs, d.extents, self.points[_consumer(d)], rank, family.task_count
        )

    def _sources(self, d: DependenceOp, family: TasksOp, rank: int) -> IntArray:
        point = self.points[family.sym_name.data]
        return flat_events(d.source_exprs, d.extents, point, rank, family.task_count)

    def _producers(self, d: DependenceOp, other: DependenceOp, rank: int) -> dict[int, set[int]]:
        """Maps each event of `d` on `rank` to the events of `other` that its producers signal."""
        family = self.families[_producer(d)]
        peer = d.peer_expr
        if peer is None:
            return _pairs(self._sources(d, family, rank), self._sources(other, family, rank))
        pairs: dict[int, set[int]] = defaultdict(set)
        for source in range(self.ranks):
            here = _owned(peer, self.points[family.sym_name.data], source, rank, family.task_count)
            ours, theirs = (self._sources(x, family, source)[here] for x in (d, other))
            for j, ks in _pairs(ours, theirs).items():
                pairs[j] |= ks
        return pairs


def _owned(
    peer: AffineExpr, point: Sequence[IntArray | int], source: int, rank: int, size: int
) -> IntArray:
    return np.flatnonzero(np.broadcast_to(evaluate_index(peer, point, source) == rank, (size,)))


def _pairs(left: IntArray, right: IntArray) -> dict[int, set[int]]:
    """Maps each value of `left` to the values of `right` at the same positions."""
    pairs: dict[int, set[int]] = defaultdict(set)
    if left.size:
        width = int(right.max()) + 1
        for code in np.unique(left * width + right).tolist():
            pairs[code // width].add(code % width)
    return pairs


def _implies_as_much(other: DependenceOp, d: DependenceOp) -> bool:
    """Whether signals of `other` imply as much about their producers as those of `d`.

    If `other` is credited, they imply only that each put has moved its rows, if any, and that the
    task that gives the credit has ended; `d` must then be credited by the same task.
    """
    return other.credit is None or other.credit_name == d.credit_name


def _same(a: DependenceOp, b: DependenceOp) -> bool:
    return (a.source_exprs, a.target_exprs, a.extents) == (
        b.source_exprs,
        b.target_exprs,
        b.extents,
    )


def _index(dependences: list[DependenceOp], d: DependenceOp) -> int:
    return next(i for i, other in enumerate(dependences) if other is d)


def _producer(d: DependenceOp) -> str:
    return d.producer.root_reference.data


def _consumer(d: DependenceOp) -> str:
    return d.consumer.root_reference.data
