"""The backward direction of a generated case: gradients at all levels, and if they are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.func import FuncOp

from generated.cases import Case
from generated.function_levels import (
    Arguments,
    Disagreement,
    LevelFunction,
    Results,
    compare_results,
    textbook_arguments,
)
from generated.textbook import (
    Tokens,
    Value,
    directional_derivative,
    evaluate,
    returned,
)
from hpmoe_ir.dialects.moe import stated_roles, tensor_type
from hpmoe_ir.dialects.role import RoleKind
from hpmoe_ir.interpreter.values import Array, rounded
from hpmoe_ir.passes.analysis.level import RUN_LEVELS


def check_backward(
    case: Case,
    forward: LevelFunction,
    backward: LevelFunction,
    values: Arguments,
    found: Mapping[str, Results],
    exact: Sequence[Sequence[Value]],
    tokens: Sequence[Tokens],
) -> tuple[int, float]:
    """The backward direction at all levels, each with the values that it saved itself."""
    new = [
        [
            _new_arguments(forward.op, backward.op, launch.seed, rank, where)
            for rank in range(case.ranks)
        ]
        for launch, where in zip(case.launches, tokens, strict=True)
    ]
    fixed = [
        [{**a, **b} for a, b in zip(by_rank, more, strict=True)]
        for by_rank, more in zip(values, new, strict=True)
    ]
    given = {
        level: [
            [{**a, **b} for a, b in zip(by_rank, saved, strict=True)]
            for by_rank, saved in zip(fixed, found[level], strict=True)
        ]
        for level in RUN_LEVELS
    }
    results = backward.run_all(given, tokens)
    gradients: list[list[Value]] = []
    for n, where in enumerate(tokens):
        arguments = textbook_arguments(forward.op, fixed[n], where)
        arguments |= textbook_arguments(backward.op, fixed[n], where)
        for (name, _), value in zip(forward.results(), exact[n], strict=True):
            arguments.setdefault(name, value)
        gradients.append(evaluate(backward.op, arguments, where))
        _check_derivatives(forward.op, backward.op, arguments, gradients[-1], where)
    return compare_results(backward, results, gradients, tokens)


def _names(forward: FuncOp, backward: FuncOp, kind: RoleKind) -> dict[str, str]:
    """Arguments of the backward function with a role, by name, and what of `forward` each has."""
    found: dict[str, str] = {}
    for arg, role in zip(backward.args, stated_roles(backward)[0], strict=True):
        if role is not None and role.kind is kind and role.number is not None:
            of = returned(forward) if kind is RoleKind.RESULT_GRADIENT else forward.args
            found[arg.name_hint or ""] = of[role.number].name_hint or ""
    return found


def _new_arguments(
    forward: FuncOp, backward: FuncOp, seed: int, rank: int, tokens: Tokens
) -> dict[str, Array]:
    """Gradients of results and accumulators of one rank, rounded to the type of each."""
    random = np.random.default_rng([seed, rank, 0x6772])
    names = {
        *_names(forward, backward, RoleKind.RESULT_GRADIENT),
        *_names(forward, backward, RoleKind.ACCUMULATOR),
    }
    found: dict[str, Array] = {}
    for arg in backward.args:
        if arg.name_hint in names:
            type = tensor_type(arg)
            rows = len(tokens.rows_of(rank, type.encoding))
            numbers = random.standard_normal((rows, *type.get_shape()[1:]), np.float32)
            found[arg.name_hint] = rounded(numbers, type.element_type)
    return found


def _check_derivatives(
    forward: FuncOp,
    backward: FuncOp,
    arguments: Mapping[str, Value],
    gradients: Sequence[Value],
    tokens: Tokens,
) -> None:
    """The gradients are those of the forward function: along a random direction of each argument.

    Raises Disagreement; no gradient rule takes part in this.
    """
    weights = [
        arguments[name].exact for name in _names(forward, backward, RoleKind.RESULT_GRADIENT)
    ]
    added = {
        of: arguments[name].exact
        for name, of in _names(forward, backward, RoleKind.ACCUMULATOR).items()
    }
    random = np.random.default_rng(1)
    for role, gradient in zip(stated_roles(backward)[1], gradients, strict=True):
        assert role is not None
        assert role.number is not None
        of = forward.args[role.number].name_hint or ""
        direction = random.standard_normal(gradient.exact.shape)
        expected = directional_derivative(forward, arguments, {of: direction}, weights, tokens)
        found = float(((gradient.exact - added.get(of, 0)) * direction).sum())
        scale = float(np.linalg.norm(gradient.exact) * np.linalg.norm(direction))
        if abs(expected - found) > 1e-7 * (scale + abs(expected)):
            raise Disagreement(
                f"@{backward.sym_name.data}: the gradient of {of} along a direction: expected "
                f"{expected:.9g} from the forward function, found {found:.9g}"
            )
