"""What a function of the `moe` dialect computes, by the textbook: float64, no routes, no buffers.

All ranks at once: rows of tokens are `[N, width]` for the N tokens of all ranks, rows of experts
and rows in send order `[N * K, width]`, one for each (token, expert) in token order, weights
`[E, A, B]` for all experts. Next to each value is how far a run may be from it: the sum of squares
of the roundings so far, carried on to first order by a rule for each operation, independently of
the samples of `hpmoe_ir.run.tolerance`; errors that may be the same rounding twice are added up
first.

Without errors, values may be complex: `directional_derivative` is exact to float64 that way and
needs no gradient rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from hpmoe_ir.dialects import moe
from hpmoe_ir.dialects.moe import tensor_type
from hpmoe_ir.dtypes import Dtype, Float64Array, underflow_error, unit_roundoff
from hpmoe_ir.interpreter.float64 import FLOAT32, FUNCTION_ERROR

Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SPREAD = 4.0
"""Bound of a sum of independent roundings, relative to the root sum of squares of their maxima.

The standard deviation of a rounding is 1/sqrt(3) of its maximum, so this is 6.9 of them.
"""

SILU_SLOPE = 1.1
"""Largest slope of silu (1.0998 at g = 2.4)."""

CURVATURE = 0.5
"""Largest second derivative of silu, at 0."""


def rounding(magnitude: Float64Array, dtype: Dtype) -> Float64Array:
    """Returns the largest error of rounding a number of at most `magnitude` to `dtype`."""
    return unit_roundoff(dtype) * magnitude + underflow_error(dtype)


@dataclass(frozen=True)
class Value:
    """Exact numbers and the sum of squares of a run's errors, None where nobody asks for it."""

    exact: Numbers
    squares: Numbers | None = None

    @property
    def error(self) -> Numbers:
        """Root of the sum of squares."""
        assert self.squares is not None
        return np.sqrt(self.squares)


