"""Dependence analysis: derives events and thresholds from the accesses of two families.

Two tasks depend on each other when their accesses of a buffer overlap and one of them writes. An
access is a box in a space of static axes: the experts, the source ranks, the chunk of a segment,
the columns. Boxes overlap when they do on every axis, and on each axis the values of the
producers and of the consumers fall into classes (connected components of the overlap relation)
such that a consumer depends on producers of its own class only. An event for each combination of
classes is therefore enough, and its threshold is the number of producers of that combination.

The number of rows of a box at run time does not matter: a task without rows still signals.

Parts and tiles of grouped rows have no axis in common: which of them overlap, the route says. Their
events are those of the producers' parts or tiles, and a consumer waits for a range of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineExpr,
)

from hpmoe_ir.dialects.access import Access, AxisRange, EventRange, Range, join_rows
from hpmoe_ir.dialects.index import (
    IntArray,
    evaluate_index,
    flat_events,
    index_values,
    uses_rank,
)
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import BufferOp, DependenceOp, TasksOp
from hpmoe_ir.dialects.tile.types import BufferType
from hpmoe_ir.integers import ceil_div

Granularity: TypeAlias = Literal["expert", "part"]

Bounds: TypeAlias = Callable[[int], Range]


class DependenceError(ValueError):
    """Error for accesses whose dependences cannot be expressed by events."""


@dataclass(frozen=True)
class EventMap:
    """The events between two families, by coordinate number rather than by name."""

    extents: tuple[int, ...]
    source: tuple[AffineExpr, ...]
    target: tuple[AffineExpr, ...]
    peer: AffineExpr | None
    counts: tuple[int, ...]
    """Threshold of each event, row-major."""
    among: EventRange | None = None
    """Range of the first coordinates of the events that a consumer waits for."""


@dataclass(frozen=True)
class Shape:
    """The properties of a buffer and its program that the analysis uses."""

    type: BufferType | RouteType
    ranks: int
    experts: int = 0
    """Experts of all ranks; 0 in a program without a route."""


def buffer_shape(name: str, buffers: Mapping[str, BufferOp], ranks: int) -> Shape:
    """Returns the shape of a buffer of a program."""
    routes = (b.content for b in buffers.values() if isinstance(b.content, RouteType))
    route = next(routes, None)
    return Shape(buffers[name].content, ranks, 0 if route is None else route.experts.data)


def access_axes(access: Access, shape: Shape) -> dict[str, AxisRange]:
    """Returns the range that an access covers of each axis of its buffer, by axis name.

    An omitted axis is covered whole: it overlaps every range of another access.
    """
    if isinstance(shape.type, RouteType):
        return {}
    return {axis.name: axis for axis in access.axes(shape.type.dims, shape.ranks, shape.experts)}


def events_between(
    producer: TasksOp,
    written: Access,
    consumer: TasksOp,
    used: Access,
    shape: Shape,
    granularity: Granularity,
    *,
    partial: bool = False,
) -> EventMap | None:
    """Computes the events by which tasks of `consumer` wait for tasks of `producer`.

    `written` and `used` are the two families' accesses of one buffer, `used` in the memory of the
    rank that runs the consumer. Returns None if the accesses never overlap.

    Raises DependenceError if ranks would need different thresholds, or if a consumer uses a part
    that no producer writes. With `partial` such parts are allowed: an event then has more producers
    than needed rather than none.
    """
    ours, theirs = access_axes(written, shape), access_axes(used, shape)
    join = join_rows(written.rows, used.rows, shape.ranks, shape.experts // shape.ranks)
    source: list[AffineExpr] = [] if join is None else list(join.source)
    target: list[AffineExpr] = []
    extents: list[int] = [] if join is None else list(join.extents)
    for name in ours:
        if name not in theirs or ours[name].cut != theirs[name].cut:
            continue
        if granularity == "expert" and name != "expert":
            continue
        values = _values(producer, ours[name].index, shape.ranks)
        wanted = _values(consumer, theirs[name].index, shape.ranks)
        classes = _classes(values, ours[name].bounds, wanted, theirs[name].bounds)
        missing = [v for v in wanted if v not in classes.of_consumer]
        if missing and partial:
            if len(missing) == len(wanted):
                return None
            continue
        if missing:
            raise DependenceError(
                f"@{consumer.sym_name.data} uses a part of @{used.buffer} that no task of "
                f"@{producer.sym_name.data} writes: {name} {missing[0]}"
            )
        count = len(set(classes.of_producer.values()))
        if count == 1:
            continue
        left = _class_index(ours[name].index, classes.of_producer, count)
        right = _class_index(theirs[name].index, classes.of_consumer, count)
        if left is None or right is None:
            continue
        source.append(left)
        target.append(right)
        extents.append(count)
    counts = _thresholds(producer, source, extents, written.peer, shape.ranks)
    if (counts == 0).any():
        # The producers' coordinates are correlated: some combinations do not occur.
        source, target, extents, join = [], [], [], None
        counts = _thresholds(producer, source, extents, written.peer, shape.ranks)
    return EventMap(
        tuple(extents),
        tuple(source),
        tuple(target),
        written.peer,
        tuple(counts.tolist()),
        None if join is None else join.range,
    )


def _values(family: TasksOp, index: AffineExpr, ranks: int) -> list[int]:
    """Returns all values of an index expression over the grid and the ranks, ascending."""
    return index_values(index, family.extents, ranks).tolist()


@dataclass(frozen=True)
class _Classes:
    of_producer: dict[int, int]
    of_consumer: dict[int, int]


def _classes(
    values: Sequence[int], bounds: Bounds, wanted: Sequence[int], wanted_bounds: Bounds
) -> _Classes:
    """Connected components of "ranges overlap", numbered by their first producer value.

    Ranges of one side ascend with their value, so a sweep over both finds the components.
    """
    spans = [(*bounds(v), v, True) for v in values]
    spans += [(*wanted_bounds(v), v, False) for v in wanted]
    components: list[list[tuple[int, bool]]] = []
    reach = -1
    for lo, hi, value, ours in sorted(s for s in spans if s[0] < s[1]):
        if lo >= reach or not components:
            components.append([])
        components[-1].append((value, ours))
        reach = max(reach, hi)
    of_producer: dict[int, int] = {}
    of_consumer: dict[int, int] = {}
    number = 0
    for component in components:
        if not any(ours for _, ours in component):
            continue
        for value, ours in component:
            (of_producer if ours else of_consumer)[value] = number
        number += 1
    return _Classes(of_producer, of_consumer)


def _class_index(index: AffineExpr, classes: dict[int, int], count: int) -> AffineExpr | None:
    """Returns an affine expression for the class of `index`; None if there is no simple one."""
    values = sorted(classes)
    if not values:
        return None
    last = values[-1] + 1
    candidates: list[tuple[Callable[[int], int], Callable[[], AffineExpr]]] = [
        (lambda v: v, lambda: index),
        # The index of a family that covers only the end of an axis starts at its first value.
        (lambda v: v - values[0], lambda: _minus(index, values[0])),
    ]
    # Classes of equal size, except the last, which may be cut off by the end of the axis.
    first = sum(c == 0 for c in classes.values())
    for step in sorted({ceil_div(last, count), max(last // count, 1), max(first, 1)} - {1}):
        candidates.append((lambda v, s=step: v // s, lambda s=step: index // s))
    # The inverse of the source groups' bounds, for groups of unequal size.
    candidates.append(
        (
            lambda v: (v * count + count - 1) // last,
            lambda: (index * count + (count - 1)) // last,
        )
    )
    for function, expression in candidates:
        if all(function(v) == c for v, c in classes.items()):
            return expression()
    return None


def _minus(index: AffineExpr, first: int) -> AffineExpr:
    """Returns `index - first`, which cancels if `index` is a sum with `first`."""
    if isinstance(index, AffineBinaryOpExpr) and index.kind is AffineBinaryOpKind.Add:
        for kept, other in ((index.lhs, index.rhs), (index.rhs, index.lhs)):
            if isinstance(other, AffineConstantExpr) and other.value == first:
                return kept
    return index - first


def ranks_that_differ(dependences: Sequence[DependenceOp], ranks: int) -> range:
    """Returns ranks that represent all: only rank 0 if no event expression uses the rank."""
    exprs = [e for d in dependences for e in (*d.joined_source, *d.target_exprs)]
    return range(ranks if any(map(uses_rank, exprs)) else 1)


def _thresholds(
    producer: TasksOp,
    source: Sequence[AffineExpr],
    extents: Sequence[int],
    peer: AffineExpr | None,
    ranks: int,
) -> IntArray:
    """Counts the producers of each event of a rank; raises DependenceError if ranks differ."""
    point, size = producer.coordinates(), producer.task_count
    events = int(np.prod(extents, dtype=np.int64))
    by_rank = np.zeros((ranks, events), dtype=np.int64)
    for rank in range(ranks):
        flat = flat_events(source, extents, point, rank, size)
        if peer is None:
            by_rank[rank] = np.bincount(flat, minlength=events)
            if not any(uses_rank(e) for e in source):
                return by_rank[rank]
        else:
            owner = np.broadcast_to(evaluate_index(peer, point, rank), flat.shape)
            by_rank += np.bincount(owner * events + flat, minlength=ranks * events).reshape(
                ranks, events
            )
    if (by_rank != by_rank[0]).any():
        raise DependenceError(
            f"tasks of @{producer.sym_name.data} would need thresholds that differ by rank: "
            "each rank must be written by as many of them"
        )
    return by_rank[0]
