"""Execution of the `comm` dialect in NumPy, all ranks in lock step.

The value of a window is a list of arrays, the memory of each rank; puts write into it, and a wait
returns the written rows. Memory is fresh in each run, so a `per_launch` window needs only one of
its two copies.
"""

from __future__ import annotations

from typing import TypeAlias, cast

from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls

from hpmoe_ir.dialects import comm
from hpmoe_ir.dialects.moe import route_type, tensor_type
from hpmoe_ir.interpreter.moe import check_ranks, send, send_back, weighted_rows
from hpmoe_ir.interpreter.route import RankRoute, check_expert_ids, count_tokens, make_route
from hpmoe_ir.interpreter.values import PerRank, capacity_shape, fresh

Token: TypeAlias = list[int]
"""The value of a token: the number of rows written to each rank's window."""


@register_impls
class CommFunctions(InterpreterFunctions):
    """Interpreter functions of the `comm` dialect."""

    def __init__(self, ranks: int):
        self.ranks = ranks

    @impl(comm.WindowOp)
    def run_window(
        self, interpreter: Interpreter, op: comm.WindowOp, args: PythonValues
    ) -> PythonValues:
        content = comm.window_content(op.window)
        shape = capacity_shape(content)
        return ([fresh(shape, content.element_type) for _ in range(self.ranks)],)

    @impl(comm.CountTokensOp)
    def run_count_tokens(
        self, interpreter: Interpreter, op: comm.CountTokensOp, args: PythonValues
    ) -> PythonValues:
        experts = tensor_type(op.counts).get_shape()[1]
        ids = cast(PerRank, args[0])
        check_expert_ids(ids, experts)
        return ([count_tokens(own, experts) for own in ids],)

    @impl(comm.ExchangeOp)
    def run_exchange(
        self, interpreter: Interpreter, op: comm.ExchangeOp, args: PythonValues
    ) -> PythonValues:
        counts, window = cast(tuple[PerRank, PerRank], args)
        check_ranks(counts, window[0].shape[0])
        for rank, own in enumerate(counts):
            for memory in window:
                memory[rank] = own
        return ([len(counts)] * len(window),)

    @impl(comm.RouteOp)
    def run_route(
        self, interpreter: Interpreter, op: comm.RouteOp, args: PythonValues
    ) -> PythonValues:
        ids, counts = cast(tuple[PerRank, PerRank], args)
        type = route_type(op.route)
        routes = zip(ids, counts, strict=True)
        return ([make_route(own, all, rank, type) for rank, (own, all) in enumerate(routes)],)

    @impl(comm.PutOp)
    def run_put(self, interpreter: Interpreter, op: comm.PutOp, args: PythonValues) -> PythonValues:
        x, window, routes = cast(tuple[PerRank, PerRank, list[RankRoute]], args[:3])
        if op.gate is not None:
            element = tensor_type(op.x).element_type
            for rows, gate, route in zip(x, cast(PerRank, args[3]), routes, strict=True):
                send(weighted_rows(rows, gate, route, element), window, route)
            return ([route.received for route in routes],)
        if op.direction.data is comm.Direction.DISPATCH:
            for rows, route in zip(x, routes, strict=True):
                send(rows[route.tokens], window, route)
            return ([route.received for route in routes],)
        for rows, route in zip(x, routes, strict=True):
            send_back(rows, window, route)
        return ([route.order.size for route in routes],)

    @impl(comm.WaitOp)
    def run_wait(
        self, interpreter: Interpreter, op: comm.WaitOp, args: PythonValues
    ) -> PythonValues:
        window, written = cast(tuple[PerRank, Token], args)
        return ([memory[:rows] for memory, rows in zip(window, written, strict=True)],)
