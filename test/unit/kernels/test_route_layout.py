"""The route's tables against rows that are listed and sorted one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpmoe_ir.kernels.route_layout import STATUS_OK, STATUS_OVER_CAPACITY, RouteLayout, padded

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]


def draw(seed: int, ranks: int, experts: int) -> tuple[Ints, Ints]:
    """Rows that each rank sends to each expert, and what the ranks exchange."""
    rng = np.random.default_rng(seed)
    sent = (rng.random((ranks, experts)) * 5).astype(np.int64)
    return sent, np.concatenate([sent, np.cumsum(sent, axis=1) - sent], axis=1)


def section(route: Ints, begin: int, length: int) -> list[int]:
    return route[begin : begin + length].tolist()


@pytest.mark.parametrize("ranks, local", [(1, 1), (1, 5), (2, 3), (4, 2), (3, 6), (8, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_tables_are_where_the_rows_are(seed: int, ranks: int, local: int):
    experts = ranks * local
    sent, counts = draw(seed, ranks, experts)
    layout = RouteLayout(experts, ranks)
    # The send order of each rank as a list of experts; the receive order as (expert, source).
    send_orders = [[x for x in range(experts) for _ in range(sent[r, x])] for r in range(ranks)]
    receive_orders = [
        [
            (x, s)
            for x in range(r * local, (r + 1) * local)
            for s in range(ranks)
            for _ in range(sent[s, x])
        ]
        for r in range(ranks)
    ]

    def first(order: list[Any], wanted: Any) -> int:
        """Where an entry begins, or would: after all that are smaller."""
        return sum(entry < wanted for entry in order)

    for rank in range(ranks):
        route = layout.build(counts, rank, 1000)
        assert section(route, 0, 4) == [STATUS_OK, 0, 0, 1000]
        assert section(route, layout.sent_begin, experts + 1) == [
            first(send_orders[rank], x) for x in range(experts + 1)
        ]
        assert section(route, layout.dest_begin, experts) == [
            first(receive_orders[x // local], (x, rank)) for x in range(experts)
        ]
        own = [(rank * local + e, s) for e in range(local) for s in range(ranks)]
        received = [first(receive_orders[rank], pair) for pair in own]
        assert section(route, layout.received_begin, len(own) + 1) == [
            *received,
            len(receive_orders[rank]),
        ]
        assert section(route, layout.return_begin, len(own)) == [
            first(send_orders[s], x) for x, s in own
        ]


@pytest.mark.parametrize("rank", range(3))
def test_over_capacity_every_rank_says_the_same(rank: int):
    sent = np.array([[1, 1, 9, 0, 2, 2], [0, 3, 4, 0, 9, 9], [0, 0, 0, 8, 0, 0]])
    counts = np.concatenate([sent, np.cumsum(sent, axis=1) - sent], axis=1)
    # Rank 0 gets 5 rows, rank 1 21, rank 2 22.
    route = RouteLayout(6, 3).build(counts, rank, 20)
    assert section(route, 0, 4) == [STATUS_OVER_CAPACITY, 1, 21, 20]
    assert not route[16:].any()
    route = RouteLayout(6, 3).build(counts, rank, 21)
    assert section(route, 0, 4) == [STATUS_OVER_CAPACITY, 2, 22, 21]
    route = RouteLayout(6, 3).build(counts, rank, 22)
    assert section(route, 0, 4) == [STATUS_OK, 0, 0, 22]


@pytest.mark.parametrize("experts, ranks", [(1, 1), (16, 4), (15, 5), (256, 64), (33, 11)])
def test_sections_are_lines_of_their_own(experts: int, ranks: int):
    layout = RouteLayout(experts, ranks)
    lengths = [16, experts + 1, experts, experts + 1, experts]
    begins = [0, layout.sent_begin, layout.dest_begin, layout.received_begin, layout.return_begin]
    ends = [*begins[1:], layout.words]
    for begin, length, end in zip(begins, lengths, ends, strict=True):
        assert begin % 16 == 0
        assert end - begin == padded(length) >= length
