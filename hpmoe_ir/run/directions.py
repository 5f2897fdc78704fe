"""Arguments and gradients of a layer's forward and backward functions, bound by role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpmoe_ir.dialects.role import Role, RoleKind
from hpmoe_ir.dtypes import from_bits
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.layer.values import LayerValues
from hpmoe_ir.run.oracle import GRADIENTS
from hpmoe_ir.run.signature import Signature

OUTPUT = Role(RoleKind.OUTPUT)
TOKENS = Role(RoleKind.TOKENS)
IDS = Role(RoleKind.EXPERT_IDS)
GATE = Role(RoleKind.GATE_WEIGHTS)
UP = Role(RoleKind.UP_WEIGHTS)
DOWN = Role(RoleKind.DOWN_WEIGHTS)

INPUTS = (TOKENS, IDS, GATE, UP, DOWN)
"""Roles of the arguments of a layer."""


def forward_arguments(forward: Signature, values: LayerValues) -> list[list[Array]]:
    """Returns the arguments of the forward function for each rank, in order.

    Raises InputError for an argument whose role is not in `INPUTS`.
    """
    return [forward.bind(arrays) for arrays in _inputs(values)]


def backward_arguments(
    backward: Signature,
    forward: Signature,
    values: LayerValues,
    results: Sequence[Sequence[Array]],
    accumulators: Mapping[Role, Array] | None = None,
) -> list[list[Array]]:
    """Returns the arguments of the backward function for each rank, in order.

    `results` are the results of the forward function, by rank, in order. `accumulators` are keyed
    by the role of the forward argument whose gradient they accumulate, such as `up_weights`; others
    are zero. Raises InputError for an argument without a value, such as the gradient of a result
    other than the output.
    """
    dtype = values.config.dtype
    gradient = Role(RoleKind.RESULT_GRADIENT, forward.result(OUTPUT))
    found: list[list[Array]] = []
    for given, returned, dout in zip(
        forward_arguments(forward, values), results, values.dout, strict=True
    ):
        arrays = {Role(RoleKind.ARGUMENT, i): array for i, array in enumerate(given)}
        arrays |= {Role(RoleKind.RESULT, i): array for i, array in enumerate(returned)}
        arrays[gradient] = from_bits(dout, dtype)
        for of, array in (accumulators or {}).items():
            arrays[Role(RoleKind.ACCUMULATOR, forward.arguments.index(of))] = array
        found.append(backward.bind(arrays))
    return found


def layer_gradients(
    backward: Signature, forward: Signature, results: Sequence[Array]
) -> dict[str, Array]:
    """Returns the gradients of one rank by their names in the oracle (`GRADIENTS`).

    `results` are the results of the backward function on this rank, in order.
    """
    names = gradient_names(forward)
    return {
        names[role.number]: array
        for role, array in backward.by_role(results).items()
        if role.kind is RoleKind.ARGUMENT_GRADIENT and role.number in names
    }


def gradient_names(forward: Signature) -> dict[int, str]:
    """Returns the oracle's name (`GRADIENTS`) of the gradient of an argument, by its number."""
    names = dict(zip((role for role in INPUTS if role != IDS), GRADIENTS, strict=True))
    return {i: names[of] for i, of in enumerate(forward.arguments) if of in names}


def _inputs(values: LayerValues) -> list[dict[Role, Array]]:
    """Returns the input arrays of each rank by role."""
    dtype = values.config.dtype
    return [
        {
            TOKENS: from_bits(values.x[r], dtype),
            IDS: values.routing[r].ids,
            GATE: values.routing[r].gates,
            UP: from_bits(values.w13[r], dtype),
            DOWN: from_bits(values.w2[r], dtype),
        }
        for r in range(values.config.ranks)
    ]
