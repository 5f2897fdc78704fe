"""Bounds of a plain layer's results, for tests that have no compiled graph at hand."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from hpmoe_ir.driver.source import make_context
from hpmoe_ir.dtypes import AnyFloats
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.layer.values import LayerValues
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.run.directions import gradient_names
from hpmoe_ir.run.graph_reference import GraphReference
from hpmoe_ir.run.signature import backward_of, signatures
from hpmoe_ir.run.tolerance import Comparison, ResultBounds, compare_result

SEED = 0
"""Seed of the samples."""


_known: dict[bytes, ResultBounds] = {}


def tolerance(values: LayerValues) -> ResultBounds:
    """Returns the bounds of the layer's output, made once for the same values."""
    digest = hashlib.sha256(repr(values.config).encode())
    routing = [array for rank in values.routing for array in (rank.ids, rank.gates)]
    for array in (*values.x, *values.w13, *values.w2, *routing):
        digest.update(array.tobytes())
    key = digest.digest()
    if key not in _known:
        _known[key] = _layer(values, DeriveBackwardPass())[0].output_bounds(values, SEED)
    return _known[key]


def gradient_tolerance(
    values: LayerValues, *, rounded_weights: bool = False
) -> dict[str, ResultBounds]:
    """Returns the bounds of each gradient by its name in the oracle.

    `rounded_weights`: gradients of weights are stored in the layer's element type.
    """
    derive = (
        DeriveBackwardPass(weight_gradients="activation")
        if rounded_weights
        else DeriveBackwardPass()
    )
    reference, names = _layer(values, derive)
    bounds = reference.gradient_bounds(values, SEED)
    return {names[g.argument]: b for g, b in zip(reference.gradients, bounds, strict=True)}


def _layer(
    values: LayerValues, derive: DeriveBackwardPass
) -> tuple[GraphReference, dict[int, str]]:
    module = layer_module(values.config)
    derive.apply(make_context(), module)
    known = signatures(module)
    forward = next(s for s in known.values() if s.forward is None)
    backward = backward_of(known, forward.name)
    return GraphReference(module, forward, backward), gradient_names(forward)


def compare(
    outputs: Sequence[AnyFloats], reference: Sequence[AnyFloats], bounds: ResultBounds
) -> Comparison:
    """Compares the outputs of all ranks, [t_r, H] each, with the reference."""
    assert not bounds.reason, bounds.reason
    return compare_result(outputs, bounds.against(reference))


def compare_gradients(
    found: Sequence[Mapping[str, AnyFloats]],
    reference: Sequence[Mapping[str, AnyFloats]],
    bounds: Mapping[str, ResultBounds],
) -> Comparison:
    """Compares the gradients of all ranks; returns the comparison nearest to its bounds."""
    comparisons = [
        compare([rank[name] for rank in found], [rank[name] for rank in reference], bound)
        for name, bound in bounds.items()
    ]
    return max(comparisons, key=lambda c: c.largest_ratio)
