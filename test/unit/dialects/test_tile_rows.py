"""Tiles of rows, and which parts and tiles have rows in common: by brute force over the rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpmoe_ir.dialects.access import TileCut, Tiles, cut_tiles
from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.integers import ceil_div


@st.composite
def cuts(draw: st.DrawFn) -> tuple[TileCut, IntArray]:
    """A cut, and the rows that a rank receives for each expert from each rank."""
    experts, ranks = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    rows = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 40))
    received = draw(st.lists(rows, min_size=experts * ranks, max_size=experts * ranks))
    cut = TileCut(experts + draw(st.integers(0, 12)), draw(st.integers(1, 9)))
    return cut, np.array(received, dtype=np.int64).reshape(experts, ranks)


def rows_of_parts(received: IntArray) -> list[set[int]]:
    """The rows of each part, in receive order."""
    ends = np.cumsum(received.ravel()).tolist()
    counts = received.ravel().tolist()
    return [set(range(end - n, end)) for end, n in zip(ends, counts, strict=True)]


def rows_of_tiles(tiles: Tiles, count: int) -> list[set[int]]:
    return [set(range(*tiles.rows(t))) for t in range(count)]


@given(cuts())
def test_each_row_is_in_one_tile_of_its_expert(case: tuple[TileCut, IntArray]) -> None:
    cut, received = case
    tiles = cut_tiles(cut, received)
    of_tiles = rows_of_tiles(tiles, cut.count)
    assert sorted(row for rows in of_tiles for row in rows) == list(range(int(received.sum())))
    ends = np.cumsum(received.sum(axis=1))
    for t, rows in enumerate(of_tiles):
        experts = {int(np.searchsorted(ends, row, side="right")) for row in rows}
        assert experts <= {tiles.expert(t)}
        assert len(rows) <= tiles.height
    used = [bool(rows) for rows in of_tiles]
    assert used == sorted(used, reverse=True), "tiles without rows come last"


@given(cuts())
def test_tiles_are_as_low_as_their_number_allows(case: tuple[TileCut, IntArray]) -> None:
    cut, received = case
    tiles = cut_tiles(cut, received)
    assert tiles.height % cut.rows == 0

    def needed(height: int) -> int:
        return sum(ceil_div(int(n), height) for n in received.sum(axis=1))

    assert needed(tiles.height) <= cut.count
    assert tiles.height == cut.rows or needed(tiles.height - cut.rows) > cut.count


@given(cuts())
def test_parts_of_a_tile(case: tuple[TileCut, IntArray]) -> None:
    """All that have a row of it; besides, only parts without rows."""
    cut, received = case
    tiles, parts = cut_tiles(cut, received), rows_of_parts(received)
    for t, rows in enumerate(rows_of_tiles(tiles, cut.count)):
        meeting = {p for p, own in enumerate(parts) if own & rows}
        found = set(range(*tiles.parts(t)))
        assert meeting <= found
        assert not any(parts[p] for p in found - meeting)


@given(cuts(), st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_tiles_of_a_part(
    case: tuple[TileCut, IntArray], expert: int, first: int, last: int
) -> None:
    """Those that have a row of an expert from a range of sources, and no other."""
    cut, received = case
    experts, ranks = received.shape
    expert %= experts
    low, high = sorted((first % (ranks + 1), last % (ranks + 1)))
    tiles, parts = cut_tiles(cut, received), rows_of_parts(received)
    rows = set[int]().union(*(parts[expert * ranks + s] for s in range(low, high)))
    of_tiles = rows_of_tiles(tiles, cut.count)
    meeting = [t for t, own in enumerate(of_tiles) if own & rows]
    assert list(range(*tiles.covering(expert, (low, high)))) == meeting


def test_fewer_tiles_than_experts() -> None:
    with pytest.raises(ValueError, match="2 tiles for 3 experts"):
        cut_tiles(TileCut(2, 16), np.zeros((3, 2), dtype=np.int64))
