"""The routing kernels alone on the CPU model, against NumPy: exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hpmoe_ir.kernels.route_layout import RouteLayout
from hpmoe_ir.runtime.device_fault import DeviceFault


def expert_ids(tokens: int, copies: int, experts: int, seed: int) -> npt.NDArray[np.int32]:
    """Skewed choices, no expert twice for a token."""
    rng: Any = np.random.default_rng(seed)
    weight = -np.log(rng.random((tokens, experts))) * (1 + np.arange(experts))
    return np.argsort(weight, axis=1)[:, :copies].astype(np.int32)


def chunk_sizes(n: int, chunks: int) -> list[int]:
    """Returns the number of rows of each chunk, as `hpmoe::Chunk` cuts them."""
    size = -(-n // chunks)
    return [min((c + 1) * size, n) - min(c * size, n) for c in range(chunks)]


@pytest.mark.parametrize("tokens", [0, 1, 7, 129, 3000])
@pytest.mark.parametrize(("copies", "experts"), [(1, 4), (2, 6), (8, 256)])
def test_count_tokens(kernels: Any, tokens: int, copies: int, experts: int):
    ids = expert_ids(tokens, copies, experts, 1)
    (raw,) = kernels.run(
        "count", [ids], [6 * experts * 4], aics=3, rows=tokens, cols=copies, inner=experts
    )
    ends = np.cumsum(chunk_sizes(tokens, 6))
    chunks = np.split(ids, ends[:-1])
    expected = [np.bincount(c.ravel(), minlength=experts) for c in chunks]
    np.testing.assert_array_equal(raw.view(np.int32).reshape(6, experts), expected)


@pytest.mark.parametrize(("ids", "experts"), [([[4]], 4), ([[-1]], 4), ([[0, 256]], 256)])
def test_count_tokens_stops_at_an_unknown_expert(kernels: Any, ids: list[list[int]], experts: int):
    array = np.array(ids, np.int32)
    with pytest.raises(DeviceFault) as caught:
        kernels.run("count", [array], [2 * experts * 4], rows=1, cols=array.shape[1], inner=experts)
    assert caught.value.kind == "trap"


@pytest.mark.parametrize("chunks", [1, 2, 7, 129])
@pytest.mark.parametrize("experts", [1, 4, 6, 256, 1000])
def test_exchange_counts(kernels: Any, chunks: int, experts: int):
    rng: Any = np.random.default_rng(2)
    counts = rng.integers(0, 1000, (chunks, experts + 3), np.int32)
    (raw,) = kernels.run(
        "exchange",
        [counts],
        [2 * experts * 4],
        rows=chunks,
        inner=experts,
        in_pitch=experts + 3,
    )
    total = counts[:, :experts].sum(axis=0)
    np.testing.assert_array_equal(
        raw.view(np.int32), np.concatenate([total, np.cumsum(total) - total])
    )


@pytest.mark.parametrize("tokens", [1, 7, 129, 2500])
@pytest.mark.parametrize(("copies", "experts"), [(1, 4), (2, 6), (8, 256)])
@pytest.mark.parametrize("aics", [1, 3])
def test_place_tokens(kernels: Any, tokens: int, copies: int, experts: int, aics: int):
    ids = expert_ids(tokens, copies, experts, 3)
    ends = np.cumsum(chunk_sizes(tokens, 2 * aics))
    counts = [
        np.bincount(c.ravel(), minlength=experts).astype(np.int32) for c in np.split(ids, ends[:-1])
    ]
    order, position = kernels.run(
        "place",
        [ids, np.stack(counts)],
        [ids.size * 4, ids.size * 4],
        aics=aics,
        seed=tokens,
        rows=tokens,
        cols=copies,
        inner=experts,
    )
    by_expert = np.argsort(ids.ravel(), kind="stable")
    np.testing.assert_array_equal(order.view(np.int32), by_expert)
    np.testing.assert_array_equal(
        position.view(np.int32)[by_expert], np.arange(ids.size, dtype=np.int32)
    )


def rank_counts(ranks: int, experts: int, seed: int) -> npt.NDArray[np.int32]:
    """Returns the content of the exchange: each rank's counts, then their exclusive prefix sum."""
    rng: Any = np.random.default_rng(seed)
    sent = rng.integers(0, 50, (ranks, experts), np.int32) * rng.integers(0, 2, (ranks, experts))
    return np.hstack([sent, np.cumsum(sent, axis=1) - sent]).astype(np.int32)


@pytest.mark.parametrize(
    ("ranks", "experts"), [(1, 1), (1, 8), (2, 4), (3, 6), (8, 8), (64, 256), (16, 1024)]
)
def test_build_route(kernels: Any, ranks: int, experts: int):
    counts = rank_counts(ranks, experts, ranks)
    layout = RouteLayout(experts=experts, ranks=ranks)
    for rank in {0, ranks // 2, ranks - 1}:
        route, status = kernels.run(
            "route",
            [counts],
            [layout.words * 4, 64],
            rows=ranks,
            cols=rank,
            inner=experts,
            limit=1 << 30,
        )
        expected = layout.build(counts, rank, 1 << 30)
        np.testing.assert_array_equal(route.view(np.int32), expected)
        np.testing.assert_array_equal(status.view(np.int32), expected[:16])


def test_build_route_reports_the_first_rank_over_capacity(kernels: Any):
    counts = rank_counts(4, 8, 5)
    rows = counts[:, :8].sum(axis=0).reshape(4, 2).sum(axis=1)
    capacity = int(rows.max()) - 1
    layout = RouteLayout(experts=8, ranks=4)
    route, status = kernels.run(
        "route", [counts], [layout.words * 4, 64], rows=4, cols=1, inner=8, limit=capacity
    )
    over = int(np.flatnonzero(rows > capacity)[0])
    expected = np.zeros(layout.words, np.int32)
    expected[:4] = (1, over, rows[over], capacity)
    np.testing.assert_array_equal(route.view(np.int32), expected)
    np.testing.assert_array_equal(status.view(np.int32), expected[:16])
