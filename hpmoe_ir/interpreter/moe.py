"""Execution of the `moe` dialect in NumPy, all ranks in lock step.

The value of a tensor is a list with one array for each rank; that of a route, a list of RankRoute.
Sums are in f32, or f64 for f64; every result is rounded to its element type.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Attribute
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.dialects import moe
from hpmoe_ir.interpreter.route import RankRoute, check_expert_ids, count_tokens, make_route
from hpmoe_ir.interpreter.values import Array, PerRank, fresh, numpy_type, rounded


def check_ranks(values: PerRank, ranks: int) -> None:
    """Checks that values are given for `ranks` ranks."""
    if len(values) != ranks:
        raise InterpretationError(f"expected values of {ranks} ranks, found {len(values)}")


def weighted_rows(x: Array, gate: Array, route: RankRoute, element: Attribute) -> Array:
    """Returns `gate[t, k] * x[t]` rounded to `element`, `[t * K, width]`, in send order."""
    weights = gate.reshape(-1)[route.order]
    return rounded(weights[:, None] * x[route.tokens], element)


@register_impls
class MoeFunctions(InterpreterFunctions):
    """Interpreter functions of the `moe` dialect."""

    @impl(moe.RouteOp)
    def run_route(
        self, interpreter: Interpreter, op: moe.RouteOp, args: PythonValues
    ) -> PythonValues:
        ids = cast(PerRank, args[0])
        type = moe.route_type(op.route)
        check_ranks(ids, type.ranks.data)
        check_expert_ids(ids, type.experts.data)
        counts = np.stack([count_tokens(own, type.experts.data) for own in ids])
        return ([make_route(own, counts, rank, type) for rank, own in enumerate(ids)],)

    @impl(moe.DispatchOp)
    def run_dispatch(
        self, interpreter: Interpreter, op: moe.DispatchOp, args: PythonValues
    ) -> PythonValues:
        x, routes = cast(tuple[PerRank, list[RankRoute]], args)
        element = moe.tensor_type(op.received).element_type
        received = [fresh((route.received, x[0].shape[1]), element) for route in routes]
        for rows, route in zip(x, routes, strict=True):
            send(rows[route.tokens], received, route)
        return (received,)

    @impl(moe.DispatchWeightedOp)
    def run_dispatch_weighted(
        self, interpreter: Interpreter, op: moe.DispatchWeightedOp, args: PythonValues
    ) -> PythonValues:
        x, gates, routes = cast(tuple[PerRank, PerRank, list[RankRoute]], args)
        element = moe.tensor_type(op.received).element_type
        received = [fresh((route.received, x[0].shape[1]), element) for route in routes]
        for rows, gate, route in zip(x, gates, routes, strict=True):
            send(weighted_rows(rows, gate, route, element), received, route)
        return (received,)

    @impl(moe.GroupedMatmulOp)
    def run_grouped_matmul(
        self, interpreter: Interpreter, op: moe.GroupedMatmulOp, args: PythonValues
    ) -> PythonValues:
        lhs, rhs, routes = cast(tuple[PerRank, PerRank, list[RankRoute]], args[:3])
        element = moe.tensor_type(op.product).element_type
        if op.transpose_lhs is not None:
            products = [_gradients(a, b, r) for a, b, r in zip(lhs, rhs, routes, strict=True)]
            if op.accumulator is not None:
                earlier = cast(PerRank, args[3])
                products = [a + b for a, b in zip(earlier, products, strict=True)]
        else:
            if op.transpose_rhs is not None:
                rhs = [weights.swapaxes(1, 2) for weights in rhs]
            products = [_grouped(a, w, r) for a, w, r in zip(lhs, rhs, routes, strict=True)]
        return ([rounded(product, element) for product in products],)

    @impl(moe.SwiGLUOp)
    def run_swiglu(
        self, interpreter: Interpreter, op: moe.SwiGLUOp, args: PythonValues
    ) -> PythonValues:
        element = moe.tensor_type(op.activation).element_type
        return ([rounded(_swiglu(h), element) for h in cast(PerRank, args[0])],)

    @impl(moe.SwiGLUGradOp)
    def run_swiglu_grad(
        self, interpreter: Interpreter, op: moe.SwiGLUGradOp, args: PythonValues
    ) -> PythonValues:
        h, da = cast(tuple[PerRank, PerRank], args)
        element = moe.tensor_type(op.dh).element_type
        return ([rounded(_swiglu_grad(a, b), element) for a, b in zip(h, da, strict=True)],)

    @impl(moe.AddOp)
    def run_add(self, interpreter: Interpreter, op: moe.AddOp, args: PythonValues) -> PythonValues:
        a, b = cast(tuple[PerRank, PerRank], args)
        element = moe.tensor_type(op.sum).element_type
        return ([rounded(x + y, element) for x, y in zip(a, b, strict=True)],)

    @impl(moe.CombineOp)
    def run_combine(
        self, interpreter: Interpreter, op: moe.CombineOp, args: PythonValues
    ) -> PythonValues:
        y, gates, routes = cast(tuple[PerRank, PerRank, list[RankRoute]], args)
        element = moe.tensor_type(op.out).element_type
        return (_sums(_collected(y, routes, element), gates, routes, element),)

    @impl(moe.CollectOp)
    def run_collect(
        self, interpreter: Interpreter, op: moe.CollectOp, args: PythonValues
    ) -> PythonValues:
        y, routes = cast(tuple[PerRank, list[RankRoute]], args)
        return (_collected(y, routes, moe.tensor_type(op.back).element_type),)

    @impl(moe.WeightedSumOp)
    def run_weighted_sum(
        self, interpreter: Interpreter, op: moe.WeightedSumOp, args: PythonValues
    ) -> PythonValues:
        back, gates, routes = cast(tuple[PerRank, PerRank, list[RankRoute]], args)
        return (_sums(back, gates, routes, moe.tensor_type(op.out).element_type),)

    @impl(moe.SumCopiesOp)
    def run_sum_copies(
        self, interpreter: Interpreter, op: moe.SumCopiesOp, args: PythonValues
    ) -> PythonValues:
        back, routes = cast(tuple[PerRank, list[RankRoute]], args)
        element = moe.tensor_type(op.out).element_type
        ones = [np.ones(route.position.shape, numpy_type(element)) for route in routes]
        return (_sums(back, ones, routes, element),)

    @impl(moe.GateGradientOp)
    def run_gate_gradient(
        self, interpreter: Interpreter, op: moe.GateGradientOp, args: PythonValues
    ) -> PythonValues:
        back, dout, routes = cast(tuple[PerRank, PerRank, list[RankRoute]], args)
        element = moe.tensor_type(op.dgate).element_type
        products = [
            (rows[route.position] * own[:, None, :]).sum(axis=2)
            for rows, own, route in zip(back, dout, routes, strict=True)
        ]
        return ([rounded(product, element) for product in products],)


def send(rows: Array, received: PerRank, route: RankRoute) -> None:
    """Writes `rows`, in send order, to their positions in `received` of the experts' ranks."""
    for expert in range(route.dest_begin.size):
        sent = rows[route.sent_rows(expert)]
        begin = int(route.dest_begin[expert])
        received[expert // route.local_experts][begin : begin + len(sent)] = sent


def send_back(rows: Array, back: PerRank, route: RankRoute) -> None:
    """Writes `rows`, in receive order, to their positions in send order in `back` of each rank."""
    for expert in range(route.local_experts):
        for source in range(route.ranks):
            returned = rows[route.received_rows(expert, source)]
            begin = int(route.return_begin[expert * route.ranks + source])
            back[source][begin : begin + len(returned)] = returned


def _grouped(rows: Array, weights: Array, route: RankRoute) -> Array:
    result = np.full((len(rows), weights.shape[2]), np.nan, rows.dtype)
    for expert in range(route.local_experts):
        part = route.expert_rows(expert)
        result[part] = rows[part] @ weights[expert]
    return result


def _gradients(lhs: Array, rhs: Array, route: RankRoute) -> Array:
    parts = [route.expert_rows(expert) for expert in range(route.local_experts)]
    return np.stack([lhs[part].T @ rhs[part] for part in parts])


def _swiglu(h: Array) -> Array:
    gate, up = np.split(h, 2, axis=1)
    # exp overflows to infinity for very negative gates; the quotient is then correctly 0.
    with np.errstate(over="ignore"):
        return gate / (1 + np.exp(-gate)) * up


def _swiglu_grad(h: Array, da: Array) -> Array:
    gate, up = np.split(h, 2, axis=1)
    with np.errstate(over="ignore"):
        s = 1 / (1 + np.exp(-gate))
    return np.concatenate([da * up * s * (1 + gate * (1 - s)), da * gate * s], axis=1)


def _collected(y: PerRank, routes: list[RankRoute], element: Attribute) -> PerRank:
    back = [fresh((route.order.size, y[0].shape[1]), element) for route in routes]
    for rows, route in zip(y, routes, strict=True):
        send_back(rows, back, route)
    return back


def _sums(back: PerRank, weights: PerRank, routes: list[RankRoute], element: Attribute) -> PerRank:
    """Returns `sum over k of weights[t, k] * back[position[t, k]]`, summed in order of k."""
    results: PerRank = []
    for rows, weight, route in zip(back, weights, routes, strict=True):
        result = np.zeros((len(weight), rows.shape[1]), numpy_type(element))
        for k in range(route.position.shape[1]):
            result += weight[:, k : k + 1].astype(result.dtype) * rows[route.position[:, k]]
        results.append(rounded(result, element))
    return results
