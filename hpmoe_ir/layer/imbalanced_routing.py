"""The routing `imbalance:X`: one rank receives X times the mean number of rows of a rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpmoe_ir.layer.config import LayerConfig


def most_imbalance(config: LayerConfig) -> float:
    """Returns the largest X: every token picks as many experts of one rank as it can."""
    return config.ranks * min(config.top_k, config.local_experts) / config.top_k


def imbalanced_ids(
    rng: np.random.Generator,
    shuffled: np.ndarray[Any, Any],
    first: int,
    count: int,
    config: LayerConfig,
    imbalance: float,
) -> np.ndarray[Any, Any]:
    """Experts of the tokens `first` to `first + count` of all ranks, [count, top_k].

    The hot rank is that of the first of the `shuffled` experts. Of a token's K experts
    imbalance * K / ranks are there, rounded so that the sum over all tokens before is right to less
    than one; its experts are dealt out in turn, and so are those of all other ranks.
    """
    rank = shuffled // config.local_experts
    hot, cold = shuffled[rank == rank[0]], shuffled[rank != rank[0]]
    each = imbalance * config.top_k / config.ranks
    # The small amount keeps a product that should be whole from falling below it.
    before = np.floor(np.arange(first, first + count + 1) * each + 1e-9).astype(np.int64)[:, None]
    places = np.arange(config.top_k)
    taken = np.diff(before, axis=0)
    tokens = np.arange(first, first + count)[:, None]
    others = tokens * config.top_k - before[:-1] + places - taken
    ids = hot[(before[:-1] + places) % len(hot)]
    if len(cold):
        ids = np.where(places < taken, ids, cold[others % len(cold)])
    return rng.permuted(ids, axis=1)
