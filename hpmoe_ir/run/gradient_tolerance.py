"""Error bounds of gradients, and comparison of gradients with a reference.

As for the output (`hpmoe_ir.run.tolerance`), the roundings of a run are modelled as independent
errors, each propagated by the derivatives of the operations after it. docs/tolerance.md has the
derivation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dtypes import AnyFloats, Float64Array
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.values import LayerValues, all_tokens
from hpmoe_ir.run.oracle import GRADIENTS, expert_rows, silu
from hpmoe_ir.run.tolerance import (
    FLOAT32,
    FUNCTION_ERROR,
    SPREAD,
    Comparison,
    expert_errors,
    rounding,
    sum_error,
)

CURVATURE = 0.5
"""Largest second derivative of silu, at 0."""


@dataclass(frozen=True)
class _ExpertGradients:
    """Gradients of one expert in float64, and the sums of squares of a run's errors.

    The field `squares_dx` belongs to `dx`, and so on.
    """

    dx: Float64Array
    squares_dx: Float64Array
    squares_dgate: Float64Array
    dw13: Float64Array
    squares_dw13: Float64Array
    dw2: Float64Array
    squares_dw2: Float64Array


def gradient_tolerance(
    values: LayerValues, *, rounded_weights: bool = False
) -> list[dict[str, Float64Array]]:
    """Returns bounds on |run - reference| for each rank: an array of each gradient's shape.

    The run rounds rows between operators to the layer's element type and accumulates in float32.
    `rounded_weights`: it also rounds the gradients of weights to the layer's type.
    """
    config = values.config
    x = all_tokens(values.x, config.dtype).astype(np.float64)
    dout = all_tokens(values.dout, config.dtype).astype(np.float64)
    ids = np.concatenate([rank.ids for rank in values.routing])
    gates = np.concatenate([rank.gates for rank in values.routing]).astype(np.float64)
    w13 = all_tokens(values.w13, config.dtype).astype(np.float64)
    w2 = all_tokens(values.w2, config.dtype).astype(np.float64)
    dx, squares_dx = (np.zeros((ids.size, config.hidden)) for _ in range(2))
    squares_dgate = np.zeros(ids.size)
    bounds_w13 = np.zeros(w13.shape)
    bounds_w2 = np.zeros(w2.shape)
    for expert, pairs in enumerate(expert_rows(config, ids)):
        if pairs.size == 0:
            continue
        token = pairs // config.top_k
        g = _expert(
            x[token], dout[token], gates.reshape(-1)[pairs], w13[expert], w2[expert], config
        )
        dx[pairs], squares_dx[pairs] = g.dx, g.squares_dx
        squares_dgate[pairs] = g.squares_dgate
        bounds_w13[expert] = SPREAD * np.sqrt(g.squares_dw13)
        bounds_w2[expert] = SPREAD * np.sqrt(g.squares_dw2)
        if rounded_weights:
            bounds_w13[expert] += rounding(np.abs(g.dw13) + bounds_w13[expert], config.dtype)
            bounds_w2[expert] += rounding(np.abs(g.dw2) + bounds_w2[expert], config.dtype)
    shape = (*ids.shape, config.hidden)
    copies = dx.reshape(shape)
    squares = squares_dx.reshape(shape).sum(axis=1)
    squares += 2 * config.top_k * (2 * FLOAT32 * np.abs(copies).sum(axis=1)) ** 2
    bound_x = SPREAD * np.sqrt(squares)
    bound_x += rounding(np.abs(copies.sum(axis=1)) + bound_x, config.dtype)
    bound_gate = SPREAD * np.sqrt(squares_dgate.reshape(ids.shape))
    ends = np.cumsum(values.tokens)[:-1]
    by_rank = (
        np.split(bound_x, ends),
        np.split(bound_gate, ends),
        np.split(bounds_w13, config.ranks),
        np.split(bounds_w2, config.ranks),
    )
    return [dict(zip(GRADIENTS, rank, strict=True)) for rank in zip(*by_rank, strict=True)]


def _slopes(gate: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Returns silu(gate) and its derivative."""
    s = silu(gate)
    sigmoid = 0.5 * (1.0 + np.tanh(0.5 * gate))
    return s, sigmoid + s * (1.0 - sigmoid)


