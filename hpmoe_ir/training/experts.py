"""The experts of one module as functions on NumPy arrays, for any framework.

A framework's module passes float32 arrays in its own layouts: rows of all ranks that the process
holds one after another, and `weight1` and `weight2` of their experts. What the forward direction
saves is returned as arrays too, so that the framework owns it: any number of forward calls may wait
for their backward calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dtypes import Float32Array, from_bits
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RankRouting
from hpmoe_ir.training.arrays import RankAccumulators, RankInput, Raw
from hpmoe_ir.training.launch import Launcher
from hpmoe_ir.training.weights import (
    kernel_gradient1,
    kernel_gradient2,
    kernel_rows,
    kernel_w2,
    kernel_w13,
    module_gradient1,
    module_gradient2,
)

Ids: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True)
class ModuleInput:
    """Inputs of a call, for the ranks held one after another.

    `x` [m, H], `ids` and `gates` [m, K]; `weight1` [held * L * H, 2 I], `weight2`
    [held * L * I, H]; `counts` [held] says how many rows each rank has. Rows after the last rank's
    are not used: what is returned for them is 0.
    """

    x: Float32Array
    ids: Ids
    gates: Float32Array
    weight1: Float32Array
    weight2: Float32Array
    counts: Ids


class TokenCountError(ValueError):
    """More tokens of a rank than the kernels are made for."""


class ModuleExperts:
    """The experts of a module, on a launcher that other modules of the same layer may share."""

    def __init__(self, config: LayerConfig, launcher: Launcher) -> None:
        """`config` has the sizes of the module; those of the kernels may be padded."""
        self.config = config
        self.launcher = launcher

    def forward(self, given: ModuleInput) -> tuple[Float32Array, list[Raw]]:
        """Returns the output [m, H], and each saved array [held, rows, ...] as raw memory."""
        found = self.launcher.forward(self._inputs(given, self._counts(given)))
        rows = [self._rows(own.out) for own in found]
        saved = [np.stack(arrays) for arrays in zip(*(own.saved for own in found), strict=True)]
        return _joined(rows, given.x), saved

    def backward(
        self,
        given: ModuleInput,
        saved: Sequence[Raw],
        dout: Float32Array,
        accumulators: tuple[Float32Array, Float32Array] | None = None,
    ) -> tuple[Float32Array, Float32Array, Float32Array, Float32Array]:
        """Returns the gradients of x, gates, weight1 and weight2 from that of the output [m, H].

        `accumulators`, in the layouts of the weights, are what kernels that accumulate add the
        gradients of the weights to; the sums are returned.
        """
        counts = self._counts(given)
        sums = None
        if accumulators is not None:
            held, config = self.launcher.held, self.config
            first = np.split(kernel_gradient1(accumulators[0], config), held)
            second = np.split(kernel_gradient2(accumulators[1], config), held)
            sums = [RankAccumulators(a, b) for a, b in zip(first, second, strict=True)]
        found = self.launcher.backward(
            self._inputs(given, counts),
            [tuple(array[rank] for array in saved) for rank in range(len(counts))],
            [kernel_rows(part, self.config) for part in _parts(dout, counts)],
            sums,
        )
        return (
            _joined([self._rows(own.dx) for own in found], given.x),
            _joined([own.dgate for own in found], given.gates),
            module_gradient1(np.concatenate([own.dw13 for own in found]), self.config),
            module_gradient2(np.concatenate([own.dw2 for own in found]), self.config),
        )

    def _counts(self, given: ModuleInput) -> list[int]:
        try:
            return rank_counts(given.counts, len(given.x), self.config.tokens)
        except TokenCountError as e:
            self.launcher.refuse(str(e))
            raise

    def _inputs(self, given: ModuleInput, counts: Sequence[int]) -> list[RankInput]:
        config, held = self.config, self.launcher.held
        w13 = np.split(kernel_w13(given.weight1, config), held)
        w2 = np.split(kernel_w2(given.weight2, config), held)
        x, ids, gates = (_parts(a, counts) for a in (given.x, given.ids, given.gates))
        return [
            RankInput(kernel_rows(x[r], config), RankRouting(ids[r], gates[r]), w13[r], w2[r])
            for r in range(held)
        ]

    def _rows(self, rows: Raw) -> Float32Array:
        return from_bits(rows, self.config.dtype)[:, : self.config.hidden]


def rank_counts(counts: Ids, rows: int, largest: int) -> list[int]:
    """Returns the number of tokens of each rank held.

    Negative counts stand for equal parts of all rows, the first ranks having one more if they
    don't divide. Raises TokenCountError for more rows than there are, or than `largest` for a rank.
    """
    found: list[int] = [int(count) for count in counts]
    if found and min(found) < 0:
        each, rest = divmod(rows, len(found))
        found = [each + (rank < rest) for rank in range(len(found))]
    if sum(found) > rows:
        raise TokenCountError(f"expected at most the {rows} rows of x, found counts {found}")
    for rank, count in enumerate(found):
        if count > largest:
            raise TokenCountError(
                f"rank {rank}: expected at most {largest} tokens, for which the kernels are made, "
                f"found {count}"
            )
    return found


def _parts(rows: Raw, counts: Sequence[int]) -> list[Raw]:
    ends = np.cumsum(counts)
    return [rows[end - count : end] for end, count in zip(ends, counts, strict=True)]


def _joined(parts: Sequence[Float32Array], like: Float32Array) -> Float32Array:
    """Returns the parts one after another, and zeros up to the shape of `like`."""
    result = np.zeros(like.shape, np.float32)
    rows = np.concatenate(list(parts))
    result[: len(rows)] = rows
    return result
