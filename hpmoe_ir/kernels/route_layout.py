"""Memory layout of a route: the first rows of each expert and each rank.

A route is one int32 buffer on each rank, built on the device from the exchanged counts
(`build_route`). Its arrays, each padded to whole 64-byte lines:

| array          | length  | value |
| -------------- | ------- | ----- |
| header         | 16      | status, rank over capacity, its rows, the capacity |
| sent_begin     | E + 1   | first row of global expert x in this rank's send order |
| dest_begin     | E       | first row of this rank's rows for x, in the receive order of x's rank |
| received_begin | L*R + 1 | first row received for (local expert e, source s), at e * R + s |
| return_begin   | L*R     | first row of s's rows for e, in s's send order, at e * R + s |

E experts, R ranks, L = E / R experts on each rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dtypes import AnyIntegers
from hpmoe_ir.integers import round_up

WORDS_PER_LINE = 16
STATUS_OK = 0
STATUS_OVER_CAPACITY = 1


def padded(words: int) -> int:
    """Returns `words` rounded up to whole 64-byte lines."""
    return round_up(words, WORDS_PER_LINE)


@dataclass(frozen=True)
class RouteLayout:
    """Word offsets of the arrays of a route."""

    experts: int
    ranks: int

    @property
    def local(self) -> int:
        """Number of experts on each rank."""
        return self.experts // self.ranks

    @property
    def sent_begin(self) -> int:
        """Offset of sent_begin, in words."""
        return WORDS_PER_LINE

    @property
    def dest_begin(self) -> int:
        """Offset of dest_begin, in words."""
        return self.sent_begin + padded(self.experts + 1)

    @property
    def received_begin(self) -> int:
        """Offset of received_begin, in words."""
        return self.dest_begin + padded(self.experts)

    @property
    def return_begin(self) -> int:
        """Offset of return_begin, in words."""
        return self.received_begin + padded(self.local * self.ranks + 1)

    @property
    def words(self) -> int:
        """Length of the route, in words."""
        return self.return_begin + padded(self.local * self.ranks)

    def build(self, counts: AnyIntegers, rank: int, capacity: int) -> AnyIntegers:
        """Returns the route of `rank`, int32[words].

        `counts` is int32[R, 2 * E]: for each source rank the rows that it sends to each expert,
        then their exclusive prefix sum. If any rank would receive more than `capacity` rows, every
        rank's route has only the header, with the first such rank and its rows.
        """
        route = np.zeros(self.words, dtype=np.int32)
        sent, begin = counts[:, : self.experts], counts[:, self.experts :]
        rows = sent.sum(axis=0).reshape(self.ranks, self.local).sum(axis=1)
        route[3] = capacity
        over = np.flatnonzero(rows > capacity)
        if over.size:
            route[:3] = (STATUS_OVER_CAPACITY, over[0], rows[over[0]])
            return route
        own = slice(rank * self.local, (rank + 1) * self.local)
        total = sent.sum(axis=0).reshape(self.ranks, self.local)
        before = np.cumsum(total, axis=1) - total
        route[self.sent_begin :][: self.experts] = begin[rank]
        route[self.sent_begin + self.experts] = begin[rank, -1] + sent[rank, -1]
        route[self.dest_begin :][: self.experts] = before.ravel() + sent[:rank].sum(axis=0)
        received = sent[:, own].T.ravel()
        route[self.received_begin + 1 :][: received.size] = np.cumsum(received)
        route[self.return_begin :][: received.size] = begin[:, own].T.ravel()
        return route
