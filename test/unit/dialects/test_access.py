"""Regions: how rows are cut, and how their text reads."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.ir.affine import AffineExpr
from xdsl.parser import Parser

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
    access_exprs,
    chunk_bounds,
    format_access,
    group_bounds,
    parse_access,
)
from hpmoe_ir.dialects.index import RANK

NAMES = ("p", "e", "c")
P, E, C = (AffineExpr.dimension(i) for i in range(3))


@given(st.integers(0, 70), st.integers(1, 9), st.integers(1, 20))
def test_chunks_cover_the_rows_once_and_in_order(rows: int, count: int, align: int):
    begin = 0
    for index in range(count):
        low, high = chunk_bounds(rows, index, count, align)
        assert low == begin <= high <= rows
        assert low % align == 0 or low == rows
        begin = high
    assert begin == rows


@pytest.mark.parametrize(
    ("rows", "count", "align", "sizes"),
    [
        (10, 3, 1, [4, 4, 2]),
        (10, 4, 4, [4, 4, 2, 0]),
        (130, 2, 128, [128, 2]),
        (3, 2, 16, [3, 0]),
        (0, 2, 16, [0, 0]),
    ],
)
def test_sizes_of_chunks(rows: int, count: int, align: int, sizes: list[int]):
    bounds = [chunk_bounds(rows, i, count, align) for i in range(count)]
    assert [high - low for low, high in bounds] == sizes


@given(st.integers(1, 64), st.integers(1, 64))
def test_groups_cover_the_ranks_and_none_is_empty(ranks: int, groups: int):
    groups = min(groups, ranks)
    bounds = [group_bounds(g, groups, ranks) for g in range(groups)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == ranks
    assert all(a[1] == b[0] for a, b in pairwise(bounds))
    sizes = [high - low for low, high in bounds]
    assert 1 <= min(sizes) <= max(sizes) <= min(sizes) + 1


REGIONS: list[tuple[str, Access]] = [
    ("@b[]", Access("b", ())),
    ("@b[:]", Access("b", (WholeSelector(),))),
    ("scatter @b[:]", Access("b", (WholeSelector(),), scatter=True)),
    (
        "@w[e, :, block(c by 16)]",
        Access("w", (IndexSelector(E), WholeSelector(), BlockSelector(C, 16))),
    ),
    ("@r[grouped(e, p of 2), :]", Access("r", (GroupedRows(E, P, 2), WholeSelector()))),
    (
        "@r on (rank + p) mod 4 [grouped(e, rank of 4, chunk c of 2 by 16), :]",
        Access("r", (GroupedRows(E, RANK, 4, Chunk(C, 2, 16)), WholeSelector()), (RANK + P) % 4),
    ),
    (
        "@s[sent(p * 3 + e, chunk c of 2 by 1)]",
        Access("s", (SentRows(P * 3 + E, Chunk(C, 2, 1)),)),
    ),
    ("@s[sent(e)]", Access("s", (SentRows(E),))),
    ("@t[tokens(p of 16), :]", Access("t", (TokenRows(P, 16), WholeSelector()))),
]


@pytest.mark.parametrize(("text", "region"), REGIONS)
def test_text_and_region(text: str, region: Access):
    assert format_access(region, NAMES) == text
    assert parse_access(Parser(Context(), text), NAMES) == region


def test_a_coordinate_may_have_the_name_of_a_selector():
    region = parse_access(Parser(Context(), "@b[block, sent]"), ("block", "sent"))
    assert region == Access("b", (IndexSelector(P), IndexSelector(E)))


@pytest.mark.parametrize(("text", "region"), REGIONS)
def test_map_exprs_reaches_each_expression(text: str, region: Access):
    changed = region.map_exprs(lambda e: e + 1)
    assert list(access_exprs(changed)) == [e + 1 for e in access_exprs(region)]


def test_rows_of_a_region():
    rows: Selector = GroupedRows(E, P, 2)
    assert Access("r", (rows, WholeSelector())).rows == rows
    assert Access("r", (WholeSelector(), WholeSelector())).rows is None