@dataclass(frozen=True)
class Tokens:
    """Where the tokens of a launch are and where they go."""

    ids: Numbers
    """[N, K] experts of the tokens of all ranks, rank after rank."""
    counts: tuple[int, ...]
    """Tokens of each rank."""
    experts: int

    @property
    def top(self) -> int:
        """Experts of one token."""
        return self.ids.shape[1]

    @property
    def pair_experts(self) -> Numbers:
        """[N * K] expert of each pair."""
        return self.ids.reshape(-1)

    @property
    def pair_ranks(self) -> Numbers:
        """[N * K] rank that each pair's token is on."""
        ranks = np.repeat(np.arange(len(self.counts)), self.counts)
        return np.repeat(ranks, self.top)

    def received(self, rank: int) -> Numbers:
        """Pairs that a rank receives, in receive order: by expert, source rank, token."""
        pairs = np.flatnonzero(self.pair_experts // (self.experts // len(self.counts)) == rank)
        return pairs[np.argsort(self.pair_experts[pairs], kind="stable")]

    def sent(self, rank: int) -> Numbers:
        """Pairs of a rank's tokens in send order: by expert, token."""
        pairs = np.flatnonzero(self.pair_ranks == rank)
        return pairs[np.argsort(self.pair_experts[pairs], kind="stable")]

    def most_received(self) -> tuple[int, int]:
        """The most rows that a rank receives, and the first such rank."""
        rows = [len(self.received(rank)) for rank in range(len(self.counts))]
        return max(rows), rows.index(max(rows))

    def rows_of(self, rank: int, placement: Attribute | None) -> Numbers:
        """Numbers of the rows of a value that are one rank's, in its order."""
        match placement:
            case moe.GroupedAttr():
                return self.received(rank)
            case moe.SentAttr():
                return self.sent(rank)
            case moe.ExpertsAttr():
                local = self.experts // len(self.counts)
                return np.arange(rank * local, (rank + 1) * local)
            case _:
                begin = sum(self.counts[:rank])
                return np.arange(begin, begin + self.counts[rank])


def evaluate(function: FuncOp, arguments: Mapping[str, Value], tokens: Tokens) -> list[Value]:
    """The results of a function; arguments by name."""
    values: dict[SSAValue, Value] = {}
    for arg in function.args:
        name = arg.name_hint or ""
        if name in arguments:
            values[arg] = arguments[name]
    for op in function.body.block.ops:
        if isinstance(op, moe.RouteOp | ReturnOp):
            continue
        (result,) = op.results
        value = _compute(op, [values[o] for o in op.operands if o in values], tokens)
        values[result] = _rounded(value, tensor_type(result).element_type)
    return [values[v] for v in returned(function)]


def returned(function: FuncOp) -> list[SSAValue]:
    """The values that a function returns."""
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    return list(last.arguments)


def _rounded(value: Value, element: Attribute) -> Value:
    dtypes: dict[type[Attribute], Dtype] = {BFloat16Type: "bf16", Float16Type: "f16"}
    dtype = dtypes.get(type(element))
    if dtype is None or value.squares is None:
        return value
    # The number that is rounded is itself off by a few of its errors.
    largest = (np.abs(value.exact) + 2 * value.error).astype(np.float64)
    return Value(value.exact, value.squares + rounding(largest, dtype) ** 2)


def _compute(op: Operation, own: Sequence[Value], tokens: Tokens) -> Value:
    match op:
        case moe.DispatchOp():
            return _pairs(own[0], tokens)
        case moe.DispatchWeightedOp():
            return _scaled(_pairs(own[0], tokens), own[1])
        case moe.GroupedMatmulOp() if op.transpose_lhs is not None:
            return _weight_gradient(own, tokens)
        case moe.GroupedMatmulOp():
            return _product(own[0], own[1], tokens, op.transpose_rhs is not None)
        case moe.SwiGLUOp():
            return _swiglu(own[0])
        case moe.SwiGLUGradOp():
            return _swiglu_grad(own[0], own[1])
        case moe.AddOp():
            return _add(own[0], own[1])
        case moe.CollectOp():
            return own[0]
        case moe.CombineOp():
            # What comes back was rounded when it was made.
            return _sum(_scaled(own[0], own[1]), tokens)
        case moe.WeightedSumOp():
            return _sum(_scaled(own[0], own[1]), tokens)
        case moe.SumCopiesOp():
            return _sum(own[0], tokens)
        case moe.GateGradientOp():
            return _gate_gradient(own[0], own[1], tokens)
        case _:
            raise AssertionError(f"the textbook has no {op.name}")


def _pairs(x: Value, tokens: Tokens) -> Value:
    def copies(a: Numbers) -> Numbers:
        return np.repeat(a, tokens.top, axis=0)

    return Value(copies(x.exact), None if x.squares is None else copies(x.squares))


def _scaled(rows: Value, gate: Value) -> Value:
    """A weight for each pair; a product in float32 rounds once."""
    weights = gate.exact.reshape(-1, 1)
    exact = rows.exact * weights
    if rows.squares is None or gate.squares is None:
        return Value(exact)
    error = rows.error * np.abs(weights) + np.abs(rows.exact) * gate.error.reshape(-1, 1)
    return Value(exact, (error + FLOAT32 * np.abs(exact)) ** 2)


def _sum(rows: Value, tokens: Tokens) -> Value:
    """Sums over the experts of each token; copies of a row may share an error."""
    shape = (*tokens.ids.shape, rows.exact.shape[-1])
    exact = rows.exact.reshape(shape).sum(axis=1)
    if rows.squares is None:
        return Value(exact)
    magnitude = np.abs(rows.exact).reshape(shape).sum(axis=1)
    error = rows.error.reshape(shape).sum(axis=1) + tokens.top * FLOAT32 * magnitude
    return Value(exact, error**2)


def _product(rows: Value, weights: Value, tokens: Tokens, transposed: bool) -> Value:
    matrices = weights.exact.swapaxes(1, 2) if transposed else weights.exact
    exact = np.zeros((len(rows.exact), matrices.shape[2]), np.result_type(rows.exact, matrices))
    squares = np.zeros(exact.shape)
    for expert in range(tokens.experts):
        at = tokens.pair_experts == expert
        a, w = rows.exact[at], matrices[expert]
        exact[at] = a @ w
        if rows.squares is not None:
            squares[at] = rows.squares[at] @ (w * w) + _sum_squares(a, w)
    return Value(exact, None if rows.squares is None else squares)


def _sum_squares(a: Numbers, b: Numbers) -> Numbers:
    """Squares of the float32 roundings of a @ b: partial sums are at most |a| |b|."""
    norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=0)[None, :]
    return a.shape[1] * (FLOAT32 * norms) ** 2


