"""Bounds of a result's rounding errors, derived from samples, and comparison of a run with them.

The samples are runs of the graph in float64 with random rounding errors
(`hpmoe_ir.interpreter.float64`). docs/tolerance.md describes the method and its confidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.interpreter.float64 import FUNCTION_ERROR

SAMPLES = 32
"""Samples from which bounds are made."""

HELD_OUT = 8
"""Samples that must be within the bounds of the others, or nothing is judged."""

SPREAD = 12.0
"""Bound of an error, in root mean squares of the samples. Student's t with 32 degrees of freedom
exceeds 12 with a probability of 2e-13; errors behind a kink have heavier tails."""

WHOLE_SPREAD = 8.0
"""As `SPREAD`, of the two numbers that describe a result as a whole; exceeded with a probability of
4e-9."""

PILOTS = 8
"""Samples that weigh the elements in the estimate of a scale; they count as samples as well."""

POOLED = 0.25
"""Share of the row's mean square in that of an element: no element has less than half of its row's
root mean square, since 32 samples may miss what happens to it rarely, as at the kink of a ReLU."""

MARGIN = 1.25
"""Factor of the mean norm, for what the model of the errors leaves out."""

Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]


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


@dataclass(frozen=True)
class _Statistics:
    """What is bounded of the errors of one result, by rank."""

    element: list[Float64Array]
    """Absolute errors."""
    row: list[Float64Array]
    """Euclidean norm of the errors of each row (the last axis)."""
    row_scale: list[Float64Array]
    """Component of each row's error along the exact row."""
    norm: float
    """Euclidean norm of all errors."""
    scale: float
    """Estimate of the relative error that all elements have in common."""


@dataclass(frozen=True)
class ResultBounds:
    """The exact values of one result and the bounds of a run's errors."""

    name: str
    """What the result is, for messages."""
    exact: list[Float64Array]
    """Values by rank; infinite or NaN where a run's values must be so."""
    element: list[Float64Array]
    """Largest absolute error; infinite where overflow depends on rounding or order."""
    row: list[Float64Array]
    row_scale: list[Float64Array]
    norm: float
    scale: float
    weights: list[Float64Array]
    """Weights of the errors in the estimate of a common relative error: the exact values over the
    variances of their errors, so that elements known best count most."""
    reason: str = ""
    """Why the bounds say nothing about a run; empty if they do."""

    def against(self, reference: Sequence[Numbers]) -> ResultBounds:
        """Returns the same bounds around another exact result, where that is finite."""
        exact = [
            np.where(np.isfinite(own), other.astype(np.float64), own)
            for own, other in zip(self.exact, reference, strict=True)
        ]
        return replace(self, exact=exact)


class _Collected:
    """Sums over the samples of one result."""

    def __init__(self, exact: Sequence[Float64Array], pilots: Sequence[Sequence[Numbers]]) -> None:
        self.exact = list(exact)
        self.weights = _weights(exact, pilots)
        self.element = [np.zeros(a.shape) for a in exact]
        self.unstable = [np.zeros(a.shape, bool) for a in exact]
        self.rows: list[list[Float64Array]] = []
        self.row_scales: list[list[Float64Array]] = []
        self.norms: list[float] = []
        self.scales: list[float] = []

    def add(self, sample: Sequence[Numbers]) -> None:
        errors: list[Float64Array] = []
        for found, exact, unstable in zip(sample, self.exact, self.unstable, strict=True):
            error = signed_error(found, exact)
            unstable |= ~np.isfinite(error)
            errors.append(np.where(unstable, 0.0, error))
        seen = _statistics(errors, self.exact, self.weights)
        for total, own in zip(self.element, seen.element, strict=True):
            total += own**2
        self.rows.append(seen.row)
        self.row_scales.append(seen.row_scale)
        self.norms.append(seen.norm)
        self.scales.append(seen.scale)

    def bounds(self, name: str) -> ResultBounds:
        element: list[Float64Array] = []
        for total, unstable in zip(self.element, self.unstable, strict=True):
            square = _pooled(total / len(self.norms))
            element.append(np.where(unstable, np.inf, SPREAD * np.sqrt(square)))
        lengths = [np.sqrt((_finite(a) ** 2).sum(axis=-1)) for a in self.exact]
        size = float(np.sqrt(sum((length**2).sum() for length in lengths)))
        functions = FUNCTION_ERROR * (float(max(self.norms, default=0.0)) > 0)
        return ResultBounds(
            name,
            self.exact,
            element,
            [_norm_bound(np.stack(r)) for r in zip(*self.rows, strict=True)],
            [
                SPREAD * _rms(np.stack(r)) + FUNCTION_ERROR * length * (_rms(np.stack(r)) > 0)
                for r, length in zip(zip(*self.row_scales, strict=True), lengths, strict=True)
            ],
            float(_norm_bound(np.array(self.norms), WHOLE_SPREAD)) + functions * size,
            float(WHOLE_SPREAD * _rms(np.array(self.scales))) + functions,
            self.weights,
        )


