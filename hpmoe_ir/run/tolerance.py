"""Error bounds of a layer's output, and comparison of outputs with a reference.

The bound models each rounding of a run; docs/tolerance.md has the derivation. It is computed for
each element from the operands: rounding errors within a few standard deviations pass, a missing
row, expert or tile does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpmoe_ir.dtypes import (
    AnyFloats,
    Dtype,
    Float32Array,
    Float64Array,
    underflow_error,
    unit_roundoff,
)
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.values import LayerValues, all_tokens
from hpmoe_ir.run.oracle import expert_rows, silu

SPREAD = 4.0
"""Bound of a sum of independent roundings, relative to the root sum of squares of their maxima."""

ROW_SPREAD = 2.0
"""As `SPREAD`, for the Euclidean norm of the error of a row."""

FLOAT32 = 2.0**-24
"""Unit roundoff of float32."""

FUNCTION_ERROR = 16 * FLOAT32
"""Relative error of swiglu in float32: exp, division, two products, with a margin for the device's
approximations (exp and division within 4 units in the last place each)."""

SILU_SLOPE = 1.1
"""Largest slope of silu (1.0998 at g = 2.4)."""


@dataclass(frozen=True)
class RankBound:
    """Error bounds of one rank's output."""

    element: Float64Array
    """[t, H]: largest absolute error of each element."""
    row: Float64Array
    """[t]: largest Euclidean norm of the error of each row."""


@dataclass(frozen=True)
class Comparison:
    """The result of comparing a run with its reference."""

    passed: bool
    largest_error: float
    """Largest absolute error; infinite if an error is not finite."""
    largest_ratio: float
    """Largest error relative to its bound; at most 1 if the run passed."""
    elements: int
    """Number of elements compared."""
    worst: str
    """Description of the element with the largest ratio; empty if there are no elements."""

    def __str__(self) -> str:
        verdict = "within" if self.passed else "outside"
        return (
            f"largest error {self.largest_error:.3g}, {self.largest_ratio:.2f} of the tolerance "
            f"({verdict}){'; ' + self.worst if self.worst and not self.passed else ''}"
        )


