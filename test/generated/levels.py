"""Whether all levels agree on a generated case, with each other and with the textbook."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from xdsl.utils.exceptions import InterpretationError

from generated.cases import Case, Launch
from generated.function_levels import (
    Arguments,
    Disagreement,
    LevelFunction,
    compare_results,
    textbook_arguments,
)
from generated.gradient_levels import check_backward
from generated.graphs import FUNCTION, graph_module
from generated.textbook import (
    Tokens,
    evaluate,
)
from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.driver.compiler import Compiled, compile_module, module_text
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.passes.analysis.level import RUN_LEVELS
from hpmoe_ir.run.levels import CapacityError
from hpmoe_ir.run.signature import backward_of, signatures


@dataclass(frozen=True)
class Agreed:
    """What was compared."""

    kind: str
    """forward, both, or over capacity."""
    sources: tuple[Path, ...]
    """Executables that were run."""
    elements: int
    largest_ratio: float
    """Of an error to its bound."""


WITHOUT_GRADIENTS = (
    # Rows in send order are a result, or used by what is no sum.
    "rows in send order have no gradient of their own",
    # A gradient of weights in f32 is a result: its own gradient is in f32, the rows are not.
    "expected a gradient of the elements of lhs",
    # The weights are used both ways, with gradients of two types.
    "as another use of the value or its accumulator has",
    # Gradients that need no routing: nothing to spread over ranks.
    "has no comm.route, there is nothing to spread",
    # The gradient of a sum's operand is that of the sum: an argument, or what is returned already.
    "does not compute; outputs must be results of tasks",
    "_backward returns value",
    # The gate weights are used twice, and their gradients are not of the rows' element type.
    "no kernel is registered for sums of f32",
)
"""What is refused only in the backward direction, by the messages."""


def check(case: Case) -> Agreed:
    """Runs a case at all levels, both directions where it has two. Raises Disagreement.

    Where gradients are refused for a reason that is known, the forward direction alone.
    """
    try:
        return _check(case)
    except InputError as e:
        if case.backward is None or not any(known in str(e) for known in WITHOUT_GRADIENTS):
            raise
    agreed = _check(replace(case, backward=None))
    return replace(agreed, kind="forward, gradients refused")


def _check(case: Case) -> Agreed:
    ctx = make_context()
    module = graph_module(case.graph, case.route(), case.dtype)
    compiled = compile_module(ctx, module, case.lowering.build(), backward=case.derive())
    _round_trip(compiled)
    forward = LevelFunction(compiled, FUNCTION, case.orders)
    values = [case.values(launch) for launch in case.launches]
    tokens = [_tokens(case, launch) for launch in case.launches]
    limit = case.route().rows.data
    over = [t for t in tokens if t.most_received()[0] > limit]
    if over:
        for level in RUN_LEVELS:
            _refused(forward, level, values, over[0], limit)
        return Agreed("over capacity", (forward.executable,), 0, 0.0)
    found = forward.run_all(dict.fromkeys(RUN_LEVELS, values), tokens)
    exact = [
        evaluate(forward.op, textbook_arguments(forward.op, v, t), t)
        for v, t in zip(values, tokens, strict=True)
    ]
    elements, ratio = compare_results(forward, found, exact, tokens)
    if case.backward is None:
        return Agreed("forward", (forward.executable,), elements, ratio)
    gradients = backward_of(signatures(compiled.modules["moe"]), FUNCTION)
    assert gradients is not None
    backward = LevelFunction(compiled, gradients.name, case.orders)
    more = check_backward(case, forward, backward, values, found, exact, tokens)
    return Agreed(
        "both",
        (forward.executable, backward.executable),
        elements + more[0],
        max(ratio, more[1]),
    )


def _round_trip(compiled: Compiled) -> None:
    """Each level's text is read back as what it was."""
    for level, module in compiled.modules.items():
        text = module_text(module)
        again = module_text(parse_module(make_context(), text.encode(), f"{level}.mlir"))
        if text != again:
            raise Disagreement(f"the text of the {level} level is not read back as it was")


def _tokens(case: Case, launch: Launch) -> Tokens:
    ids = np.concatenate([r.ids for r in case.routings(launch)])
    return Tokens(ids, launch.tokens, case.experts)


def _refused(
    function: LevelFunction, level: str, values: Arguments, tokens: Tokens, limit: int
) -> None:
    """A level must say which rank is over its capacity, and by how much."""
    seed = function.orders[0]
    try:
        function.run(level, values, seed)
    except (CapacityError, InterpretationError) as e:
        message = str(e)
    else:
        raise Disagreement(f"{level}: no refusal of rows over the capacity of {limit}")
    rows = {len(tokens.received(rank)): rank for rank in reversed(range(len(tokens.counts)))}
    numbers = [int(n) for n in re.findall(r"\d+", message)]
    first = next(r for r in range(len(tokens.counts)) if len(tokens.received(r)) > limit)
    expected = [first, len(tokens.received(first)), limit]
    if len(numbers) < 3 or numbers[0] != first or sorted(numbers[1:3]) != sorted(expected[1:]):
        raise Disagreement(
            f"{level}: expected a refusal of rank, rows and capacity {expected}, found "
            f"'{message}' (rows of ranks {rows})"
        )