def _weight_gradient(own: Sequence[Value], tokens: Tokens) -> Value:
    lhs, rhs = own[0], own[1]
    shape = (tokens.experts, lhs.exact.shape[1], rhs.exact.shape[1])
    exact = np.zeros(shape, np.result_type(lhs.exact, rhs.exact))
    squares = np.zeros(shape)
    for expert in range(tokens.experts):
        at = tokens.pair_experts == expert
        a, b = lhs.exact[at], rhs.exact[at]
        exact[expert] = a.T @ b
        if lhs.squares is not None and rhs.squares is not None:
            ea, eb = lhs.squares[at], rhs.squares[at]
            squares[expert] = 2 * (ea.T @ b**2 + (a**2).T @ eb + ea.T @ eb)
            squares[expert] += _sum_squares(a.T, b)
    if len(own) == 3:
        exact = exact + own[2].exact
        squares += (2 * FLOAT32 * np.abs(exact)) ** 2
        squares += (2 * FLOAT32 * np.abs(own[2].exact)) ** 2
        if lhs.squares is not None:
            # What is added into may be a gradient that shares errors with this one.
            squares = (np.sqrt(squares) + own[2].error) ** 2
    return Value(exact, None if lhs.squares is None else squares)


def _add(a: Value, b: Value) -> Value:
    exact = a.exact + b.exact
    if a.squares is None or b.squares is None:
        return Value(exact)
    return Value(exact, (a.error + b.error) ** 2 + (FLOAT32 * exact) ** 2)


def _sigmoid(g: Numbers) -> Numbers:
    return 0.5 * (1.0 + np.tanh(0.5 * g))


def _halves(h: Numbers) -> tuple[Numbers, Numbers]:
    width = h.shape[1] // 2
    return h[:, :width], h[:, width:]


def _swiglu(h: Value) -> Value:
    gate, up = _halves(h.exact)
    sigmoid = _sigmoid(gate)
    s = gate * sigmoid
    exact = s * up
    if h.squares is None:
        return Value(exact)
    error_gate, error_up = _halves(h.error)
    slope = np.minimum(np.abs(sigmoid + s * (1 - sigmoid)) + CURVATURE * error_gate, SILU_SLOPE)
    squares = (slope * error_gate * (np.abs(up) + error_up)) ** 2 + (s * error_up) ** 2
    return Value(exact, squares + (2 * FUNCTION_ERROR * exact) ** 2)


def _swiglu_grad(h: Value, da: Value) -> Value:
    gate, up = _halves(h.exact)
    sigmoid = _sigmoid(gate)
    s = gate * sigmoid
    slope = sigmoid + s * (1 - sigmoid)
    exact = np.concatenate([da.exact * up * slope, da.exact * s], axis=1)
    if h.squares is None or da.squares is None:
        return Value(exact)
    error_gate, error_up = _halves(h.error)
    steep = np.abs(slope) + CURVATURE * error_gate
    wide, tall = np.abs(da.exact) + da.error, np.abs(up) + error_up
    first = (
        (da.error * tall * steep) ** 2
        + (wide * steep * error_up) ** 2
        + (wide * tall * CURVATURE * error_gate) ** 2
        + (2 * FUNCTION_ERROR * wide * tall) ** 2
    )
    second = (
        (da.error * (np.abs(s) + steep * error_gate)) ** 2
        + (wide * steep * error_gate) ** 2
        + (2 * FUNCTION_ERROR * wide * s) ** 2
    )
    return Value(exact, np.concatenate([first, second], axis=1))


def _gate_gradient(back: Value, dout: Value, tokens: Tokens) -> Value:
    """One error of what `back` was made of may go into all of its columns."""
    rows = np.repeat(dout.exact, tokens.top, axis=0)
    exact = (back.exact * rows).sum(axis=1).reshape(tokens.ids.shape)
    if back.squares is None or dout.squares is None:
        return Value(exact)
    errors = np.repeat(dout.error, tokens.top, axis=0)
    error = (back.error * (np.abs(rows) + errors) + np.abs(back.exact) * errors).sum(axis=1)
    norms = np.linalg.norm(back.exact, axis=1) * np.linalg.norm(rows, axis=1)
    squares = error**2 + rows.shape[1] * (2 * FLOAT32 * norms) ** 2
    return Value(exact, squares.reshape(tokens.ids.shape))


STEP = 1e-30
"""Of the imaginary part: its square is lost, so a derivative has no error of its own."""


def directional_derivative(
    function: FuncOp,
    arguments: Mapping[str, Value],
    direction: Mapping[str, Numbers],
    weights: Sequence[Numbers],
    tokens: Tokens,
) -> float:
    """Of the sum of the first results times `weights`, along `direction` of the arguments."""
    moved = {
        name: Value(value.exact + STEP * 1j * direction[name] if name in direction else value.exact)
        for name, value in arguments.items()
    }
    found = evaluate(function, moved, tokens)
    pairs = zip(found, weights, strict=False)
    return float(sum((value.exact.imag * w).sum() / STEP for value, w in pairs))