def _rms(samples: Float64Array) -> Float64Array:
    return np.sqrt((samples**2).mean(axis=0))


def _norm_bound(samples: Float64Array, spread: float = SPREAD) -> Float64Array:
    return MARGIN * _rms(samples) + spread * samples.std(axis=0, ddof=1)


def _pooled(square: Float64Array) -> Float64Array:
    """Returns mean squares of elements, drawn towards that of their row."""
    if square.size == 0:
        return square
    return (1 - POOLED) * square + POOLED * square.mean(axis=-1, keepdims=True)


def _weights(
    exact: Sequence[Float64Array], pilots: Sequence[Sequence[Numbers]]
) -> list[Float64Array]:
    found: list[Float64Array] = []
    total = 0.0
    for rank, own in enumerate(exact):
        errors = [_finite(signed_error(pilot[rank], own)) for pilot in pilots]
        square = _pooled(sum((e**2 for e in errors), np.zeros(own.shape)) / max(len(errors), 1))
        real = _finite(own)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.where(square > 0, real / square, 0.0)
        found.append(weight)
        total += float((weight * real).sum())
    return [weight / total for weight in found] if 0 < total < np.inf else [0 * w for w in found]


def _finite(array: Float64Array) -> Float64Array:
    return np.where(np.isfinite(array), array, 0.0)


def signed_error(found: Numbers, exact: Float64Array) -> Float64Array:
    """Returns found - exact; 0 where both are the same infinity or NaN, infinite where one is."""
    # Unwritten memory is filled with signalling NaN.
    with np.errstate(invalid="ignore"):
        real = found.astype(np.float64)
        error = real - exact
    same = (real == exact) | (np.isnan(real) & np.isnan(exact))
    return np.where(same, 0.0, np.where(np.isfinite(error), error, np.inf))


def _statistics(
    errors: Sequence[Float64Array],
    exact: Sequence[Float64Array],
    weights: Sequence[Float64Array],
) -> _Statistics:
    rows: list[Float64Array] = []
    scales: list[Float64Array] = []
    square, common = 0.0, 0.0
    for error, own, weight in zip(errors, exact, weights, strict=True):
        real = _finite(own)
        rows.append(np.sqrt((error**2).sum(axis=-1)))
        with np.errstate(invalid="ignore", divide="ignore"):
            product = (error * real).sum(axis=-1)
            length = np.sqrt((real**2).sum(axis=-1))
            scales.append(np.abs(np.where(length > 0, product / length, 0.0)))
        square += float((error**2).sum())
        with np.errstate(invalid="ignore"):
            common += float((error * weight).sum())
    return _Statistics(
        [np.abs(error) for error in errors],
        rows,
        scales,
        float(np.sqrt(square)),
        abs(common),
    )


ZEROS = 4.0
"""Least error of a result of zeros, in bounds, for which a result is judged.

The samples are of roundings that are independent of the value. Those of a run are not where values
are as small as a rounding, as of numbers that underflow: there all are rounded to zero, or none.
"""


def derive_bounds(
    names: Sequence[str],
    exact: Sequence[Sequence[Float64Array]],
    samples: Iterable[Sequence[Sequence[Numbers]]],
) -> list[ResultBounds]:
    """Derives the bounds of each result from `SAMPLES` samples, and tries them on `HELD_OUT` more.

    `exact[i][r]` is result i of rank r, called `names[i]`; `samples` yields at least
    `SAMPLES + HELD_OUT` results of the same form. `reason` of a result is set if a sample that was
    held out exceeds the bounds, or if a result of zeros would be off by less than `ZEROS` bounds.
    """
    source = iter(samples)
    pilots = list(islice(source, PILOTS))
    collected = [
        _Collected(result, [pilot[i] for pilot in pilots]) for i, result in enumerate(exact)
    ]
    for sample in (*pilots, *islice(source, SAMPLES - PILOTS)):
        for one, own in zip(collected, sample, strict=True):
            one.add(own)
    found = [one.bounds(name) for one, name in zip(collected, names, strict=True)]
    for sample in islice(source, HELD_OUT):
        for i, own in enumerate(sample):
            if not found[i].reason and not compare_result(own, found[i]).passed:
                reason = (
                    "rounding errors change it in jumps, as of an operation that is not continuous"
                )
                found[i] = replace(found[i], reason=reason)
    return [bounds if bounds.reason else _with_zeros(bounds) for bounds in found]


