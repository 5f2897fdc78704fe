"""Inputs and results of a launch on one rank, as raw memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dtypes import Float32Array, RawArray
from hpmoe_ir.layer.routing import RankRouting

Raw: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class RankInput:
    """Inputs of one rank: n tokens of the sizes of the kernels, and the weights of its experts.

    `x` [n, H], `w13` [L, H, 2 I] and `w2` [L, I, H] are raw memory of the kernels' element type;
    `routing` has the experts and the router weights of each token, [n, K].
    """

    x: RawArray
    routing: RankRouting
    w13: RawArray
    w2: RawArray


@dataclass(frozen=True)
class RankOutput:
    """Results of the forward kernel on one rank."""

    out: RawArray
    """The output [n, H], raw memory of the kernels' element type."""
    saved: tuple[Raw, ...]
    """What the backward kernel needs, `[rows of the capacity, ...]`, in the kernels' order."""


@dataclass(frozen=True)
class RankGradients:
    """Results of the backward kernel on one rank."""

    dx: RawArray
    """Gradient of the tokens [n, H], raw memory of the kernels' element type."""
    dgate: Float32Array
    """Gradient of the router weights [n, K]."""
    dw13: Float32Array
    """Gradient of the first weights [L, H, 2 I], with what the accumulator had."""
    dw2: Float32Array
    """Gradient of the second weights [L, I, H], with what the accumulator had."""


@dataclass(frozen=True)
class RankAccumulators:
    """Gradients of weights to which the backward kernel adds its own."""

    dw13: Float32Array
    """[L, H, 2 I]."""
    dw2: Float32Array
    """[L, I, H]."""
