"""Kernels that build a route: they count and exchange tokens, and compute the first rows.

References access only the tiles of their task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hpmoe_ir.kernels.kernel import AscendCFunction, Element, Kernel, TileOperand, TileView
from hpmoe_ir.kernels.route_layout import RouteLayout
from hpmoe_ir.machines.core_kind import CoreKind


def _count_tokens(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (ids,), (counts,) = reads, writes
    counts.array[...] = np.bincount(ids.array.ravel(), minlength=counts.array.size)


def _exchange_counts(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (chunk_counts,), (row,) = reads, writes
    total = chunk_counts.array.sum(axis=0)
    row.array[...] = np.concatenate([total, np.cumsum(total) - total])


def _place_tokens(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], s: Sequence[int]
) -> None:
    (ids, chunk_counts), (order, position), (chunk,) = reads, writes, s
    total = chunk_counts.array.sum(axis=0)
    begin = np.cumsum(total) - total + chunk_counts.array[:chunk].sum(axis=0)
    flat = ids.array.ravel()
    slots = np.empty(flat.size, dtype=np.int32)
    for i in np.argsort(flat, kind="stable"):
        slots[i] = begin[flat[i]]
        begin[flat[i]] += 1
    position.array[...] = slots.reshape(ids.array.shape)
    order.array[slots] = ids.first * ids.array.shape[1] + np.arange(flat.size)


def _build_route(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], s: Sequence[int]
) -> None:
    (counts,), (route, status), (rank, capacity) = reads, writes, s
    ranks, twice = counts.array.shape
    layout = RouteLayout(experts=twice // 2, ranks=ranks)
    built = layout.build(counts.array, rank, capacity)
    route.array[...] = built
    status.array[...] = built[: status.array.size]


def _ints(**shapes: str) -> tuple[TileOperand, ...]:
    """Returns operands of integers, with their shapes."""
    return tuple(TileOperand(name, Element.I32, shape=shape) for name, shape in shapes.items())


def _function(name: str, header: str) -> AscendCFunction:
    """Returns a function on row counts, which is independent of the activation type."""
    return AscendCFunction(f"hpmoe::{name}", f"hpmoe/{header}", templated=False)


ROUTING_KERNELS = (
    Kernel(
        name="count_tokens",
        core=CoreKind.AIV,
        reads=_ints(ids="t k"),
        writes=_ints(counts="x"),
        ascendc=_function("CountTokens", "count_tokens.h"),
        reference=_count_tokens,
    ),
    Kernel(
        name="exchange_counts",
        core=CoreKind.AIV,
        reads=_ints(chunk_counts="b x"),
        writes=_ints(row="2x"),
        ascendc=_function("ExchangeCounts", "exchange_counts.h"),
        reference=_exchange_counts,
    ),
    Kernel(
        name="place_tokens",
        core=CoreKind.AIV,
        reads=_ints(ids="t k", chunk_counts="b x"),
        writes=(TileOperand("order", Element.I32, scatter=True), *_ints(position="t k")),
        ascendc=_function("PlaceTokens", "place_tokens.h"),
        reference=_place_tokens,
        scalars=("chunk",),
    ),
    Kernel(
        name="build_route",
        core=CoreKind.AIV,
        reads=_ints(counts="r 2x"),
        writes=(TileOperand("route", Element.I32, builds_route=True), *_ints(status="w")),
        ascendc=_function("BuildRoute", "build_route.h"),
        reference=_build_route,
        scalars=("rank", "capacity"),
    ),
)
"""The kernels that build a route."""