def tolerance(values: LayerValues) -> list[RankBound]:
    """Returns bounds on |run - reference| for each rank, computed from the inputs of the run.

    The run rounds h, a, y and the output to the layer's element type and accumulates in float32;
    the reference uses float32 or better throughout.
    """
    config = values.config
    x = all_tokens(values.x, config.dtype).astype(np.float64)
    ids = np.concatenate([rank.ids for rank in values.routing])
    gates = np.concatenate([rank.gates for rank in values.routing]).astype(np.float64)
    w13 = all_tokens(values.w13, config.dtype)
    w2 = all_tokens(values.w2, config.dtype)
    copies = np.zeros((ids.size, config.hidden))
    squares = np.zeros((ids.size, config.hidden))
    for expert, pairs in enumerate(expert_rows(config, ids)):
        if pairs.size:
            errors = expert_errors(
                x[pairs // config.top_k],
                w13[expert].astype(np.float64),
                w2[expert].astype(np.float64),
                config,
            )
            copies[pairs], squares[pairs] = errors.y, errors.squares_y
    shape = (*ids.shape, config.hidden)
    y, s = copies.reshape(shape), squares.reshape(shape)
    weighted = y * gates[:, :, None]
    out = weighted.sum(axis=1)
    magnitude = np.abs(weighted).sum(axis=1)
    s = (s * gates[:, :, None] ** 2).sum(axis=1)
    s += 2 * config.top_k * (2 * FLOAT32 * magnitude) ** 2
    element = SPREAD * np.sqrt(s)
    final = rounding(np.abs(out) + element, config.dtype)
    element += final
    row = ROW_SPREAD * np.sqrt((s + final**2).sum(axis=1))
    ends = np.cumsum(values.tokens)[:-1]
    return [
        RankBound(e, r) for e, r in zip(np.split(element, ends), np.split(row, ends), strict=True)
    ]


def rounding(magnitude: Float64Array, dtype: Dtype) -> Float64Array:
    """Returns the largest error of rounding a number of at most `magnitude` to `dtype`."""
    return unit_roundoff(dtype) * magnitude + underflow_error(dtype)


@dataclass(frozen=True)
class ExpertErrors:
    """Intermediate and final values of one expert in float64, and squared errors of a run.

    h [n, 2I], a [n, I], y [n, H]; the `squares_` arrays have the same shapes.
    """

    h: Float64Array
    squares_h: Float64Array
    a: Float64Array
    squares_a: Float64Array
    y: Float64Array
    squares_y: Float64Array


def expert_errors(
    x: Float64Array, w13: Float64Array, w2: Float64Array, config: LayerConfig
) -> ExpertErrors:
    """Computes one expert with x [n, H], w13 [H, 2I], w2 [I, H], and its errors."""
    width = config.width
    h = x @ w13
    squares_h = rounding(np.abs(h), config.dtype) ** 2 + sum_error(x, w13) ** 2
    gate, up = h[:, :width], h[:, width:]
    error_gate, error_up = np.sqrt(squares_h[:, :width]), np.sqrt(squares_h[:, width:])
    s = silu(gate)
    a = s * up
    sigmoid = 0.5 * (1.0 + np.tanh(0.5 * gate))
    # The slope may be small at the exact value but not at the rounded one: silu's second
    # derivative, at most 0.5, bounds the difference.
    slope = np.minimum(np.abs(sigmoid + s * (1.0 - sigmoid)) + 0.5 * error_gate, SILU_SLOPE)
    squares_a = (
        (slope * error_gate * (np.abs(up) + error_up)) ** 2
        + (s * error_up) ** 2
        + rounding(np.abs(a), config.dtype) ** 2
        + (2 * FUNCTION_ERROR * a) ** 2
    )
    y = a @ w2
    squares_y = (
        squares_a @ (w2 * w2) + rounding(np.abs(y), config.dtype) ** 2 + sum_error(a, w2) ** 2
    )
    return ExpertErrors(h, squares_h, a, squares_a, y, squares_y)


def sum_error(lhs: Float64Array, rhs: Float64Array) -> Float64Array:
    """Returns the root sum of squares of float32 roundings of lhs @ rhs in run and reference.

    The error of each of the n additions is at most a unit roundoff of a partial sum, which is at
    most |lhs| |rhs| by the Cauchy-Schwarz inequality, in any order of summation.
    """
    terms = lhs.shape[1]
    norms = np.linalg.norm(lhs, axis=1)[:, None] * np.linalg.norm(rhs, axis=0)[None, :]
    return np.sqrt(2.0 * terms) * FLOAT32 * norms


def compare(
    outputs: Sequence[AnyFloats],
    reference: Sequence[Float32Array | Float64Array],
    bounds: Sequence[RankBound],
) -> Comparison:
    """Compares the outputs of all ranks, [t_r, H] each, with the reference.

    Raises ValueError for an output of another shape.
    """
    largest, ratio, elements, worst, passed = 0.0, 0.0, 0, "", True
    for rank, (out, exact, bound) in enumerate(zip(outputs, reference, bounds, strict=True)):
        if out.shape != exact.shape:
            raise ValueError(f"rank {rank}: expected output {exact.shape}, found {out.shape}")
        elements += out.size
        if out.size == 0:
            continue
        # Unwritten memory is filled with signalling NaN.
        with np.errstate(invalid="ignore"):
            error = np.abs(out.astype(np.float64) - exact.astype(np.float64))
        error[~np.isfinite(error)] = np.inf
        ratios = error / bound.element
        rows = np.sqrt((error**2).sum(axis=1)) / bound.row
        passed &= bool(ratios.max() <= 1.0 and rows.max() <= 1.0)
        largest = max(largest, float(error.max()))
        here = max(float(ratios.max()), float(rows.max()))
        if here > ratio or not worst:
            ratio = max(ratio, here)
            worst = _describe(rank, out, exact, ratios, rows)
    return Comparison(passed, largest, ratio, elements, worst)


def _describe(
    rank: int,
    out: np.ndarray[Any, Any],
    exact: np.ndarray[Any, Any],
    ratios: Float64Array,
    rows: Float64Array,
) -> str:
    by_row = rows.max() > ratios.max()
    token = int(rows.argmax()) if by_row else int(ratios.max(axis=1).argmax())
    column = int(ratios[token].argmax())
    what = "row as a whole, worst at column" if by_row else "column"
    return (
        f"rank {rank}, token {token}, {what} {column}: expected {exact[token, column]:.6g}, "
        f"found {out[token, column]:.6g}"
    )
