"""The kernels that come with the project, with their NumPy references and costs.

The references work on the tiles that a task is given and on nothing else; sums are in the order of
the device code, in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hpmoe_ir.integers import ceil_div
from hpmoe_ir.kernels.kernel import Cost, Kernel, TileOperand, TileView, matmul_local
from hpmoe_ir.kernels.route_layout import RouteLayout

ACTIVATION_BYTES = 2


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


def _gather_rows(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], s: Sequence[int]
) -> None:
    (x, order), (out,), (top_k,) = reads, writes, s
    out.store(x.array[order.array // top_k])


def _copy_rows(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (rows,), (out,) = reads, writes
    out.store(rows.array)


def _grouped_matmul(
    reads: Sequence[TileView], writes: Sequence[TileView], o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (rows, weights), (out,) = reads, writes
    w = weights.array.T if o["transpose_rhs"] else weights.array
    out.store(rows.array @ w)


def _swiglu(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (h,), (out,) = reads, writes
    gate, up = np.split(h.array, 2, axis=1)
    with np.errstate(over="ignore"):
        out.store(gate / (1 + np.exp(-gate)) * up)


def _weighted_sum(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (back, position, gate), (out,) = reads, writes
    total = np.zeros(out.array.shape, dtype=np.float32)
    for k in range(position.array.shape[1]):
        total += gate.array[:, k : k + 1] * back.array[position.array[:, k]]
    out.store(total)


def _no_cost(_r: Sequence[int], _w: Sequence[int], _o: Mapping[str, int]) -> Cost:
    return Cost()


def _move_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    return Cost(bytes_moved=2 * writes[0] * ACTIVATION_BYTES)


def _matmul_cost(reads: Sequence[int], writes: Sequence[int], o: Mapping[str, int]) -> Cost:
    # Both operands come once for each L0 tile that they take part in.
    rows = reads[0] * ceil_div(writes[0], o["tile_n"])
    weights = ceil_div(reads[0] * writes[0], o["tile_m"])
    return Cost(
        macs=reads[0] * writes[0],
        bytes_moved=(rows + weights + writes[0]) * ACTIVATION_BYTES,
    )


def _swiglu_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # Three casts, then Muls, Exp, Adds, Div, Mul.
    return Cost(
        vector_elements=8 * writes[0],
        bytes_moved=(reads[0] + writes[0]) * ACTIVATION_BYTES,
    )


def _weighted_sum_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # A cast and an Axpy for each copy of the token, one cast of the sum.
    copies = reads[1]
    return Cost(
        vector_elements=(2 * copies + 1) * writes[0],
        bytes_moved=(copies + 1) * writes[0] * ACTIVATION_BYTES,
    )


def _ints(*names: str) -> tuple[TileOperand, ...]:
    return tuple(TileOperand(n, "i32") for n in names)


FORWARD_KERNELS = (
    Kernel(
        "count_tokens",
        "hpmoe::CountTokens",
        "hpmoe/count_tokens.h",
        "aiv",
        _ints("ids"),
        _ints("counts"),
        _count_tokens,
        _no_cost,
        templated=False,
    ),
    Kernel(
        "exchange_counts",
        "hpmoe::ExchangeCounts",
        "hpmoe/exchange_counts.h",
        "aiv",
        _ints("chunk_counts"),
        _ints("row"),
        _exchange_counts,
        _no_cost,
        templated=False,
    ),
    Kernel(
        "place_tokens",
        "hpmoe::PlaceTokens",
        "hpmoe/place_tokens.h",
        "aiv",
        _ints("ids", "chunk_counts"),
        _ints("order", "position"),
        _place_tokens,
        _no_cost,
        scalars=("chunk",),
        templated=False,
    ),
    Kernel(
        "build_route",
        "hpmoe::BuildRoute",
        "hpmoe/build_route.h",
        "aiv",
        _ints("counts"),
        _ints("route", "status"),
        _build_route,
        _no_cost,
        scalars=("rank", "capacity"),
        templated=False,
    ),
    Kernel(
        "gather_rows",
        "hpmoe::GatherRows",
        "hpmoe/put_rows.h",
        "aiv",
        (TileOperand("x"), TileOperand("order", "i32")),
        (TileOperand("out"),),
        _gather_rows,
        _move_cost,
        scalars=("top_k",),
    ),
    Kernel(
        "copy_rows",
        "hpmoe::CopyRows",
        "hpmoe/put_rows.h",
        "aiv",
        (TileOperand("rows"),),
        (TileOperand("out"),),
        _copy_rows,
        _move_cost,
    ),
    Kernel(
        "grouped_matmul",
        "hpmoe::GroupedMatmul",
        "hpmoe/grouped_matmul.h",
        "aic",
        (TileOperand("rows"), TileOperand("weights")),
        (TileOperand("out"),),
        _grouped_matmul,
        _matmul_cost,
        options=("tile_m", "tile_n", "tile_k", "transpose_rhs"),
        local_use=matmul_local,
    ),
    Kernel(
        "swiglu",
        "hpmoe::SwiGlu",
        "hpmoe/swiglu.h",
        "aiv",
        (TileOperand("h"),),
        (TileOperand("out"),),
        _swiglu,
        _swiglu_cost,
    ),
    Kernel(
        "weighted_sum",
        "hpmoe::WeightedSum",
        "hpmoe/weighted_sum.h",
        "aiv",
        (TileOperand("back"), TileOperand("position", "i32"), TileOperand("gate", "f32")),
        (TileOperand("out"),),
        _weighted_sum,
        _weighted_sum_cost,
    ),
)
"""The kernels of the forward direction."""