def _expert(
    x: Float64Array,
    dout: Float64Array,
    gates: Float64Array,
    w13: Float64Array,
    w2: Float64Array,
    config: LayerConfig,
) -> _ExpertGradients:
    """Computes the gradients of one expert with n rows, and their errors.

    x [n, H], dout [n, H], gates [n], w13 [H, 2I], w2 [I, H].
    """
    dtype, width = config.dtype, config.width
    forward = expert_errors(x, w13, w2, config)
    gate, up = forward.h[:, :width], forward.h[:, width:]
    error_gate = np.sqrt(forward.squares_h[:, :width])
    error_up = np.sqrt(forward.squares_h[:, width:])
    s, slope = _slopes(gate)
    dy = gates[:, None] * dout
    squares_dy = rounding(np.abs(dy), dtype) ** 2
    da = dy @ w2.T
    squares_da = squares_dy @ (w2 * w2).T + rounding(np.abs(da), dtype) ** 2
    squares_da += sum_error(dy, w2.T) ** 2
    error_da = np.sqrt(squares_da)
    # First-order errors of a product; the other factors are bounded by their largest values.
    steep = np.abs(slope) + CURVATURE * error_gate
    wide, tall = np.abs(da) + error_da, np.abs(up) + error_up
    dgate_half, dup_half = da * up * slope, da * s
    squares_gate_half = (
        (error_da * tall * steep) ** 2
        + (wide * steep * error_up) ** 2
        + (wide * tall * CURVATURE * error_gate) ** 2
        + rounding(np.abs(dgate_half), dtype) ** 2
        + (2 * FUNCTION_ERROR * wide * tall) ** 2
    )
    squares_up_half = (
        (error_da * (np.abs(s) + steep * error_gate)) ** 2
        + (wide * steep * error_gate) ** 2
        + rounding(np.abs(dup_half), dtype) ** 2
        + (2 * FUNCTION_ERROR * dup_half) ** 2
    )
    dh = np.concatenate([dgate_half, dup_half], axis=1)
    squares_dh = np.concatenate([squares_gate_half, squares_up_half], axis=1)
    dx = dh @ w13.T
    squares_dx = squares_dh @ (w13 * w13).T + rounding(np.abs(dx), dtype) ** 2
    squares_dx += sum_error(dh, w13.T) ** 2
    # An error of `a` affects all columns of y.
    along = dout @ w2.T
    squares_dgate = (forward.squares_a * along**2).sum(axis=1)
    own = rounding(np.abs(forward.y), dtype) ** 2 + sum_error(forward.a, w2) ** 2
    squares_dgate += (own * dout**2).sum(axis=1)
    norms = np.linalg.norm(forward.y, axis=1) * np.linalg.norm(dout, axis=1)
    squares_dgate += 2 * config.hidden * (FLOAT32 * norms) ** 2
    squares_dw2 = forward.squares_a.T @ dy**2 + (forward.a**2 + forward.squares_a).T @ squares_dy
    squares_dw2 += sum_error(forward.a.T, dy) ** 2
    squares_dw13 = (x * x).T @ squares_dh + sum_error(x.T, dh) ** 2
    return _ExpertGradients(
        dx,
        squares_dx,
        squares_dgate,
        x.T @ dh,
        squares_dw13,
        forward.a.T @ dy,
        squares_dw2,
    )


def compare_gradients(
    found: Sequence[Mapping[str, AnyFloats]],
    reference: Sequence[Mapping[str, AnyFloats]],
    bounds: Sequence[Mapping[str, Float64Array]],
) -> Comparison:
    """Compares the gradients of all ranks with the reference, element by element.

    Where a bound is 0, as for an expert without tokens, the gradient must match exactly. Raises
    ValueError for a gradient of another shape.
    """
    largest, ratio, elements, worst = 0.0, 0.0, 0, ""
    for rank, (ours, exact, bound) in enumerate(zip(found, reference, bounds, strict=True)):
        for name in GRADIENTS:
            # Unwritten memory is filled with signalling NaN.
            with np.errstate(invalid="ignore"):
                a, b = ours[name].astype(np.float64), exact[name].astype(np.float64)
            if a.shape != b.shape:
                raise ValueError(f"rank {rank}: expected {name} of {b.shape}, found {a.shape}")
            elements += a.size
            if a.size == 0:
                continue
            error = np.abs(a - b)
            error[~np.isfinite(error)] = np.inf
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.where(error == 0, 0.0, error / bound[name])
            largest = max(largest, float(error.max()))
            if float(ratios.max()) > ratio or not worst:
                at = np.unravel_index(int(ratios.argmax()), a.shape)
                ratio = max(ratio, float(ratios.max()))
                place = ", ".join(str(int(i)) for i in at)
                worst = f"rank {rank}, {name}[{place}]: expected {b[at]:.6g}, found {a[at]:.6g}"
    return Comparison(ratio <= 1.0, largest, ratio, elements, worst)
