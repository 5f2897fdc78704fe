"""Accesses: how rows are cut, how their text reads, and what row selectors answer.

Row selectors are compared with brute force: every row of a random routing has a label, its expert
and its source rank, and the rows that a selector means are those of the right labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
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
    RowCounts,
    RowKind,
    RowQuery,
    RowSegment,
    RowSelector,
    Selector,
    SentRows,
    TokenRows,
    WholeSelector,
    chunk_bounds,
    format_access,
    group_bounds,
    parse_access,
)
from hpmoe_ir.dialects.index import RANK, IntArray, evaluate_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.interpreter.memory import Route
from hpmoe_ir.kernels.route_layout import RouteLayout

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


ACCESSES: list[tuple[str, Access]] = [
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


@pytest.mark.parametrize(("text", "access"), ACCESSES)
def test_text_and_access(text: str, access: Access):
    assert format_access(access, NAMES) == text
    assert parse_access(Parser(Context(), text), NAMES) == access


def test_a_coordinate_may_have_the_name_of_a_selector():
    access = parse_access(Parser(Context(), "@b[block, sent]"), ("block", "sent"))
    assert access == Access("b", (IndexSelector(P), IndexSelector(E)))


@pytest.mark.parametrize(("text", "access"), ACCESSES)
def test_map_exprs_reaches_each_expression(text: str, access: Access):
    changed = access.map_exprs(lambda e: e + 1)
    assert list(changed.exprs) == [e + 1 for e in access.exprs]


def test_rows_of_an_access():
    rows: Selector = GroupedRows(E, P, 2)
    assert Access("r", (rows, WholeSelector())).rows == rows
    assert Access("r", (WholeSelector(), WholeSelector())).rows is None


GRID = (3, 2, 4)
"""Extents of the coordinates p, e, c."""

few = settings(deadline=None, max_examples=50)
"""Each example looks at all tasks of all ranks."""


@dataclass(frozen=True)
class Routing:
    """Rows from each rank to each expert, `sent[r, x]`; the rest follows from it."""

    ranks: int
    local: int
    sent: IntArray

    @property
    def experts(self) -> int:
        return self.ranks * self.local

    def grouped(self, rank: int) -> list[tuple[int, int]]:
        """(local expert, source) of each row that a rank receives, in receive order."""
        return [
            (e, s)
            for e in range(self.local)
            for s in range(self.ranks)
            for _ in range(int(self.sent[s, rank * self.local + e]))
        ]

    def send_order(self, rank: int) -> list[int]:
        """The global expert of each row that a rank sends, in send order."""
        return [x for x in range(self.experts) for _ in range(int(self.sent[rank, x]))]

    @cached_property
    def routes(self) -> list[Route]:
        """The route of each rank, built as the device builds it."""
        most = max(1, int(self.sent.sum()))
        type = RouteType(most, 1, self.experts, self.ranks, most)
        counts = np.concatenate([self.sent, np.cumsum(self.sent, axis=1) - self.sent], axis=1)
        layout = RouteLayout(self.experts, self.ranks)
        return [Route(layout.build(counts, r, most), type, r) for r in range(self.ranks)]


@st.composite
def routings(draw: st.DrawFn) -> Routing:
    ranks, local = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rows = st.lists(st.integers(0, 5), min_size=ranks * local, max_size=ranks * local)
    sent = [draw(rows) for _ in range(ranks)]
    return Routing(ranks, local, np.array(sent, dtype=np.int64))


chunks = st.builds(Chunk, st.sampled_from([C, E]), st.just(4), st.integers(1, 4))


def rows_asked(query: RowQuery, route: Route, point: Sequence[int], rank: int) -> range:
    """The rows that a query means to a route, for the task at a point on a rank."""

    def at(expr: AffineExpr) -> int:
        return int(evaluate_index(expr, point, rank))

    begin, end = route.segment(query.segment, [at(e) for e in query.operands], query.groups)
    chunk = query.chunk
    low, high = chunk_bounds(end - begin, at(chunk.index), chunk.count, chunk.align)
    return range(begin + low, begin + high)


def part(rows: list[int], chunk: Chunk, point: Sequence[int]) -> range:
    """A chunk of some consecutive rows."""
    assert not rows or rows == list(range(rows[0], rows[-1] + 1))
    low, high = chunk_bounds(
        len(rows), int(evaluate_index(chunk.index, point, 0)), chunk.count, chunk.align
    )
    begin = rows[0] if rows else 0
    return range(begin + low, begin + high)


@few
@given(routings(), chunks, st.data())
def test_grouped_rows_are_those_of_the_expert_and_sources(
    routing: Routing, chunk: Chunk, data: st.DataObject
):
    groups = data.draw(st.integers(1, routing.ranks))
    rank = data.draw(st.integers(0, routing.ranks - 1))
    selector = GroupedRows(E % routing.local, P % groups, groups, chunk)
    for point in product(*map(range, GRID)):
        first, last = group_bounds(point[0] % groups, groups, routing.ranks)
        wanted = [
            i
            for i, (e, s) in enumerate(routing.grouped(rank))
            if e == point[1] % routing.local and first <= s < last
        ]
        found = rows_asked(selector.query(None), routing.routes[rank], point, rank)
        assert list(found) == list(part(wanted, chunk, point))


@few
@given(routings(), chunks, st.data())
def test_sent_rows_are_those_of_the_expert(routing: Routing, chunk: Chunk, data: st.DataObject):
    rank = data.draw(st.integers(0, routing.ranks - 1))
    selector = SentRows((P * 2 + E) % routing.experts, chunk)
    for point in product(*map(range, GRID)):
        expert = (point[0] * 2 + point[1]) % routing.experts
        wanted = [i for i, x in enumerate(routing.send_order(rank)) if x == expert]
        found = rows_asked(selector.query(None), routing.routes[rank], point, rank)
        assert list(found) == list(part(wanted, chunk, point))


@few
@given(routings(), chunks)
def test_a_put_to_experts_lands_where_the_receiver_has_the_rows(routing: Routing, chunk: Chunk):
    selector = GroupedRows(E % routing.local, RANK, routing.ranks, chunk)
    query = selector.query(P % routing.ranks)
    assert selector.sender(routing.ranks, routing.local) == RANK
    for rank, *point in product(range(routing.ranks), *map(range, GRID)):
        peer = point[0] % routing.ranks
        label = (point[1] % routing.local, rank)
        wanted = [i for i, l in enumerate(routing.grouped(peer)) if l == label]
        found = rows_asked(query, routing.routes[rank], point, rank)
        assert list(found) == list(part(wanted, chunk, point))
        seen = rows_asked(selector.query(None), routing.routes[peer], point, rank)
        assert len(seen) == len(found)


@few
@given(routings(), chunks)
def test_a_put_back_lands_where_the_receiver_sent_the_rows_from(routing: Routing, chunk: Chunk):
    selector = SentRows(RANK * routing.local + E % routing.local, chunk)
    query = selector.query(P % routing.ranks)
    sender = selector.sender(routing.ranks, routing.local)
    assert sender is not None
    for rank, *point in product(range(routing.ranks), *map(range, GRID)):
        assert evaluate_index(sender, point, rank) == rank
        peer = point[0] % routing.ranks
        expert = rank * routing.local + point[1] % routing.local
        wanted = [i for i, x in enumerate(routing.send_order(peer)) if x == expert]
        found = rows_asked(query, routing.routes[rank], point, rank)
        assert list(found) == list(part(wanted, chunk, point))
        seen = rows_asked(selector.query(None), routing.routes[peer], point, rank)
        assert len(seen) == len(found)


def test_rows_over_the_capacity_are_none():
    layout, type = RouteLayout(2, 1), RouteType(4, 1, 2, 1, 2)
    counts = np.array([[2, 1, 0, 2]])
    words = layout.build(counts, 0, 2)
    segment = Route(words, type, 0).segment(RowSegment.SENT, (1,), 1)
    assert segment == (0, 0)
    assert Route(layout.build(counts, 0, 3), type, 0).segment(RowSegment.SENT, (1,), 1) == (2, 3)


@few
@given(routings(), st.data())
def test_selectors_meet_on_all_axes_where_they_have_rows_in_common(
    routing: Routing, data: st.DataObject
):
    groups = st.integers(1, routing.ranks)
    cuts = st.tuples(groups, st.integers(1, 3), st.integers(1, 3))
    one, other = (
        GroupedRows(E % routing.local, P % g, g, Chunk(C % n, n, a))
        for g, n, a in (data.draw(cuts), data.draw(cuts))
    )
    route = routing.routes[0]
    points = list(product(*map(range, GRID)))
    axes = [s.axes(0, 99, routing.ranks, routing.experts) for s in (one, other)]
    rows = [[set(rows_asked(s.query(None), route, p, 0)) for p in points] for s in (one, other)]
    for (i, p), (j, q) in product(enumerate(points), repeat=2):
        if not rows[0][i] & rows[1][j]:
            continue
        for a, b in zip(*axes, strict=True):
            low, high = a.bounds(int(evaluate_index(a.index, p, 0)))
            begin, end = b.bounds(int(evaluate_index(b.index, q, 0)))
            assert a.name == b.name
            assert a.cut != b.cut or max(low, begin) < min(high, end)


SELECTORS: tuple[RowSelector, ...] = (
    TokenRows(P, 3),
    GroupedRows(E, P, 3, Chunk(C, 4, 2)),
    GroupedRows(E, P % 2, 2),
    SentRows(P * 2 + E, Chunk(C, 4, 1)),
)


@pytest.mark.parametrize("selector", [*SELECTORS, BlockSelector(P, 4), IndexSelector(P)])
def test_ranges_of_an_axis_ascend_and_cover_it(selector: Selector):
    for axis in selector.axes(1, 10, 4, 8):
        bounds = [axis.bounds(i) for i in range(axis.count)]
        assert bounds[0][0] == 0
        assert bounds[-1][1] == axis.extent
        assert all(a[1] == b[0] for a, b in pairwise(bounds))
        assert all(low < high for low, high in bounds)


def test_axes_have_as_many_ranges_as_there_are_experts_groups_and_chunks():
    def found(selector: Selector) -> list[tuple[str, int, int]]:
        return [(a.name, a.count, a.extent) for a in selector.axes(2, 9, 6, 12)]

    grouped = GroupedRows(E, P, 3, Chunk(C, 4, 2))
    assert found(grouped) == [("expert", 2, 2), ("source", 3, 6), ("chunk", 4, 4)]
    assert found(SentRows(E, Chunk(C, 5, 2))) == [("expert", 12, 12), ("chunk", 5, 5)]
    assert found(TokenRows(E, 7)) == [("chunk", 7, 7)]
    assert found(BlockSelector(E, 4)) == [("dim2", 3, 9)]
    assert found(IndexSelector(E)) == [("dim2", 9, 9)]
    assert found(WholeSelector()) == []


POINTS = [c.ravel() for c in np.indices(GRID, dtype=np.int64)]


@pytest.mark.parametrize("selector", SELECTORS)
def test_balanced_rows_are_those_of_a_balanced_routing(selector: RowSelector):
    ranks, local, each = 3, 2, 7
    routing = Routing(ranks, local, np.full((ranks, ranks * local), each, dtype=np.int64))
    route = RouteType(each * ranks * local, 1, ranks * local, ranks)

    def at(expr: AffineExpr) -> IntArray:
        return np.broadcast_to(evaluate_index(expr, POINTS, 0), (len(POINTS[0]),))

    found = selector.balanced_rows(route, at)
    query = selector.query(None)
    if query.segment is RowSegment.TOKENS:
        assert found.tolist() == [route.tokens.data / query.chunk.count] * len(POINTS[0])
        return
    points = zip(*(c.tolist() for c in POINTS), strict=True)
    wanted = [len(rows_asked(query, routing.routes[0], p, 0)) for p in points]
    assert found.tolist() == wanted


@few
@given(routings())
def test_total_rows_are_those_of_all_tasks_each_once(routing: Routing):
    rank = routing.ranks - 1
    received = [sum(e == x for e, _ in routing.grouped(rank)) for x in range(routing.local)]
    counts = RowCounts(11, int(routing.sent[rank].sum()), np.array(received))
    grouped = GroupedRows(E, P, routing.ranks, Chunk(C, 4, 2))
    some = max(1, routing.local - 1)
    for selector, extents in (
        (grouped, (routing.ranks, some, 4)),
        (SentRows(P * routing.local + E), (routing.ranks, routing.local, 1)),
    ):
        union: set[int] = set()
        for point in product(*map(range, extents)):
            union |= set(rows_asked(selector.query(None), routing.routes[rank], point, rank))
        assert selector.total_rows(counts, extents) == len(union)
    assert TokenRows(P, 3).total_rows(counts, (3,)) == counts.of_kind(RowKind.TOKENS) == 11
    assert counts.of_kind(RowKind.GROUPED) == len(routing.grouped(rank))
    assert counts.of_kind(RowKind.SENT) == len(routing.send_order(rank))


def test_what_roles_ask_of_selectors():
    grouped, sent, tokens = GroupedRows(E, P, 2), SentRows(E), TokenRows(P, 2)
    assert (grouped.local_expert, sent.local_expert, tokens.local_expert) == (E, None, None)
    assert (grouped.source_group, GroupedRows(E, P, 1).source_group) == (P, None)
    assert grouped.problem(2, 4) is None
    assert grouped.problem(1, 4) == "2 source groups of 1 ranks"
    assert grouped.sender(4, 2) is None, "rows of two ranks each"
    assert tokens.sender(4, 2) is None


def test_an_access_asks_in_the_memory_that_it_is_in():
    here, there = (Access("r", (GroupedRows(E, RANK, 4),), peer) for peer in (None, P))
    assert here.row_query == RowQuery(RowSegment.GROUPED, (E, RANK), Chunk(), 4)
    assert there.row_query == RowQuery(RowSegment.DEST, (P, E), Chunk())
    assert Access("r", (SentRows(E),), P).row_query == RowQuery(RowSegment.RETURN, (E, P), Chunk())
    assert Access("w", (IndexSelector(E), WholeSelector())).row_query is None
