"""The routing `imbalance:X`: one rank receives X times the mean number of rows of a rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpmoe_ir.layer.config import LayerConfig


def max_imbalance(config: LayerConfig) -> float:
    """Returns the largest possible X: all tokens choose as many experts of one rank as possible."""
    return config.ranks * min(config.top_k, config.local_experts) / config.top_k


def imbalanced_ids(
    rng: np.random.Generator,
    shuffled: np.ndarray[Any, Any],
    first: int,
    count: int,
    config: LayerConfig,
    imbalance: float,
) -> np.ndarray[Any, Any]:
    """Returns the experts of `count` tokens from number `first` of all ranks, [count, top_k].

    The hot rank is that of the first of the `shuffled` experts. A token has imbalance * K / ranks
    of its K experts there on average: the sum over all tokens so far is this mean rounded down.
    The hot rank's experts are assigned round robin, and so are those of the other ranks.
    """
    rank = shuffled // config.local_experts
    hot, cold = shuffled[rank == rank[0]], shuffled[rank != rank[0]]
    each = imbalance * config.top_k / config.ranks
    # 1e-9 keeps rounding from taking a whole product below its integer.
    before = np.floor(np.arange(first, first + count + 1) * each + 1e-9).astype(np.int64)[:, None]
    places = np.arange(config.top_k)
    taken = np.diff(before, axis=0)
    tokens = np.arange(first, first + count)[:, None]
    others = tokens * config.top_k - before[:-1] + places - taken
    ids = hot[(before[:-1] + places) % len(hot)]
    if len(cold):
        ids = np.where(places < taken, ids, cold[others % len(cold)])
    return rng.permuted(ids, axis=1)
