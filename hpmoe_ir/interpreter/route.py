"""The route of one rank as NumPy arrays: the semantics of `moe.route`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dtypes import AnyIntegers


class RouteError(InterpretationError):
    """Invalid ids, or counts that exceed the capacity; the message names the rank."""


@dataclass(frozen=True)
class RankRoute:
    """The route of one rank, after the exchange of counts.

    R ranks, E experts, L = E / R on each rank, K experts for each of this rank's t tokens.
    """

    rank: int
    ranks: int
    position: AnyIntegers
    """`[t, K]`: row in send order of a token and its k-th expert."""
    order: AnyIntegers
    """`[t * K]`: for each row in send order, t * K + k of its token t and k-th expert."""
    sent_begin: AnyIntegers
    """`[E + 1]`: first row in send order of each expert; the last element is t * K."""
    dest_begin: AnyIntegers
    """`[E]`: first row, in the receive order of the expert's rank, of this rank's rows for it."""
    received_begin: AnyIntegers
    """`[E + 1]`: first received row for local expert e from rank s, at e * R + s."""
    return_begin: AnyIntegers
    """`[E]`: first row, in rank s's send order, of its rows for local expert e, at e * R + s."""

    @property
    def local_experts(self) -> int:
        """Number of experts on each rank, L."""
        return self.dest_begin.size // self.ranks

    @property
    def tokens(self) -> AnyIntegers:
        """`[t * K]`: the token of each row in send order."""
        return self.order // self.position.shape[1]

    @property
    def received(self) -> int:
        """Number of rows that this rank receives."""
        return int(self.received_begin[-1])

    def sent_rows(self, expert: int) -> slice:
        """Returns the rows, in send order, for a global expert."""
        return slice(int(self.sent_begin[expert]), int(self.sent_begin[expert + 1]))

    def expert_rows(self, expert: int) -> slice:
        """Returns the received rows of a local expert."""
        begin = self.received_begin[:: self.ranks]
        return slice(int(begin[expert]), int(begin[expert + 1]))

    def received_rows(self, expert: int, source: int) -> slice:
        """Returns the received rows of a local expert from one rank."""
        segment = expert * self.ranks + source
        return slice(int(self.received_begin[segment]), int(self.received_begin[segment + 1]))


def count_tokens(ids: AnyIntegers, experts: int) -> AnyIntegers:
    """Returns `[2, E]` int32: rows for each expert, and their exclusive prefix sum."""
    counts = np.bincount(ids.reshape(-1), minlength=experts)
    return np.stack([counts, np.cumsum(counts) - counts]).astype(np.int32)


def check_expert_ids(ids: Sequence[AnyIntegers], experts: int) -> None:
    """Checks that ids are in range and distinct for each token on all ranks; raises RouteError."""
    for rank, own in enumerate(ids):
        outside = np.argwhere((own < 0) | (own >= experts))
        if outside.size:
            token, k = outside[0]
            raise RouteError(
                f"rank {rank}, token {token}: expected expert ids from 0 to {experts - 1}, "
                f"found {own[token, k]}"
            )
        ordered = np.sort(own, axis=1)
        repeated = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
        if repeated.size:
            token, k = repeated[0]
            raise RouteError(
                f"rank {rank}, token {token}: expected different experts, "
                f"found expert {ordered[token, k]} twice"
            )


def make_route(ids: AnyIntegers, all_counts: AnyIntegers, rank: int, type: RouteType) -> RankRoute:
    """Returns the route of `rank` from its own ids `[t, K]` and all ranks' counts `[R, 2, E]`.

    Raises RouteError if any rank would receive more rows than its capacity; all ranks have the
    same counts, so all of them raise.
    """
    ranks, experts, local = type.ranks.data, type.experts.data, type.local_experts
    sent = all_counts[:, 0, :].astype(np.int64)
    rows = sent.sum(axis=0).reshape(ranks, local).sum(axis=1)
    for receiver in np.flatnonzero(rows > type.rows.data):
        raise RouteError(
            f"rank {receiver}: expected at most {type.rows.data} rows to receive, the capacity, "
            f"found {rows[receiver]}"
        )
    # Stable, so rows for one expert keep the order of their tokens.
    sorted_pairs = np.argsort(ids.reshape(-1), kind="stable")
    position = np.empty(sorted_pairs.size, np.int64)
    position[sorted_pairs] = np.arange(sorted_pairs.size)
    own = slice(rank * local, (rank + 1) * local)
    per_expert = sent.sum(axis=0).reshape(ranks, local)
    expert_begin = (np.cumsum(per_expert, axis=1) - per_expert).reshape(experts)
    return RankRoute(
        rank,
        ranks,
        position=position.reshape(ids.shape),
        order=sorted_pairs,
        sent_begin=np.concatenate([[0], np.cumsum(sent[rank])]),
        dest_begin=expert_begin + sent[:rank].sum(axis=0),
        received_begin=np.concatenate([[0], np.cumsum(sent[:, own].T.reshape(-1))]),
        return_begin=all_counts[:, 1, own].T.reshape(-1).astype(np.int64),
    )