def _with_zeros(bounds: ResultBounds) -> ResultBounds:
    """Returns bounds that say why nothing is judged if they are too wide for that."""
    judged = [np.isfinite(e) for e in bounds.element]
    if any(a.size for a in bounds.exact) and not any(j.any() for j in judged):
        return replace(bounds, reason="every element may overflow")
    nonzero = any((a[j] != 0).any() for a, j in zip(bounds.exact, judged, strict=True))
    zeros = [np.zeros(a.shape) for a in bounds.exact]
    if nonzero and compare_result(zeros, bounds).largest_ratio < ZEROS:
        return replace(bounds, reason="rounding errors may be as large as the result itself")
    return bounds


@dataclass(frozen=True)
class _Worst:
    ratio: float
    text: str


def compare_result(found: Sequence[Numbers], bounds: ResultBounds) -> Comparison:
    """Compares a result, `found[r]` of each rank, with its exact values.

    Raises ValueError for an array of another shape.
    """
    errors: list[Float64Array] = []
    for rank, (own, exact, bound) in enumerate(
        zip(found, bounds.exact, bounds.element, strict=True)
    ):
        if own.shape != exact.shape:
            raise ValueError(
                f"rank {rank}: expected {bounds.name} of {exact.shape}, found {own.shape}"
            )
        error = signed_error(own, exact)
        errors.append(np.where(np.isfinite(bound), error, 0.0))
    with np.errstate(invalid="ignore"):
        seen = _statistics(errors, bounds.exact, bounds.weights)
    worst = [_element(found, bounds, seen), *_rows(bounds, seen), *_whole(bounds, seen)]
    ratio = max(w.ratio for w in worst)
    # An element says where the fault is, a row more than the whole.
    most = next((w for w in worst if w.ratio > 1.0), max(worst, key=lambda w: w.ratio))
    largest = max((float(e.max()) for e in seen.element if e.size), default=0.0)
    elements = sum(e.size for e in errors)
    return Comparison(ratio <= 1.0, largest, ratio, elements, most.text)


def _ratios(errors: Numbers, bounds: Numbers) -> Float64Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(errors == 0, 0.0, errors / bounds)
    return np.where(np.isnan(found), np.inf, found)


def _element(found: Sequence[Numbers], bounds: ResultBounds, seen: _Statistics) -> _Worst:
    worst = _Worst(0.0, "")
    for rank, (errors, own) in enumerate(zip(seen.element, bounds.element, strict=True)):
        if errors.size == 0:
            continue
        ratios = _ratios(errors, own)
        at = np.unravel_index(int(ratios.argmax()), ratios.shape)
        if ratios[at] > worst.ratio:
            text = (
                f"rank {rank}, {bounds.name}{_place(at)}: expected {bounds.exact[rank][at]:.6g}, "
                f"found {found[rank][at]:.6g}"
            )
            worst = _Worst(float(ratios[at]), text)
    return worst


def _rows(bounds: ResultBounds, seen: _Statistics) -> list[_Worst]:
    worst: list[_Worst] = []
    for what, errors, limits in (
        ("the norm of its error is", seen.row, bounds.row),
        ("its error along the exact row is", seen.row_scale, bounds.row_scale),
    ):
        for rank, (error, limit) in enumerate(zip(errors, limits, strict=True)):
            if error.size == 0:
                continue
            ratios = _ratios(error, limit)
            at = np.unravel_index(int(ratios.argmax()), ratios.shape)
            text = (
                f"rank {rank}, row {_place(at)} of {bounds.name}: {what} {error[at]:.3g}, expected "
                f"at most {limit[at]:.3g}"
            )
            worst.append(_Worst(float(ratios[at]), text))
    return worst


def _whole(bounds: ResultBounds, seen: _Statistics) -> list[_Worst]:
    return [
        _Worst(
            float(_ratios(np.array(error), np.array(limit))),
            f"{bounds.name} as a whole: {what} {error:.3g}, expected at most {limit:.3g}",
        )
        for what, error, limit in (
            ("the norm of the error is", seen.norm, bounds.norm),
            ("the relative error common to its elements is", seen.scale, bounds.scale),
        )
    ]


def _place(at: Sequence[Any]) -> str:
    return f"[{', '.join(str(int(i)) for i in at)}]"
