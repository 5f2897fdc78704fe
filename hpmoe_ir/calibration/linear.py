"""Robust linear least squares of times that are known to a part of their value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dtypes import Float64Array

ROUNDS = 30
HUBER = 1.345
"""Standard deviations beyond which a residual counts linearly instead of squared (Huber 1964)."""
MAD = 1.4826
"""Standard deviations in a median absolute deviation of a normal distribution."""
ROUNDING_US = 0.001 / 12**0.5
"""Standard deviation of the rounding of a time to three decimals, in us."""
OUTLIER = 4.0
"""Standard deviations beyond which a row is one of another kind."""


@dataclass(frozen=True)
class LinearFit:
    """Coefficients of a fit, with their standard errors."""

    values: Float64Array
    errors: Float64Array
    residual: float
    """Root mean square of the relative residuals of the rows without outliers."""
    rows: int
    """Rows without outliers."""


def robust_fit(factors: Float64Array, us: Float64Array) -> LinearFit | None:
    """Fits us[i] = sum of factors[i, j] * values[j], with relative errors beside the rounding.

    `factors` has shape [rows, coefficients], `us` [rows], positive. Iterates Huber's weights, then
    leaves outliers out. Returns None where the rows don't determine the coefficients.
    """
    count = factors.shape[1]
    used = np.isfinite(us) & (us > 0)
    factors, us = factors[used], us[used]
    if len(us) < count + 2:
        return None
    scale = np.maximum(np.abs(factors).max(axis=0), 1e-300)
    scaled = factors / scale / us[:, None]
    if np.linalg.matrix_rank(scaled, tol=1e-6 * float(np.abs(scaled).max())) < count:
        return None
    rounding = ROUNDING_US / us
    longest = us >= np.median(us)
    deviation, weights = rounding, np.ones(len(us))
    residuals = np.zeros(len(us))
    for _ in range(ROUNDS):
        residuals = _residuals(scaled, _solved(scaled, weights / deviation))
        # What rounding does not explain shows in the longest times.
        rest = MAD * float(np.median(np.abs(residuals[longest])))
        deviation = np.maximum(rest, rounding)
        weights = np.sqrt(np.minimum(1, HUBER * deviation / np.maximum(np.abs(residuals), 1e-300)))
    inliers = np.abs(residuals) <= OUTLIER * deviation
    kept, deviation = scaled[inliers], deviation[inliers]
    if len(kept) < count + 2 or np.linalg.matrix_rank(kept) < count:
        return None
    values = _solved(kept, 1 / deviation)
    residuals = _residuals(kept, values)
    weighted = kept / deviation[:, None]
    # At least the errors that were assumed, more if the residuals are larger.
    chi = float(np.sum((residuals / deviation) ** 2)) / (len(kept) - count)
    covariance = np.asarray(np.linalg.inv(np.dot(weighted.T, weighted)), dtype=np.float64)
    errors = np.sqrt(max(chi, 1.0) * covariance.diagonal())
    rms = float(np.sqrt(np.mean(residuals**2)))
    return LinearFit(values / scale, errors / scale, rms, len(kept))


def _residuals(factors: Float64Array, values: Float64Array) -> Float64Array:
    """Returns 1 - factors * values."""
    return np.asarray(1 - np.dot(factors, values), dtype=np.float64)


def _solved(factors: Float64Array, weights: Float64Array) -> Float64Array:
    """Returns the weighted solution of factors * values = 1."""
    return np.linalg.lstsq(factors * weights[:, None], weights, rcond=None)[0]
