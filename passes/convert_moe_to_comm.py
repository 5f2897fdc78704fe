"""`convert-moe-to-comm`: lowers routed tensors to one-sided puts into other ranks' windows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from hpmoe_ir.dialects import comm, moe
from hpmoe_ir.dialects.moe.checks import rows_like
from hpmoe_ir.passes.analysis.level import require_level


@dataclass
class WindowNames:
    """Generator of unique window names within a function: recv, recv_1, recv_2."""

    used: Counter[tuple[Block | None, str]] = field(
        default_factory=Counter[tuple[Block | None, str]]
    )

    def fresh(self, stem: str, user: Operation) -> str:
        """Returns an unused name that begins with `stem`, for the window that replaces `user`."""
        count = self.used[user.parent, stem]
        self.used[user.parent, stem] += 1
        return f"{stem}_{count}" if count else stem


def _replace(rewriter: PatternRewriter, old: Operation, new: list[Operation]) -> None:
    """Replaces `old` by `new`; the last of `new` inherits the name and location of `old`."""
    for op in new:
        op.location = old.location
    new[-1].results[0].name_hint = old.results[0].name_hint
    rewriter.replace(old, new)


def _named(op: Operation, hint: str) -> Operation:
    op.results[0].name_hint = hint
    return op


@dataclass
class AnnounceCounts(RewritePattern):
    """Rewrites `moe.route` as an exchange of token counts between all ranks."""

    names: WindowNames

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: moe.RouteOp, rewriter: PatternRewriter) -> None:
        route = moe.route_type(op.route)
        name = self.names.fresh("counts", op)
        window = comm.WindowOp(name, comm.all_counts_type(route), per_launch=True)
        own = comm.CountTokensOp(op.ids, route)
        exchange = comm.ExchangeOp(own, window)
        wait = comm.WaitOp(window, exchange)
        made = comm.RouteOp(op.ids, wait, route)
        _named(window, name)
        _named(own, "own_counts")
        _named(exchange, "announced")
        _named(wait, "all_counts")
        _replace(rewriter, op, [window, own, exchange, wait, made])


@dataclass
class PutTokens(RewritePattern):
    """Rewrites `moe.dispatch` as puts into the windows of the experts' ranks, and a wait."""

    names: WindowNames

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: moe.DispatchOp, rewriter: PatternRewriter) -> None:
        name = self.names.fresh("recv", op)
        window = comm.WindowOp(name, moe.tensor_type(op.received))
        put = comm.PutOp(comm.Direction.DISPATCH, op.x, window, op.route)
        _named(window, f"{name}_window")
        _named(put, "sent")
        _replace(rewriter, op, [window, put, comm.WaitOp(window, put)])


@dataclass
class PutWeightedTokens(RewritePattern):
    """Rewrites `moe.dispatch_weighted` as weighted puts into receive windows, and a wait."""

    names: WindowNames

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: moe.DispatchWeightedOp, rewriter: PatternRewriter) -> None:
        name = self.names.fresh("recv", op)
        window = comm.WindowOp(name, moe.tensor_type(op.received))
        put = comm.PutOp(comm.Direction.DISPATCH, op.x, window, op.route, op.gate)
        _named(window, f"{name}_window")
        _named(put, "sent")
        _replace(rewriter, op, [window, put, comm.WaitOp(window, put)])


@dataclass
class ReturnRows(RewritePattern):
    """Rewrites `moe.collect` as puts into the return windows of the tokens' ranks, and a wait;
    `moe.combine` likewise, followed by a `moe.weighted_sum`."""

    names: WindowNames

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, moe.CollectOp | moe.CombineOp):
            return
        name = self.names.fresh("back", op)
        content = rows_like(moe.route_type(op.route).sent_rows, moe.tensor_type(op.y))
        window = comm.WindowOp(name, content)
        put = comm.PutOp(comm.Direction.RETURN, op.y, window, op.route)
        wait = comm.WaitOp(window, put)
        _named(window, f"{name}_window")
        _named(put, "returned")
        if isinstance(op, moe.CollectOp):
            _replace(rewriter, op, [window, put, wait])
            return
        _named(wait, name)
        _replace(rewriter, op, [window, put, wait, moe.WeightedSumOp(wait, op.gate, op.route)])


@dataclass(frozen=True)
class ConvertMoeToCommPass(ModulePass):
    """Makes the communication between ranks explicit and leaves the computation unchanged.

    Each `moe.route` becomes an exchange of token counts. Each `moe.dispatch`,
    `moe.dispatch_weighted`, `moe.collect` and `moe.combine` becomes puts into a window of its own,
    followed by a wait for the puts of all ranks.

    Needs a module at the `moe` level. Promises that none of these operations is left, and that each
    put uses a route and therefore comes after the wait for the counts of all ranks. A rank sends
    its counts only once it has started the launch, so at a put every rank has finished the previous
    launch: windows of rows need one copy. The window of counts has two, used in alternate launches,
    because a rank may send its counts while a peer still reads those of the previous launch.

    ```
    %route = moe.route %ids
    %recv = moe.dispatch %x by %route
    %out = moe.combine %recv, %gate by %route
    ```
    becomes
    ```
    %counts = comm.window "counts" per_launch
    %own_counts = comm.count_tokens %ids
    %announced = comm.exchange %own_counts into %counts
    %all_counts = comm.wait %counts after %announced
    %route = comm.route %ids, %all_counts
    %recv_window = comm.window "recv"
    %sent = comm.put dispatch %x into %recv_window by %route
    %recv = comm.wait %recv_window after %sent
    %back_window = comm.window "back"
    %returned = comm.put return %recv into %back_window by %route
    %back = comm.wait %back_window after %returned
    %out = moe.weighted_sum %back, %gate by %route
    ```
    """

    name = "convert-moe-to-comm"
    leaves_level = "moe"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        require_level(op, "moe", self.name)
        names = WindowNames()
        patterns: list[RewritePattern] = [
            AnnounceCounts(names),
            PutTokens(names),
            PutWeightedTokens(names),
            ReturnRows(names),
        ]
        applier = GreedyRewritePatternApplier(patterns, dce_enabled=False)
        PatternRewriteWalker(applier, apply_recursively=False).rewrite_module(op)
