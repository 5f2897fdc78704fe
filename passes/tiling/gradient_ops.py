"""Tilings of the operations that occur only in backward functions."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects import moe
from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    GroupedRows,
    IndexSelector,
    Selector,
    TokenRows,
    WholeSelector,
)
from hpmoe_ir.dialects.placement import GroupedAttr, RowsAttr, TokensAttr
from hpmoe_ir.dialects.rowwise import RowwiseTrait
from hpmoe_ir.dialects.tile import TasksOp
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.kernels.device import FRACTAL
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.tiling.context import Tiling, even_part, route_behind, rowwise_tasks

WHOLE = WholeSelector()
ZERO = AffineExpr.constant(0)
D0, D1, D2 = (AffineExpr.dimension(i) for i in range(3))


def sum_copies_tasks(op: moe.SumCopiesOp, tiling: Tiling) -> None:
    """Tiles `moe.sum_copies`: one task for each part of the tokens and block of columns."""
    route = tiling.routes[op.route]
    tokens = TokenRows(D0, tiling.partition.token_chunks)
    cols, grid = tiling.return_blocks(moe.tensor_type(op.out).get_shape()[-1], D1)
    tiling.tasks(
        TasksOp(
            tiling.fresh("sum_copies"),
            [("b", tokens.count), *grid],
            CoreKind.AIV,
            "sum_copies",
            [
                Access(tiling.place(op.back), (WHOLE, cols)),
                Access(route.position, (tokens, WHOLE)),
            ],
            [Access(tiling.result(op.out, "sum"), (tokens, cols))],
            route=route.route,
        )
    )


def gate_gradient_tasks(op: moe.GateGradientOp, tiling: Tiling) -> None:
    """Tiles `moe.gate_gradient`: one task for each part of the tokens."""
    route = tiling.routes[op.route]
    tokens = TokenRows(D0, tiling.partition.token_chunks)
    tiling.tasks(
        TasksOp(
            tiling.fresh("gate_gradient"),
            [("b", tokens.count)],
            CoreKind.AIV,
            "gate_gradient",
            [
                Access(tiling.place(op.back), (WHOLE, WHOLE)),
                Access(route.position, (tokens, WHOLE)),
                Access(tiling.place(op.dout), (tokens, WHOLE)),
            ],
            [Access(tiling.result(op.dgate, "dgate"), (tokens, WHOLE))],
            route=route.route,
        )
    )


def add_tasks(op: moe.AddOp, tiling: Tiling) -> None:
    """Tiles `moe.add`: one task for each part of the token rows, or of the experts' rows."""
    encoding, element = moe.tensor_type(op.lhs).encoding, moe.tensor_type(op.lhs).element_type
    if isinstance(encoding, RowsAttr) and not isinstance(element, BFloat16Type | Float16Type):
        refuse(op, f"convert-comm-to-tile: moe.add: no kernel is registered for sums of {element}")
    if isinstance(encoding, GroupedAttr):
        rowwise_tasks(op, RowwiseTrait("add_rows"), tiling)
        return
    if not isinstance(encoding, TokensAttr):
        refuse(op, f"convert-comm-to-tile: moe.add: no kernel is registered for rows of {encoding}")
    tokens = TokenRows(D0, tiling.partition.token_chunks)
    route = route_behind(op.operands, tiling)
    tiling.tasks(
        TasksOp(
            tiling.fresh("add"),
            [("b", tokens.count)],
            CoreKind.AIV,
            "add_rows",
            [
                Access(tiling.place(op.lhs), (tokens, WHOLE)),
                Access(tiling.place(op.rhs), (tokens, WHOLE)),
            ],
            [Access(tiling.result(op.sum, "sum"), (tokens, WHOLE))],
            # A launch that exceeds the capacity has nothing to add.
            route=None if route is None else route.route,
        )
    )


def weight_gradient_tasks(op: moe.GroupedMatmulOp, tiling: Tiling) -> None:
    """Tiles a weight gradient: one task for each expert and block, or for each share of the blocks.

    Each task sums over all rows of its expert. With an accumulator (an argument or an earlier sum)
    the block is added in place, in the accumulator's buffer.
    """
    route = tiling.routes[op.route]
    shape = moe.tensor_type(op.product).get_shape()
    tile = tiling.partition.matmul
    for what, size in (("lhs", shape[1]), ("rhs", shape[2])):
        if size % FRACTAL:
            refuse(
                op,
                f"convert-comm-to-tile: moe.grouped_matmul: the width of {what} must be a "
                f"multiple of {FRACTAL}, found {size}",
            )
    rows = GroupedRows(D0, ZERO, 1)
    shares = tiling.partition.matrix_shares
    if op.accumulator is not None:
        tiling.in_place(op, op.accumulator, op.product)
    else:
        tiling.result(op.product, "weight_gradient")
    for experts in tiling.gradients(route.type):
        lhs_cols, rhs_cols, grid = _gradient_blocks(tiling, shape, experts.cols)
        result = (IndexSelector(D0), lhs_cols, rhs_cols)
        tiling.tasks(
            TasksOp(
                tiling.fresh("weight_gradient"),
                [("e", experts.count), *grid],
                CoreKind.AIC,
                tiling.partition.matrix_kernel("weight_gradient"),
                [
                    experts.access(Access(tiling.place(op.lhs), (rows, lhs_cols))),
                    experts.access(Access(tiling.place(op.rhs), (rows, rhs_cols))),
                ],
                [experts.access(Access(tiling.place(op.product), result, scatter=shares > 0))],
                {
                    "tile_m": tile.m,
                    "tile_n": tile.n,
                    "tile_k": tile.k,
                    "accumulate": int(op.accumulator is not None),
                },
                route.route,
                [D1, AffineExpr.constant(shares)] if shares else [],
            )
        )


def _gradient_blocks(
    tiling: Tiling, shape: tuple[int, ...], cols: int
) -> tuple[Selector, Selector, list[tuple[str, int]]]:
    """Returns the row and column selectors of a task's part of a gradient, and the parts' grid.

    A task has `cols` columns; 0: `task_cols`, or as many tile widths as leave four tasks for each
    core.
    """
    shares, tile = tiling.partition.matrix_shares, tiling.partition.matmul
    if shares:
        return WHOLE, WHOLE, [("i", shares)]
    down = ceil_div(shape[1], tile.m)
    columns = cols or tiling.partition.task_cols
    if not columns:
        tiles = shape[0] * down * ceil_div(shape[2], tile.n)
        most = max(1, tiles // (4 * tiling.machine.aic_cores))
        columns = tile.n * even_part(ceil_div(shape[2], tile.n), most)
    grid = [("m", down), ("n", ceil_div(shape[2], columns))]
    return BlockSelector(D1, tile.m), BlockSelector(D2, columns), grid


GRADIENT_TILINGS: dict[type[Operation], Callable[..., None]] = {
    moe.SumCopiesOp: sum_copies_tasks,
    moe.GateGradientOp: gate_gradient_tasks,
    moe.AddOp: add_tasks,
}
"""The tilings of the operations that only gradients need."""
