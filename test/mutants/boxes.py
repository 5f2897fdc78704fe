"""What each task uses, as boxes in axes that hold for every routing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    Chunk,
    GroupedRows,
    IndexSelector,
    Selector,
    SentRows,
    TokenRows,
    WholeSelector,
    group_bounds,
)
from hpmoe_ir.dialects.index import evaluate_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.queue import ProgramOp
from hpmoe_ir.dialects.tile import BufferOp, buffers_of, families_of
from mutants.task_graph import TaskGraph


@dataclass(frozen=True)
class Span:
    """Values begin to end - 1 on one axis, where the axis is cut as `cut` says."""

    begin: int
    end: int
    cut: tuple[int, ...] = ()


@dataclass(frozen=True)
class Box:
    """Part of a buffer in one rank's memory: spans by axis; an axis without one is whole."""

    rank: int
    buffer: str
    spans: tuple[tuple[str, Span], ...]

    def meets(self, other: Box) -> bool:
        """Whether both can name the same element; boxes of one buffer."""
        others = dict(other.spans)
        for axis, a in self.spans:
            b = others.get(axis)
            # Where the same rows are cut in two ways, any two parts can meet.
            if b is not None and a.cut == b.cut and (a.end <= b.begin or b.end <= a.begin):
                return False
        return True


@dataclass(frozen=True)
class BoxAccess:
    """A task's use of a box."""

    node: int
    box: Box
    writes: bool
    scatter: bool


def _spans(
    selector: Selector, dim: int, extent: int, ranks: int, coords: list[int], rank: int
) -> Iterator[tuple[str, Span]]:
    def at(expr: object) -> int:
        return int(evaluate_index(expr, coords, rank))  # pyright: ignore[reportArgumentType]

    def chunk(c: Chunk, segment: tuple[int, ...]) -> Iterator[tuple[str, Span]]:
        if c.count > 1:
            yield "chunk", Span(at(c.index), at(c.index) + 1, (*segment, c.count, c.align))

    match selector:
        case WholeSelector():
            return
        case IndexSelector():
            yield f"dim{dim}", Span(at(selector.index), at(selector.index) + 1)
        case BlockSelector():
            begin = at(selector.index) * selector.size
            yield f"dim{dim}", Span(min(begin, extent), min(begin + selector.size, extent))
        case TokenRows():
            if selector.count > 1:
                index = at(selector.index)
                yield "chunk", Span(index, index + 1, (selector.count,))
        case SentRows():
            expert = at(selector.expert)
            yield "expert", Span(expert, expert + 1)
            yield from chunk(selector.chunk, ())
        case GroupedRows():
            expert = at(selector.expert)
            yield "expert", Span(expert, expert + 1)
            sources = group_bounds(at(selector.group), selector.groups, ranks)
            yield "source", Span(*sources)
            yield from chunk(selector.chunk, sources)
        case _:
            raise AssertionError(f"not a selector: {selector}")


def buffer_dims(buffer: BufferOp) -> tuple[int, ...]:
    return () if isinstance(buffer.content, RouteType) else buffer.content.dims


def all_accesses(program: ProgramOp, graph: TaskGraph) -> list[BoxAccess]:
    """What each task of the graph uses."""
    families, buffers = list(families_of(program).values()), buffers_of(program)
    ranks = program.ranks.value.data
    found: list[BoxAccess] = []
    for node, task in enumerate(graph.tasks):
        family = families[task.family]
        coords = [int(c) for c in np.unravel_index(task.point, family.extents or (1,))]

        def box(region: Access, coords: list[int] = coords, rank: int = task.rank) -> Box:
            peer = region.peer
            owner = rank if peer is None else int(evaluate_index(peer, coords, rank))
            dims = buffer_dims(buffers[region.buffer])
            spans = [
                span
                for i, (selector, extent) in enumerate(zip(region.selectors, dims, strict=False))
                for span in _spans(selector, i, extent, ranks, coords, rank)
            ]
            return Box(owner, region.buffer, tuple(spans))

        found += [BoxAccess(node, box(r), False, r.scatter) for r in family.read_accesses]
        found += [BoxAccess(node, box(r), True, r.scatter) for r in family.write_accesses]
        if family.route is not None:
            route = Access(family.route.root_reference.data, ())
            found.append(BoxAccess(node, box(route), False, False))
    return found
