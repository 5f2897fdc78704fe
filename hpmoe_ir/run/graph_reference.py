"""The float64 reference of a graph: exact results, bounds of a run, and a check of its gradients.

The gradients of a graph are those of its backward function, which `derive-backward` has made,
computed in float64 from the forward function in float64. `check_derivatives` compares them with
differences of the forward function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from hpmoe_ir.dialects.role import RoleKind
from hpmoe_ir.dtypes import from_bits
from hpmoe_ir.interpreter.float64 import Float64Function, Sample
from hpmoe_ir.interpreter.values import Array, PerRank
from hpmoe_ir.layer.values import LayerValues
from hpmoe_ir.run.directions import OUTPUT, backward_arguments, forward_arguments
from hpmoe_ir.run.signature import Signature
from hpmoe_ir.run.tolerance import HELD_OUT, SAMPLES, ResultBounds, derive_bounds

STEPS = (2.0**-26, 2.0**-18, 2.0**-10)
"""Steps of differences, relative to the root mean square of an argument, the first one first: the
smallest crosses the fewest kinks; larger ones are for operators that compute in float32."""

DERIVATIVE_ERROR = 1e-4
"""Largest difference of two derivatives along a direction, relative to the gradient's norm."""

DIRECTIONS = 2
"""Random directions for each argument."""


class NotDifferentiable(Exception):
    """Differences of the forward function do not converge."""


class WrongGradient(Exception):
    """The backward function is not the derivative of the forward function."""


@dataclass(frozen=True)
class GradientResult:
    """A result of the backward function that is a gradient."""

    index: int
    """Number of the result."""
    argument: int
    """Number of the argument of the forward function."""
    name: str
    """Its name in messages, such as `gradient of up_weights`."""


class GraphReference:
    """The functions of a `moe`-level module in float64."""

    def __init__(self, module: ModuleOp, forward: Signature, backward: Signature | None) -> None:
        self._functions = Float64Function(module)
        self._forward = forward
        self._backward = backward
        self._output = forward.result(OUTPUT)

    @property
    def gradients(self) -> list[GradientResult]:
        """The gradients among the results of the backward function, in order."""
        if self._backward is None:
            return []
        found: list[GradientResult] = []
        for i, role in enumerate(self._backward.results):
            if role is not None and role.kind is RoleKind.ARGUMENT_GRADIENT:
                assert role.number is not None
                of = self._forward.arguments[role.number]
                name = f"gradient of {of or f'argument {role.number}'}"
                found.append(GradientResult(i, role.number, name))
        return found

    def output_bounds(self, values: LayerValues, seed: int) -> ResultBounds:
        """Returns the bounds of the output. Raises InterpretationError, NotReproducible."""
        given = _by_argument(forward_arguments(self._forward, values))
        name = self._forward.name
        exact = self._functions.exact(name, given)[self._output]

        def samples() -> Iterator[list[PerRank]]:
            for sample in _samples(seed):
                yield [self._functions.sampled(name, given, sample)[self._output]]

        (bounds,) = derive_bounds(["output"], [exact], samples())
        return bounds

    def gradient_bounds(self, values: LayerValues, seed: int) -> list[ResultBounds]:
        """Returns the bounds of each of `gradients`, the errors of the forward function included.

        Raises InterpretationError, NotReproducible.
        """
        given = _by_argument(forward_arguments(self._forward, values))
        exact = self._both(values, given, None)

        def samples() -> Iterator[list[PerRank]]:
            for sample in _samples(seed):
                yield self._both(values, given, sample)

        return derive_bounds([g.name for g in self.gradients], exact, samples())

    def check_derivatives(self, values: LayerValues, seed: int) -> None:
        """Compares the gradients with differences of the forward function in float64.

        The derivative of the sum of output * dout along random directions of each argument is
        computed by both. Raises WrongGradient if they differ, NotDifferentiable if the differences
        do not converge.
        """
        given = _by_argument(forward_arguments(self._forward, values))
        rng = np.random.default_rng(seed)
        for gradient, exact in zip(self.gradients, self._both(values, given, None), strict=True):
            arrays = [a.astype(np.float64) for a in given[gradient.argument]]
            count = sum(a.size for a in arrays)
            size = np.sqrt(sum(float((a**2).sum()) for a in arrays) / max(count, 1)) or 1.0
            norm = np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in exact))
            if count == 0:
                continue
            for _ in range(DIRECTIONS):
                direction = [rng.standard_normal(a.shape) for a in arrays]
                along = sum(float((g * d).sum()) for g, d in zip(exact, direction, strict=True))
                self._check_direction(values, given, gradient, arrays, direction, size, along, norm)

    def _check_direction(
        self,
        values: LayerValues,
        given: Sequence[PerRank],
        gradient: GradientResult,
        arrays: PerRank,
        direction: PerRank,
        size: float,
        along: float,
        norm: float,
    ) -> None:
        def difference(step: float) -> float:
            sums: list[float] = []
            for sign in (1.0, -1.0):
                moved = [a + sign * step * d for a, d in zip(arrays, direction, strict=True)]
                args = list(given)
                args[gradient.argument] = moved
                sums.append(self._weighted_output(values, args))
            return (sums[0] - sums[1]) / (2 * step)

        found = 0.0
        for step in STEPS:
            found, other = difference(step * size), difference(2 * step * size)
            allowed = DERIVATIVE_ERROR * max(norm, abs(found))
            if abs(found - other) <= allowed / 2:
                if abs(found - along) <= allowed:
                    return
                raise WrongGradient(
                    f"the {gradient.name} is not the derivative of @{self._forward.name}: along a "
                    f"random direction it is {along:.6g}, by differences in float64 {found:.6g}"
                )
        raise NotDifferentiable(
            f"differences of @{self._forward.name} along its argument {gradient.argument} do not "
            f"converge"
        )

    def _weighted_output(self, values: LayerValues, args: Sequence[PerRank]) -> float:
        out = self._functions.exact(self._forward.name, args, note_errors=False)[self._output]
        dtype = values.config.dtype
        return sum(
            float((rows * from_bits(dout, dtype)).sum())
            for rows, dout in zip(out, values.dout, strict=True)
        )

    def _both(
        self, values: LayerValues, given: Sequence[PerRank], sample: Sample | None
    ) -> list[PerRank]:
        """Runs both functions; returns `gradients`."""
        assert self._backward is not None
        results = self._run(self._forward.name, given, sample)
        by_rank = [list(arrays) for arrays in zip(*results, strict=True)]
        args = backward_arguments(self._backward, self._forward, values, by_rank)
        found = self._run(self._backward.name, _by_argument(args), sample)
        return [found[g.index] for g in self.gradients]

    def _run(self, function: str, args: Sequence[PerRank], sample: Sample | None) -> list[PerRank]:
        if sample is None:
            return self._functions.exact(function, args)
        return self._functions.sampled(function, args, sample)


def _samples(seed: int) -> list[Sample]:
    return [Sample(seed * 1009 + i) for i in range(SAMPLES + HELD_OUT)]


def _by_argument(launch: Sequence[Sequence[Array]]) -> list[PerRank]:
    return [list(arrays) for arrays in zip(*launch, strict=True)]
