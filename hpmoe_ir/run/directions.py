"""The two directions of a layer: what each is given, by the names of its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpmoe_ir.dtypes import from_bits
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.layer.values import LayerValues

OUTPUT = "out"
"""The forward result that is not there for the backward direction."""


def forward_values(values: LayerValues) -> list[dict[str, Array]]:
    """The arguments of the forward function for each rank."""
    dtype = values.config.dtype
    return [
        {
            "x": from_bits(values.x[r], dtype),
            "ids": values.routing[r].ids,
            "gate": values.routing[r].gates,
            "w13": from_bits(values.w13[r], dtype),
            "w2": from_bits(values.w2[r], dtype),
        }
        for r in range(values.config.ranks)
    ]


def backward_values(
    values: LayerValues, forward: Sequence[Mapping[str, Array]]
) -> list[dict[str, Array]]:
    """The arguments of the backward function for each rank, from the results of the forward one.

    Arguments that a choice of `recompute` does not need are there too.
    """
    dtype = values.config.dtype
    return [
        {
            **inputs,
            **{name: array for name, array in results.items() if name != OUTPUT},
            "dout": from_bits(dout, dtype),
        }
        for inputs, results, dout in zip(forward_values(values), forward, values.dout, strict=True)
    ]
