"""Whether what a task reads has been written in its launch, element by element of the axes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, buffer_route_type
from mutants.boxes import Box, BoxAccess, buffer_dims
from mutants.task_graph import TaskGraph


def unwritten(
    buffers: dict[str, BufferOp], accesses: list[BoxAccess], graph: TaskGraph, ranks: int
) -> Iterator[str]:
    """Each task of the first launch that reads what no earlier family of the launch writes."""
    routes = [buffer_route_type(b) for b in buffers.values() if isinstance(b.content, RouteType)]
    writers: dict[tuple[int, int, str], list[BoxAccess]] = defaultdict(list)
    for access in accesses:
        if access.writes:
            task = graph.tasks[access.node]
            writers[task.launch, access.box.rank, access.box.buffer].append(access)
    for access in accesses:
        task = graph.tasks[access.node]
        buffer = buffers[access.box.buffer]
        if (
            access.writes
            or task.launch > 1
            or buffer.space.data in (MemorySpace.INPUT, MemorySpace.INOUT)
        ):
            continue
        earlier = [
            w
            for w in writers[task.launch, access.box.rank, access.box.buffer]
            if graph.tasks[w.node].family < task.family
        ]
        cut = next((s.cut for w in earlier for x, s in w.box.spans if x == "chunk"), ())
        experts = routes[0].experts.data if routes else 0
        if buffer.content not in routes and _rows(buffer) == "grouped":
            experts //= ranks
        sizes = {"expert": experts, "source": ranks, "chunk": cut[-2] if len(cut) > 1 else 1}
        if len(cut) == 1:
            sizes["chunk"] = cut[0]
        sizes |= {f"dim{i}": n for i, n in enumerate(buffer_dims(buffer))}
        axes = sorted({x for w in earlier for x, _ in w.box.spans})
        written: set[tuple[int, ...]] = set()
        for w in earlier:
            written |= set(_cells(w.box, axes, sizes, cut))
        if not earlier or not set(_cells(access.box, axes, sizes, cut)) <= written:
            yield f"{task} reads what nobody wrote of @{access.box.buffer}"


def _rows(buffer: BufferOp) -> str:
    return "" if isinstance(buffer.content, RouteType) else buffer.content.rows.data


def _cells(
    box: Box, axes: list[str], sizes: dict[str, int], cut: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    spans = dict(box.spans)
    ranges: list[range] = []
    for axis in axes:
        span = spans.get(axis)
        if span is None or (axis == "chunk" and span.cut != cut):
            ranges.append(range(sizes[axis]))
        else:
            ranges.append(range(span.begin, span.end))
    yield from product(*ranges)
