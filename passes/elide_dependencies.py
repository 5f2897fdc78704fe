"""`elide-dependencies`: takes out the dependences that others imply."""

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
    """Removes each dependence that a finer or a longer way already implies.

    A dependence goes when every task that a consumer waits for through it has ended anyway by the
    time another wait of the same consumer is over: directly (the other waits for more tasks of the
    same producer), or in two steps (the tasks waited for have themselves waited for them, on the
    same rank). Chains of three dependences or more are not looked for. A put that is credited does
    not signal where it has no rows: it is ordered itself, as far as it moves anything, but what it
    has waited for is not, unless that is the task that gives the credit.

    Needs the dependences of `insert-dependencies`. Promises that the order between any two tasks
    that must be ordered is still there. Idempotent.

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
    """The dependences of a program that the rest of them implies."""
    analysis = _Analysis(program)
    return [d for d in analysis.dependences if analysis.implied(d)]


class _Analysis:
    """Which tasks wait for which, by numbers of events.

    All removals together are safe: a removed dependence is replaced by ways whose steps are
    shorter, and the relation between tasks has no cycle.
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
        return any(
            self._implied_by(d, other) for other in self.into[_consumer(d)] if other is not d
        )

    def _implied_by(self, d: DependenceOp, other: DependenceOp) -> bool:
        if _producer(other) == _producer(d):
            if _index(self.dependences, other) > _index(self.dependences, d) and _same(d, other):
                return False
            return all(self._covers_directly(d, other, r) for r in self._ranks(d, other))
        firsts = [f for f in self.into[_producer(other)] if _producer(f) == _producer(d)]
        return any(
            all(self._covers_in_two(d, first, other, r) for r in self._ranks(d, first, other))
            for first in firsts
        )

    def _ranks(self, *dependences: DependenceOp) -> range:
        if any(d.peer is not None for d in dependences):
            return range(self.ranks)
        return ranks_that_differ(dependences, self.ranks)

    def _covers_directly(self, d: DependenceOp, other: DependenceOp, rank: int) -> bool:
        if d.peer_expr != other.peer_expr or not _tells_as_much(other, d):
            return False
        waited = _pairs(self._targets(d, rank), self._targets(other, rank))
        counted = self._producers(d, other, rank)
        return all(counted[j] <= {k} for j, ks in waited.items() for k in ks)

    def _covers_in_two(
        self, d: DependenceOp, first: DependenceOp, second: DependenceOp, rank: int
    ) -> bool:
        """Whether `first` then `second` order all that `d` orders, for consumers on `rank`."""
        if d.peer_expr != first.peer_expr or not _tells_as_much(first, d):
            return False
        if second.credit is not None and second.credit_name != _producer(d):
            return False
        waited = _pairs(self._targets(d, rank), self._targets(second, rank))
        middle = self.families[_producer(second)]
        sources = self._sources(second, middle, rank)
        targets = self._targets(first, rank)
        if second.peer_expr is not None:
            # Only this rank's own tasks among those that signal: what others waited for happened
            # in their memory.
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
        """Events of `other` that the producers of each event of `d` on `rank` count towards."""
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
    """For each value on the left, the values on the right that occur with it."""
    pairs: dict[int, set[int]] = defaultdict(set)
    if left.size:
        width = int(right.max()) + 1
        for code in np.unique(left * width + right).tolist():
            pairs[code // width].add(code % width)
    return pairs


def _tells_as_much(other: DependenceOp, d: DependenceOp) -> bool:
    """Whether signals of `other` say of their producers what those of `d` do.

    If `other` is credited, they say of a put only that it has moved what it moves, and of the task
    that gives the credit that it has ended: so `d` has to be credited by the same.
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
