"""What the tasks of a program read and write, and which of them meet.

Two tasks meet when both use a buffer of the same rank and their accesses overlap on every axis that
is static: expert, source rank, chunk, columns. How many rows there are at run time plays no part,
so what is found here holds for every routing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.dialects.access import Access, format_access
from hpmoe_ir.dialects.index import BoolArray, IntArray, evaluate_index
from hpmoe_ir.dialects.tile import TasksOp, buffers_of
from hpmoe_ir.passes.analysis.dependence import access_axes, buffer_shape
from hpmoe_ir.passes.analysis.task_numbers import TaskNumbers, task_values

PAIRS = 1 << 20
"""Pairs of tasks that are looked at together, about."""


@dataclass(frozen=True)
class Axis:
    """What each task covers of one axis of a buffer."""

    spans: IntArray
    """[d, 2] the different ranges that occur: first index, one past the last."""
    which: IntArray
    """[n] the range of each task."""
    cut: tuple[int, ...]
    extent: int
    """Length of the axis."""

    @property
    def low(self) -> IntArray:
        """[n] first index."""
        return self.spans[:, 0][self.which]

    @property
    def high(self) -> IntArray:
        """[n] one past the last index."""
        return self.spans[:, 1][self.which]


@dataclass(frozen=True)
class Use:
    """One access of a family: what each of its tasks, on all ranks, reads or writes."""

    family: TasksOp
    access: Access
    writes: bool
    tasks: IntArray
    """[n] the tasks."""
    owner: IntArray
    """[n] the rank whose memory is used."""
    axes: dict[str, Axis]

    def text(self, task: int, numbers: TaskNumbers) -> str:
        """The access as one task has it: `@h[grouped(0, 1 of 2), block(3 by 64)]`."""
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
        """The access as the program has it, for all tasks."""
        return format_access(self.access, self.family.dim_names)


def uses_of(tasks: TaskNumbers) -> dict[str, list[Use]]:
    """The uses of each buffer, in the order of the families."""
    buffers = buffers_of(tasks.program)
    uses: dict[str, list[Use]] = {name: [] for name in buffers}
    for family in tasks.families:
        accesses = [(r, False) for r in family.read_accesses]
        if family.route is not None:
            accesses.append((Access(family.route.root_reference.data, ()), False))
        accesses += [(r, True) for r in family.write_accesses]
        numbers = tasks.tasks_of(family)
        for access, writes in accesses:
            rank = np.arange(tasks.ranks, dtype=np.int64)[:, None]
            owner = (
                np.broadcast_to(rank, numbers.shape)
                if access.peer is None
                else task_values(family, access.peer, tasks.ranks)
            )
            axes: dict[str, Axis] = {}
            shape = buffer_shape(access.buffer, buffers, tasks.ranks)
            for name, axis in access_axes(access, shape).items():
                value = task_values(family, axis.index, tasks.ranks).ravel()
                distinct, inverse = np.unique(value, return_inverse=True)
                bounds = np.array([axis.bounds(int(v)) for v in distinct], dtype=np.int64)
                axes[name] = Axis(
                    bounds.reshape(-1, 2),
                    inverse.ravel(),
                    axis.cut,
                    axis.extent,
                )
            uses[access.buffer].append(
                Use(family, access, writes, numbers.ravel(), owner.ravel(), axes)
            )
    return uses


@dataclass(frozen=True)
class Meeting:
    """Tasks of two uses, sorted into groups: only tasks of one group can meet."""

    first: Use
    second: Use
    first_group: IntArray
    """[n] group of each task of the first use."""
    second_group: IntArray
    groups: int
    whole: bool
    """The uses are of different buffers that share memory: what they cover is not compared."""

    def pairs_of(self, groups: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """All pairs of some groups that meet, as places in the two uses, some at a time.

        A task does not meet itself.
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
    """Groups the tasks of two uses by the rank whose memory they use, and by what they cover.

    On each axis that both have, cut alike, the groups are the connected components of "overlaps".
    With `whole` they are of two buffers that share memory: any part meets any other.
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
    """Component of "overlaps" of each range of two axes, and how many there are."""
    spans = np.concatenate([first.spans, second.spans])
    order = np.lexsort((spans[:, 1], spans[:, 0]))
    low, high = spans[order].T
    starts = np.concatenate([[True], low[1:] >= np.maximum.accumulate(high)[:-1]])
    component = np.empty(len(spans), dtype=np.int64)
    component[order] = np.cumsum(starts) - 1
    cut = len(first.spans)
    return component[:cut][first.which], component[cut:][second.which], int(starts.sum())


def conflicts(uses: list[Use]) -> Iterator[tuple[Use, Use]]:
    """Pairs of uses of one buffer of which one writes, the earlier family's first."""
    for i, later in enumerate(uses):
        for earlier in uses[:i]:
            if earlier.writes or later.writes:
                yield earlier, later
        if later.writes and not later.access.scatter:
            yield later, later
