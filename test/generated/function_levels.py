"""One function of a generated case at all levels, and how its results compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from generated.textbook import (
    SPREAD,
    Numbers,
    Tokens,
    Value,
    returned,
)
from hpmoe_ir.dialects.moe import tensor_type
from hpmoe_ir.driver.compiler import Compiled
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.passes.analysis.level import RUN_LEVELS
from hpmoe_ir.run.execution import build_program
from hpmoe_ir.run.levels import run_level

SAME_BITS = (("moe", "comm"), ("tile", "queue"))
"""Levels that do the same arithmetic in the same order."""

Results = list[list[dict[str, Array]]]
Arguments = Sequence[Sequence[Mapping[str, Array]]]


class Disagreement(AssertionError):
    """A level that is wrong; the message says which, and where."""


@dataclass
class LevelFunction:
    """One function of a case at all levels."""

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
        given = [
            [[values[arg.name_hint or ""] for arg in self.op.args] for values in launch]
            for launch in arguments
        ]
        found = run_level(level, self.compiled, self.name, given, seed, self.executable)
        names = [name for name, _ in self.results()]
        return [[dict(zip(names, rank, strict=True)) for rank in launch] for launch in found]

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
        for level in RUN_LEVELS:
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


def textbook_arguments(
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


def compare_results(
    function: LevelFunction,
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
