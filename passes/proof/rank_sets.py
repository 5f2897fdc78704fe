"""Sets of ranks as bit sets."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.passes.proof.tasks import QueueTasks, TaskArray

RankSets: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
"""[n, words] n sets of ranks as bit sets."""


WORD_BITS = 64
"""Bits of a word of `RankSets`."""


def bit_words(ranks: int) -> int:
    """Returns the number of words of a set of ranks."""
    return ceil_div(ranks, WORD_BITS)


def rank_bits(tasks: QueueTasks, numbers: TaskArray) -> RankSets:
    """Returns [n, words]: for each task, the set with only its own rank."""
    rank = numbers // tasks.per_rank
    bits = np.zeros((numbers.size, bit_words(tasks.ranks)), dtype=np.uint64)
    bit = np.uint64(1) << (rank % WORD_BITS).astype(np.uint64)
    bits[np.arange(numbers.size), rank // WORD_BITS] = bit
    return bits


def has_rank(sets: RankSets, rank: IntArray) -> BoolArray:
    """Returns [n]: whether `sets[i]` contains `rank[i]`."""
    word = sets[np.arange(rank.size), rank // WORD_BITS]
    return (word >> (rank % WORD_BITS).astype(np.uint64)) & np.uint64(1) != 0
