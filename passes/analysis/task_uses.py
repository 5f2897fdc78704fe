"""Accesses of all tasks of a program, and the pairs of tasks whose accesses overlap.

Two tasks *meet* if both access a buffer of the same rank and their accesses overlap on every static
axis: expert, source rank, chunk, columns. The number of rows at run time does not matter, so the
result holds for every routing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.dialects.access import Access, format_access
from hpmoe_ir.dialects.index import (
    BoolArray,
    IntArray,
    evaluate_index,
    index_values,
    uses_rank,
)
from hpmoe_ir.dialects.tile import TasksOp, buffers_of
from hpmoe_ir.passes.analysis.dependence import access_axes, buffer_shape
from hpmoe_ir.passes.analysis.task_numbers import TaskNumbers, task_values

PAIRS = 1 << 20
"""Approximate number of pairs of tasks that are compared in one batch, to bound memory."""


@dataclass(frozen=True)
class Axis:
    """The range that each task covers of one axis of a buffer."""

    spans: IntArray
    """int64[d, 2]: the distinct ranges, as first index and one past the last."""
    which: IntArray
    """int64[n]: the row of `spans` of each task."""
    cut: tuple[int, ...]

    @property
    def low(self) -> IntArray:
        """int64[n]: the first index of each task."""
        return self.spans[:, 0][self.which]

    @property
    def high(self) -> IntArray:
        """int64[n]: one past the last index of each task."""
        return self.spans[:, 1][self.which]


@dataclass(frozen=True)
class AxisSpans:
    """The distinct ranges that the tasks of all ranks cover of one axis of a buffer."""

    index: AffineExpr
    """Number of the range that a task covers."""
    numbers: IntArray
    """int64[d]: the distinct values of `index`, ascending."""
    spans: IntArray
    """int64[d, 2]: the range of each number, as first index and one past the last."""
    cut: tuple[int, ...]
    extent: int
    """Length of the axis."""

    def which(self, values: IntArray) -> IntArray:
        """Returns the row of `spans` for each value of `index`."""
        if self.numbers.size and self.numbers[-1] == self.numbers.size - 1:
            return values  # 0, 1, 2, ...
        return np.searchsorted(self.numbers, values)


@dataclass(frozen=True)
class Use:
    """One access of a family, a read or a write, of all tasks that access memory of some ranks.

    The arrays over tasks are evaluated when they are first read, so that `part` can evaluate a few
    ranks at a time.
    """

    family: TasksOp
    access: Access
    writes: bool
    numbers: TaskNumbers
    spans: dict[str, AxisSpans]
    """The axes of the buffer, except those that the access covers whole, by name."""
    owners: range
    """The ranks whose memory is accessed."""

    def part(self, owners: range) -> Use:
        """Returns the use by the tasks that access memory of the ranks `owners`."""
        return self if owners == self.owners else replace(self, owners=owners)

    @cached_property
    def is_uniform(self) -> bool:
        """Whether a task accesses its own rank, and the same part on each rank."""
        exprs = [axis.index for axis in self.spans.values()]
        return self.access.peer is None and not any(map(uses_rank, exprs))

    @cached_property
    def has_same_parts(self) -> bool:
        """Whether the same parts of each rank are accessed, by whichever tasks."""
        if self.is_uniform:
            return True
        if self.access.peer is not None:
            parts = self._sorted_parts()
            return parts is not None and bool((parts == parts[:1]).all())
        # A few ranks at a time, to bound memory.
        of = self.owners
        step = max(1, PAIRS // max(1, self.family.task_count))
        batches = (of[first : first + step] for first in range(0, len(of), step))
        found = (self.part(batch)._sorted_parts() for batch in batches)
        one = self.part(of[:1])._sorted_parts()
        return all(parts is not None and bool((parts == one).all()) for parts in found)

    def _sorted_parts(self) -> IntArray | None:
        """Returns [ranks, n] a number of each part of each rank that is accessed, ascending; None
        if ranks have different numbers of tasks."""
        ranks = len(self.owners)
        counts = np.bincount(self.owner - self.owners.start, minlength=ranks)
        if (counts != counts[:1]).any():
            return None
        number = self.owner - self.owners.start
        for axis in self.axes.values():
            number = number * len(axis.spans) + axis.which
        parts = prod(len(axis.spans) for axis in self.axes.values())
        rank = np.arange(ranks, dtype=np.int64)[:, None]
        return np.sort(number).reshape(ranks, -1) - rank * parts

    @cached_property
    def tasks(self) -> IntArray:
        """int64[n]: the task numbers, ascending."""
        if self._selected is not None:
            return self.numbers.tasks_of(self.family).ravel()[self._selected]
        return self.numbers.tasks_of(self.family, self.owners).ravel()

    @cached_property
    def owner(self) -> IntArray:
        """int64[n]: the rank whose memory each task accesses."""
        if self._selected is not None:
            return self._owners_of_all[self._selected]
        ranks = np.arange(self.owners.start, self.owners.stop, dtype=np.int64)
        return np.repeat(ranks, self.family.task_count)

    @cached_property
    def axes(self) -> dict[str, Axis]:
        """The range of each axis that each task covers, by name of the axis."""
        return {
            name: Axis(axis.spans, axis.which(self._values(axis.index)), axis.cut)
            for name, axis in self.spans.items()
        }

    @cached_property
    def _owners_of_all(self) -> IntArray:
        """int64[ranks * points]: the rank whose memory each task of each rank accesses."""
        assert self.access.peer is not None
        return task_values(self.family, self.access.peer, self.numbers.ranks).ravel()

    @cached_property
    def _selected(self) -> IntArray | None:
        """The tasks among those of all ranks; None for all tasks of the ranks `owners`."""
        if self.access.peer is None:
            return None
        owner = self._owners_of_all
        return np.flatnonzero((owner >= self.owners.start) & (owner < self.owners.stop))

    def _values(self, expr: AffineExpr) -> IntArray:
        """Returns the value of an index expression for each task."""
        if self._selected is not None:
            return task_values(self.family, expr, self.numbers.ranks).ravel()[self._selected]
        return task_values(self.family, expr, self.owners).ravel()

    def text(self, task: int, numbers: TaskNumbers) -> str:
        """Returns the access of one task: `@h[grouped(0, 1 of 2), block(3 by 64)]`."""
        family, point = numbers.family_of(task)
        coordinates = [int(c[point]) for c in family.coordinates()]
        rank = numbers.rank_of(task)

        def value(expr: AffineExpr) -> AffineExpr:
            return AffineExpr.constant(int(evaluate_index(expr, coordinates, rank)))

        if not self.access.selectors:
            return f"@{self.access.buffer}"
        return format_access(self.access.map_exprs(value), ())

    @property
    def family_text(self) -> str:
        """Returns the access as written in the program, with symbolic coordinates."""
        return format_access(self.access, self.family.dim_names)


def uses_of(tasks: TaskNumbers) -> dict[str, list[Use]]:
    """Returns the uses of each buffer, in the order of the families."""
    buffers = buffers_of(tasks.program)
    uses: dict[str, list[Use]] = {name: [] for name in buffers}
    for family in tasks.families:
        accesses = [(r, False) for r in family.read_accesses]
        if family.route is not None:
            accesses.append((Access(family.route.root_reference.data, ()), False))
        accesses += [(r, True) for r in family.write_accesses]
        for access, writes in accesses:
            shape = buffer_shape(access.buffer, buffers, tasks.ranks)
            spans: dict[str, AxisSpans] = {}
            for name, axis in access_axes(access, shape).items():
                values = index_values(axis.index, family.extents, tasks.ranks)
                bounds = np.array([axis.bounds(int(v)) for v in values], dtype=np.int64)
                spans[name] = AxisSpans(
                    axis.index, values, bounds.reshape(-1, 2), axis.cut, axis.extent
                )
            use = Use(family, access, writes, tasks, spans, range(tasks.ranks))
            uses[access.buffer].append(use)
    return uses


@dataclass(frozen=True)
class Meeting:
    """Partition of the tasks of two uses into groups: only tasks of the same group can meet."""

    first: Use
    second: Use
    first_group: IntArray
    """int64[n]: the group of each task of the first use."""
    second_group: IntArray
    groups: int
    whole: bool
    """Whether the uses are of different buffers that share memory: ranges are not compared."""

    @property
    def of_rows(self) -> bool:
        """Whether the first use is of rows; a read without selectors is of the route."""
        return self.first.writes or bool(self.first.access.selectors)

    def pairs_of(self, groups: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Yields all pairs of tasks of the given groups that meet, in batches.

        A pair is an index into the first and one into the second use. A task never meets itself.
        """
        wanted = np.zeros(self.groups, dtype=bool)
        wanted[groups] = True
        left = np.flatnonzero(wanted[self.first_group])
        right = np.flatnonzero(wanted[self.second_group])
        left = left[np.argsort(self.first_group[left], kind="stable")]
        right = right[np.argsort(self.second_group[right], kind="stable")]
        counts = np.bincount(self.second_group[right], minlength=self.groups)
        starts = np.cumsum(counts) - counts
        times = counts[self.first_group[left]]
        cuts = np.flatnonzero(np.diff(np.cumsum(times) // PAIRS)) + 1
        for some, each in zip(np.split(left, cuts), np.split(times, cuts), strict=True):
            a = np.repeat(some, each)
            within = np.arange(a.size) - np.repeat(np.cumsum(each) - each, each)
            b = right[np.repeat(starts[self.first_group[some]], each) + within]
            meet = self._meet(a, b)
            yield a[meet], b[meet]

    def _meet(self, a: IntArray, b: IntArray) -> BoolArray:
        meet = self.first.tasks[a] != self.second.tasks[b]
        if self.whole:
            return meet
        for name, axis in self.first.axes.items():
            other = self.second.axes.get(name)
            if other is None or other.cut != axis.cut:
                continue
            # An empty range meets nothing.
            low = np.maximum(axis.low[a], other.low[b])
            meet &= low < np.minimum(axis.high[a], other.high[b])
        return meet


def meeting(first: Use, second: Use, *, whole: bool = False) -> Meeting:
    """Groups the tasks of two uses by the rank whose memory they access and by covered ranges.

    On each axis that both uses divide alike, groups are the connected components of the overlap
    relation. With `whole`, the uses are of two buffers that share memory: any two parts overlap.
    """
    left, right = first.owner.copy(), second.owner.copy()
    for name, axis in first.axes.items():
        other = second.axes.get(name)
        if whole or other is None or other.cut != axis.cut:
            continue
        a, b, count = _components(axis, other)
        left, right = left * count + a, right * count + b
    groups = int(max(left.max(initial=0), right.max(initial=0))) + 1
    if groups > 2 * (left.size + right.size):
        keys, number = np.unique(np.concatenate([left, right]), return_inverse=True)
        left, right, groups = number[: left.size], number[left.size :], len(keys)
    return Meeting(first, second, left, right, groups, whole)


def _components(first: Axis, second: Axis) -> tuple[IntArray, IntArray, int]:
    """Returns the overlap component of each range of two axes, and the number of components."""
    spans = np.concatenate([first.spans, second.spans])
    order = np.lexsort((spans[:, 1], spans[:, 0]))
    low, high = spans[order].T
    starts = np.concatenate([[True], low[1:] >= np.maximum.accumulate(high)[:-1]])
    component = np.empty(len(spans), dtype=np.int64)
    component[order] = np.cumsum(starts) - 1
    cut = len(first.spans)
    return component[:cut][first.which], component[cut:][second.which], int(starts.sum())


def conflicts(uses: list[Use]) -> Iterator[tuple[Use, Use]]:
    """Yields pairs of uses of one buffer of which one writes, the earlier family first."""
    for i, later in enumerate(uses):
        for earlier in uses[:i]:
            if earlier.writes or later.writes:
                yield earlier, later
        if later.writes and not later.access.scatter:
            yield later, later
