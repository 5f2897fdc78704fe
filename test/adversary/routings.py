"""Concrete routings, and the tables that every rank derives from them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

from hpmoe_ir.dialects.placement import RouteType

Span: TypeAlias = tuple[int, int]
"""First element, one past the last."""

NO_ROWS: Span = (0, 0)


@dataclass(frozen=True)
class Routing:
    """The tokens of each rank in one launch, and the experts that each of them is sent to."""

    tokens: tuple[int, ...]
    ids: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """ids[rank][token]: different experts; empty in a program without a route."""


@dataclass(frozen=True)
class Tables:
    """What the route of each rank says about a routing, worked out token by token."""

    type: RouteType
    routing: Routing
    capacity: int
    """Rows above which the task that builds the route refuses the launch."""

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.type.ranks.data

    @property
    def local(self) -> int:
        """Experts of one rank."""
        return self.type.experts.data // self.ranks

    @cached_property
    def order(self) -> list[list[int]]:
        """order[rank]: pairs token * K + k of the rank, by (expert, token)."""
        found: list[list[int]] = []
        for own in self.routing.ids:
            pairs = [
                (expert, t * len(row) + k)
                for t, row in enumerate(own)
                for k, expert in enumerate(row)
            ]
            found.append([pair for _, pair in sorted(pairs)])
        return found

    @cached_property
    def position(self) -> list[list[int]]:
        """position[rank][pair]: where a pair stands in `order`."""
        found: list[list[int]] = []
        for own in self.order:
            places = [0] * len(own)
            for place, pair in enumerate(own):
                places[pair] = place
            found.append(places)
        return found

    @cached_property
    def sent(self) -> list[list[int]]:
        """sent[rank][expert]: rows."""
        counts = [[0] * self.type.experts.data for _ in range(self.ranks)]
        for rank, own in enumerate(self.routing.ids):
            for row in own:
                for expert in row:
                    counts[rank][expert] += 1
        return counts

    @cached_property
    def received(self) -> list[int]:
        """Rows that arrive at each rank."""
        return [
            sum(
                self.sent[s][r * self.local + e]
                for s in range(self.ranks)
                for e in range(self.local)
            )
            for r in range(self.ranks)
        ]

    @cached_property
    def fits(self) -> bool:
        """Whether no rank receives more rows than the capacity; otherwise all ranges are empty."""
        return max(self.received) <= self.capacity

    @cached_property
    def _sent_begin(self) -> list[list[int]]:
        return [[0, *accumulate(own)] for own in self.sent]

    @cached_property
    def _received_begin(self) -> list[list[int]]:
        """[rank][local expert * ranks + source]."""
        return [
            [
                0,
                *accumulate(
                    self.sent[s][r * self.local + e]
                    for e in range(self.local)
                    for s in range(self.ranks)
                ),
            ]
            for r in range(self.ranks)
        ]

    def sent_rows(self, rank: int, expert: int) -> Span:
        """Rows that `rank` sends to a global expert, in its send order."""
        if not self.fits:
            return NO_ROWS
        begin = self._sent_begin[rank]
        return begin[expert], begin[expert + 1]

    def grouped_rows(self, rank: int, expert: int, first: int, last: int) -> Span:
        """Rows that `rank` receives for a local expert from ranks `first` to `last` - 1."""
        if not self.fits:
            return NO_ROWS
        begin = self._received_begin[rank]
        return begin[expert * self.ranks + first], begin[expert * self.ranks + last]


def routings_of(
    ranks: int, most: int, type: RouteType | None, capacity: int, chance: random.Random, count: int
) -> list[Routing]:
    """Returns routings: full and skewed to one rank each, empty, uneven, and `count` random ones.

    `most` is the largest number of tokens of a rank. A routing that exceeds the capacity loses
    tokens until it fits, but one stays.
    """
    if type is None:
        vectors = [[most] * ranks, [0] * ranks, [1] * ranks, [most // 2 + 1] * ranks]
        vectors += [[chance.randint(0, most) for _ in range(ranks)] for _ in range(count)]
        return [Routing(tuple(min(t, most) for t in v)) for v in vectors]
    local = type.experts.data // ranks
    found: list[Routing] = []
    for target in range(ranks):
        own = list(range(target * local, (target + 1) * local))
        skewed = _routing([most] * ranks, type, own, chance)
        if not Tables(type, skewed, capacity).fits and target == 0:
            found.append(skewed)
        found.append(_fitted(skewed, type, capacity))
    found.append(Routing((0,) * ranks, ((),) * ranks))
    for _ in range(count):
        tokens = [chance.choice((0, 1, most, chance.randint(0, most))) for _ in range(ranks)]
        liked = chance.sample(range(type.experts.data), chance.randint(0, type.experts.data))
        found.append(_fitted(_routing(tokens, type, liked, chance), type, capacity))
    return found


def _routing(
    tokens: list[int], type: RouteType, liked: list[int], chance: random.Random
) -> Routing:
    """Each token goes to experts of `liked` as long as there are enough."""
    experts, top = type.experts.data, type.top.data

    def row() -> tuple[int, ...]:
        first = chance.sample(liked, min(top, len(liked)))
        others = [x for x in range(experts) if x not in first]
        return tuple(first + chance.sample(others, top - len(first)))

    return Routing(tuple(tokens), tuple(tuple(row() for _ in range(n)) for n in tokens))


def _fitted(routing: Routing, type: RouteType, capacity: int) -> Routing:
    """The routing with the last tokens of the ranks dropped in turn until it fits."""
    ids = [list(own) for own in routing.ids]
    turn = 0
    while True:
        found = Routing(tuple(map(len, ids)), tuple(tuple(own) for own in ids))
        if Tables(type, found, capacity).fits or not any(ids):
            return found
        while not ids[turn % len(ids)]:
            turn += 1
        ids[turn % len(ids)].pop()
        turn += 1
