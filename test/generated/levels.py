"""Whether all levels agree on a generated case, with each other and with the textbook."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import InterpretationError

from generated.cases import Case, Launch
from generated.graphs import FUNCTION, graph_module
from generated.textbook import (
    Numbers,
    Tokens,
    Value,
    directional_derivative,
    evaluate,
    returned,
)
from hpmoe_ir.compiler import Compiled, compile_module, module_text
from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.dialects.moe import tensor_type
from hpmoe_ir.execution import build_program
from hpmoe_ir.interpreter.values import Array, rounded
from hpmoe_ir.passes.backward_function import ACCUMULATOR, BACKWARD, GRADIENT
from hpmoe_ir.run_levels import CapacityError, run_level
from hpmoe_ir.source import make_context, parse_module
from hpmoe_ir.tolerance import SPREAD

LEVELS = ("moe", "comm", "tile", "queue", "code")
SAME_BITS = (("moe", "comm"), ("tile", "queue"))
"""Levels that do the same arithmetic in the same order."""

Results = list[list[dict[str, Array]]]
Arguments = Sequence[Sequence[Mapping[str, Array]]]


class Disagreement(AssertionError):
    """A level that is wrong; the message says which, and where."""


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


@dataclass
class _Function:
    """One direction of a case at all levels."""

    compiled: Compiled
    name: str
    orders: Sequence[int]
    executable: Path = field(init=False)

    def __post_init__(self) -> None:
        kernel = self.compiled.kernels[self.name]
        self.executable = build_program(kernel.program, kernel.source, quick=True)

    @property
    def op(self) -> FuncOp:
        """The function at the graph level."""
        return next(
            op
            for op in self.compiled.modules["moe"].ops
            if isinstance(op, FuncOp) and op.sym_name.data == self.name
        )

    def run(self, level: str, arguments: Arguments, seed: int) -> Results:
        """Results of each launch and rank."""
        return run_level(level, self.compiled, self.name, arguments, seed, self.executable)

    def results(self) -> list[tuple[str, SSAValue]]:
        """Names and values of what the function returns."""
        return [(v.name_hint or f"out{i}", v) for i, v in enumerate(returned(self.op))]

    def run_all(
        self, arguments: Mapping[str, Arguments], tokens: Sequence[Tokens]
    ) -> dict[str, Results]:
        """Results by level, as they come; arguments by level.

        Raises Disagreement where levels that must have the same bits have not, or orders of the
        cores make a difference.
        """
        found: dict[str, Results] = {}
        for level in LEVELS:
            runs = [
                self.run(level, arguments[level], seed)
                for seed in (self.orders if level in ("tile", "queue", "code") else (0,))
            ]
            rows = [self.trimmed(run, tokens) for run in runs]
            for seed, run in zip(self.orders, rows, strict=False):
                self.same(rows[0], run, f"{level}, order {self.orders[0]}", f"order {seed}")
            found[level] = runs[0]
        for one, other in SAME_BITS:
            first, second = (self.trimmed(found[level], tokens) for level in (one, other))
            self.same(first, second, one, other)
        return found

    def trimmed(self, results: Results, tokens: Sequence[Tokens]) -> Results:
        """Results without what is behind the last row."""
        return [
            [
                {
                    name: by_name[name][: len(where.rows_of(rank, tensor_type(value).encoding))]
                    for name, value in self.results()
                }
                for rank, by_name in enumerate(launch)
            ]
            for launch, where in zip(results, tokens, strict=True)
        ]

    def same(self, one: Results, other: Results, what: str, against: str) -> None:
        """Raises Disagreement unless two runs have the same bits."""
        for n, (a, b) in enumerate(zip(one, other, strict=True), start=1):
            for rank, (x, y) in enumerate(zip(a, b, strict=True)):
                for name in x:
                    if x[name].tobytes() != y[name].tobytes():
                        raise Disagreement(
                            f"@{self.name}: {what} and {against}: launch {n}, rank {rank}: "
                            f"{name} has other bits"
                        )


WITHOUT_GRADIENTS = (
    # Rows in send order are a result, or used by what is no sum.
    "rows in send order have no gradient of their own",
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
    forward = _Function(compiled, FUNCTION, case.orders)
    values = [case.values(launch) for launch in case.launches]
    tokens = [_tokens(case, launch) for launch in case.launches]
    limit = case.route().rows.data
    over = [t for t in tokens if t.most_received()[0] > limit]
    if over:
        for level in LEVELS:
            _refused(forward, level, values, over[0], limit)
        return Agreed("over capacity", (forward.executable,), 0, 0.0)
    found = forward.run_all(dict.fromkeys(LEVELS, values), tokens)
    exact = [
        evaluate(forward.op, _arguments(forward.op, v, t), t)
        for v, t in zip(values, tokens, strict=True)
    ]
    elements, ratio = _compare(forward, found, exact, tokens)
    if case.backward is None:
        return Agreed("forward", (forward.executable,), elements, ratio)
    backward = _Function(compiled, f"{FUNCTION}{BACKWARD}", case.orders)
    more = _backward(case, forward, backward, values, found, exact, tokens)
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


def _arguments(
    function: FuncOp, values: Sequence[Mapping[str, Array]], tokens: Tokens
) -> dict[str, Value]:
    """Arguments of a launch for the textbook: those of all ranks, without errors."""
    found: dict[str, Value] = {}
    for arg in function.args:
        name = arg.name_hint or ""
        if name not in values[0] or name == "ids":
            continue
        places = [tokens.rows_of(r, tensor_type(arg).encoding) for r in range(len(values))]
        first = values[0][name]
        exact = np.zeros((sum(map(len, places)), *first.shape[1:]))
        for at, by_name in zip(places, values, strict=True):
            exact[at] = by_name[name]
        found[name] = Value(exact, np.zeros(exact.shape))
    return found


def _refused(
    function: _Function, level: str, values: Arguments, tokens: Tokens, limit: int
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


def _compare(
    function: _Function,
    found: Mapping[str, Results],
    exact: Sequence[Sequence[Value]],
    tokens: Sequence[Tokens],
) -> tuple[int, float]:
    """Number of elements compared and the largest error, in bounds. Raises Disagreement."""
    elements, largest = 0, 0.0
    for level, untrimmed in found.items():
        results = function.trimmed(untrimmed, tokens)
        for n, (launch, values, where) in enumerate(
            zip(results, exact, tokens, strict=True), start=1
        ):
            for (name, ssa), value in zip(function.results(), values, strict=True):
                for rank, by_name in enumerate(launch):
                    at = where.rows_of(rank, tensor_type(ssa).encoding)
                    ratio = _ratio(by_name[name], value, at)
                    elements += by_name[name].size
                    largest = max(largest, float(ratio.max(initial=0.0)))
                    if (ratio > 1).any():
                        place = tuple(int(i) for i in np.argwhere(ratio > 1)[0])
                        raise Disagreement(
                            f"@{function.name}: {level}: launch {n}, rank {rank}: "
                            f"{name}{list(place)}: expected {value.exact[at][place]:.6g}, found "
                            f"{by_name[name][place]:.6g}, {ratio[place]:.3g} of the tolerance; "
                            f"{int((ratio > 1).sum())} of {ratio.size} elements are off"
                        )
    return elements, largest


def _ratio(found: Array, value: Value, at: Numbers) -> Numbers:
    """Errors in units of their bounds."""
    expected = value.exact[at]
    if found.shape != expected.shape:
        raise Disagreement(f"expected a result of {expected.shape}, found {found.shape}")
    with np.errstate(invalid="ignore"):
        error = np.abs(found.astype(np.float64) - expected)
    error[~np.isfinite(error)] = np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error == 0, 0.0, error / (SPREAD * value.error[at]))


def _backward(
    case: Case,
    forward: _Function,
    backward: _Function,
    values: Arguments,
    found: Mapping[str, Results],
    exact: Sequence[Sequence[Value]],
    tokens: Sequence[Tokens],
) -> tuple[int, float]:
    """The backward direction at all levels, each with the values that it saved itself."""
    new = [
        [_new_arguments(backward.op, launch.seed, rank, where) for rank in range(case.ranks)]
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
        for level in LEVELS
    }
    results = backward.run_all(given, tokens)
    gradients: list[list[Value]] = []
    for n, where in enumerate(tokens):
        arguments = _arguments(forward.op, fixed[n], where)
        arguments |= _arguments(backward.op, fixed[n], where)
        for (name, _), value in zip(forward.results(), exact[n], strict=True):
            arguments.setdefault(name, value)
        gradients.append(evaluate(backward.op, arguments, where))
        _check_derivatives(forward.op, backward.op, arguments, gradients[-1], where)
    return _compare(backward, results, gradients, tokens)


def _marked(function: FuncOp, mark: str) -> dict[str, str]:
    """Arguments of the backward function with a mark, by name, and what they are for."""
    found: dict[str, str] = {}
    for arg, attributes in zip(function.args, function.arg_attrs or (), strict=True):
        if mark in attributes.data:
            of = attributes.data[mark]
            assert isinstance(of, StringAttr)
            found[arg.name_hint or ""] = of.data
    return found


def _new_arguments(function: FuncOp, seed: int, rank: int, tokens: Tokens) -> dict[str, Array]:
    """Gradients of results and accumulators of one rank, rounded to the type of each."""
    random = np.random.default_rng([seed, rank, 0x6772])
    names = {*_marked(function, GRADIENT), *_marked(function, ACCUMULATOR)}
    found: dict[str, Array] = {}
    for arg in function.args:
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
    weights = [arguments[name].exact for name in _marked(backward, GRADIENT)]
    added = {of: arguments[name].exact for name, of in _marked(backward, ACCUMULATOR).items()}
    random = np.random.default_rng(1)
    for attributes, gradient in zip(backward.res_attrs or (), gradients, strict=True):
        of = attributes.data[GRADIENT]
        assert isinstance(of, StringAttr)
        direction = random.standard_normal(gradient.exact.shape)
        expected = directional_derivative(forward, arguments, {of.data: direction}, weights, tokens)
        found = float(((gradient.exact - added.get(of.data, 0)) * direction).sum())
        scale = float(np.linalg.norm(gradient.exact) * np.linalg.norm(direction))
        if abs(expected - found) > 1e-7 * (scale + abs(expected)):
            raise Disagreement(
                f"@{BACKWARD}: the gradient of {of.data} along a direction: expected "
                f"{expected:.9g} from the forward function, found {found:.9g}"
            )
