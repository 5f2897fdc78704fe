"""Tilings of the operations of the dialects `comm` and `moe`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.dialects.builtin import i32
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects import comm, moe
from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    Chunk,
    GroupedRows,
    IndexSelector,
    SentRows,
    TokenRows,
    WholeSelector,
)
from hpmoe_ir.dialects.index import RANK
from hpmoe_ir.dialects.placement import AnyTensor, RouteType
from hpmoe_ir.dialects.rowwise import RowwiseTrait
from hpmoe_ir.dialects.tile import MemorySpace, TasksOp
from hpmoe_ir.dialects.tile.types import BufferType
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.kernels.device import FRACTAL
from hpmoe_ir.kernels.route_layout import WORDS_PER_LINE
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.tiling.context import (
    ExpertRange,
    HasTilingTrait,
    RouteBuffers,
    Tiling,
    buffer_type_of,
    even_part,
    rowwise_tasks,
)
from hpmoe_ir.passes.tiling.gradient_ops import GRADIENT_TILINGS, weight_gradient_tasks

WHOLE = WholeSelector()
D0, D1, D2, D3 = (AffineExpr.dimension(i) for i in range(4))
STATUS_WORDS = WORDS_PER_LINE
"""Size of the status in words: it is a copy of the header of the route."""


def window_tasks(op: comm.WindowOp, tiling: Tiling) -> None:
    """Adds the buffer of a `comm.window`, which peers write into; no tasks."""
    content = comm.window_content(op.window)
    type = buffer_type_of(content)
    if len(type.dims) == 3:
        # The token counts of all ranks, one row for each rank.
        ranks, rows, experts = type.dims
        type = BufferType((ranks, rows * experts), type.element_type)
    copies = 1 if op.per_launch is None else 2
    tiling.places[op.window] = tiling.buffer(op.buffer.data, MemorySpace.WINDOW, type, copies)


def count_tasks(op: comm.CountTokensOp, tiling: Tiling) -> None:
    """Tiles `comm.count_tokens`: one task for each part of the tokens; users add the counts."""
    parts = tiling.partition.token_chunks
    experts = moe.tensor_type(op.counts).get_shape()[1]
    counts = tiling.buffer("chunk_counts", MemorySpace.WORKSPACE, BufferType((parts, experts), i32))
    tiling.places[op.counts] = counts
    tiling.tasks(
        TasksOp(
            tiling.fresh("count"),
            [("b", parts)],
            CoreKind.AIV,
            "count_tokens",
            [Access(tiling.place(op.ids), (TokenRows(D0, parts), WHOLE))],
            [Access(counts, (IndexSelector(D0), WHOLE))],
        )
    )


def exchange_tasks(op: comm.ExchangeOp, tiling: Tiling) -> None:
    """Tiles `comm.exchange`: one put to each rank."""
    tiling.tasks(
        TasksOp(
            tiling.fresh("exchange"),
            [("p", tiling.ranks)],
            CoreKind.AIV,
            "exchange_counts",
            [Access(tiling.place(op.counts), (WHOLE, WHOLE))],
            [Access(tiling.place(op.window), (IndexSelector(RANK), WHOLE), peer=D0)],
        )
    )


def route_tasks(op: comm.RouteOp, tiling: Tiling) -> None:
    """Tiles `comm.route`: this rank's send order, and row ranges from the counts of all ranks."""
    type = moe.route_type(op.route)
    parts = tiling.partition.token_chunks
    exchanged = op.all_counts.owner
    announced = exchanged.token.owner if isinstance(exchanged, comm.WaitOp) else None
    if not isinstance(announced, comm.ExchangeOp):
        refuse(
            op,
            "convert-comm-to-tile: comm.route needs the counts of an exchange, found those of "
            f"{exchanged.name if isinstance(exchanged, Operation) else 'an argument'}",
        )
    chunk_counts = tiling.place(announced.counts)
    rows = type.tokens.data * type.top.data
    route = tiling.buffer(op.route.name_hint or "route", MemorySpace.WORKSPACE, type)
    order = tiling.buffer("order", MemorySpace.WORKSPACE, BufferType((rows,), i32, "sent"))
    position = tiling.buffer(
        "position",
        MemorySpace.WORKSPACE,
        BufferType((type.tokens.data, type.top.data), i32, "tokens"),
    )
    status = tiling.buffer("status", MemorySpace.OUTPUT, BufferType((STATUS_WORDS,), i32))
    tiling.status = status
    tiling.routes[op.route] = RouteBuffers(type, route, order, position)
    tokens = TokenRows(D0, parts)
    tiling.tasks(
        TasksOp(
            tiling.fresh("place"),
            [("b", parts)],
            CoreKind.AIV,
            "place_tokens",
            [
                Access(tiling.place(op.ids), (tokens, WHOLE)),
                Access(chunk_counts, (WHOLE, WHOLE)),
            ],
            [Access(order, (WHOLE,), scatter=True), Access(position, (tokens, WHOLE))],
            scalars=[D0],
        )
    )
    tiling.tasks(
        TasksOp(
            tiling.fresh("build_route"),
            [],
            CoreKind.AIV,
            "build_route",
            [Access(tiling.place(op.all_counts), (WHOLE, WHOLE))],
            [Access(route, (WHOLE,)), Access(status, (WHOLE,))],
            scalars=[RANK, AffineExpr.constant(type.rows.data)],
        )
    )


def put_tasks(op: comm.PutOp, tiling: Tiling) -> None:
    """Tiles `comm.put`: one task for each peer, expert, chunk and, for returns, column block.

    With `reorder_rows`, the rows that it sends are first copied into the order in which they are
    sent.
    """
    route = tiling.routes[op.route]
    local, ranks = route.type.local_experts, tiling.ranks
    chunk = tiling.put_chunk(route.type, D2)
    source, target = tiling.place(op.x), tiling.place(op.window)
    if op.direction.data is comm.Direction.DISPATCH:
        _dispatch_tasks(op, route, chunk, source, target, tiling)
        return
    if tiling.partition.reorder_rows:
        source = _copied_rows(source, moe.tensor_type(op.x), route, "unsorted", "unsort", tiling)
    width = moe.tensor_type(op.x).get_shape()[-1]
    for experts in tiling.way_back(route.type, width):
        cols, blocks = tiling.return_blocks(width, D3, experts.cols)
        grid = experts.grid([("e", local), ("s", ranks), ("c", chunk.count), *blocks])
        read = Access(source, (GroupedRows(D0, D1, ranks, chunk), cols))
        expert = RANK * local + experts.first + D0 if experts.first else RANK * local + D0
        written = Access(target, (SentRows(expert, chunk), cols), peer=D1)
        tiling.tasks(
            TasksOp(
                tiling.fresh("return"),
                grid,
                CoreKind.AIV,
                "copy_rows",
                [experts.access(read)],
                [written],
                route=route.route,
            )
        )


def _dispatch_tasks(
    op: comm.PutOp, route: RouteBuffers, chunk: Chunk, source: str, target: str, tiling: Tiling
) -> None:
    """Tiles a dispatch: tasks gather the rows that they put or, with `reorder_rows`, others have
    gathered them before."""
    local, ranks = route.type.local_experts, tiling.ranks
    weights = [] if op.gate is None else [Access(tiling.place(op.gate), (WHOLE, WHOLE))]
    sent = SentRows(D0 * local + D1, chunk)
    gather = "gather_scaled_rows" if weights else "gather_rows"
    gathered = [Access(source, (WHOLE, WHOLE)), *weights, Access(route.order, (sent,))]
    top = [AffineExpr.constant(route.type.top.data)]
    written = Access(target, (GroupedRows(D1, RANK, ranks, chunk), WHOLE), peer=D0)
    steps: list[tuple[str, str, list[Access], Access, list[AffineExpr]]]
    steps = [("dispatch", gather, gathered, written, top)]
    if tiling.partition.reorder_rows:
        x = moe.tensor_type(op.x)
        rows = route.type.tokens.data * route.type.top.data
        type = BufferType((rows, x.get_shape()[-1]), x.element_type, "sent")
        permuted = Access(tiling.buffer("permuted", MemorySpace.WORKSPACE, type), (sent, WHOLE))
        steps = [
            ("permute", gather, gathered, permuted, top),
            ("dispatch", "copy_rows", [permuted], written, []),
        ]
    for name, kernel, reads, write, scalars in steps:
        tiling.tasks(
            TasksOp(
                tiling.fresh(name),
                [("p", ranks), ("e", local), ("c", chunk.count)],
                CoreKind.AIV,
                kernel,
                reads,
                [write],
                route=route.route,
                scalars=scalars,
            )
        )


def wait_tasks(op: comm.WaitOp, tiling: Tiling) -> None:
    """Tiles `comm.wait`: no tasks, since readers of the window depend on the puts by accesses.

    With `reorder_rows`, received rows are copied into the order of the experts. A window that is a
    result of the function is copied, as the next launch overwrites it.
    """
    window = tiling.place(op.window)
    tiling.places[op.content] = window
    saved = tiling.outputs.get(op.content)
    put = op.token.owner
    if (
        tiling.partition.reorder_rows
        and isinstance(put, comm.PutOp)
        and put.direction.data is comm.Direction.DISPATCH
    ):
        content = moe.tensor_type(op.content)
        window = _copied_rows(window, content, tiling.routes[put.route], "sorted", "sort", tiling)
        tiling.places[op.content] = window
    if saved is None:
        return
    if not isinstance(put, comm.PutOp):
        refuse(op, "convert-comm-to-tile: only windows of rows can be results of a function")
    route = tiling.routes[put.route]
    if put.direction.data is comm.Direction.DISPATCH:
        grid, rows = tiling.vector_grid(route.type), tiling.vector_rows(route.type)
    else:
        grid, rows = [("x", route.type.experts.data)], SentRows(D0)
    tiling.last_families.append(
        TasksOp(
            tiling.fresh(f"save_{saved}"),
            grid,
            CoreKind.AIV,
            "copy_rows",
            [Access(window, (rows, WHOLE))],
            [Access(saved, (rows, WHOLE))],
            route=route.route,
        )
    )


def _copied_rows(
    source: str, tensor: AnyTensor, route: RouteBuffers, buffer: str, family: str, tiling: Tiling
) -> str:
    """Adds a family that copies the experts' rows into a buffer of its own; returns its name.

    Stands for the re-sort of rows by expert after an all-to-all, and back before one. The rows are
    in the same order in both buffers, as puts write them where the experts read them; a re-sort
    moves as many bytes.
    """
    copied = tiling.buffer(buffer, MemorySpace.WORKSPACE, buffer_type_of(tensor))
    rows = tiling.vector_rows(route.type)
    tiling.tasks(
        TasksOp(
            tiling.fresh(family),
            tiling.vector_grid(route.type),
            CoreKind.AIV,
            "copy_rows",
            [Access(source, (rows, WHOLE))],
            [Access(copied, (rows, WHOLE))],
            route=route.route,
        )
    )
    return copied


def matmul_tasks(op: moe.GroupedMatmulOp, tiling: Tiling) -> None:
    """Tiles a matmul: one task for each part of an expert's rows and column block, or share."""
    if op.transpose_lhs is not None:
        weight_gradient_tasks(op, tiling)
        return
    route = tiling.routes[op.route]
    columns = moe.tensor_type(op.product).get_shape()[-1]
    depth = moe.tensor_type(op.lhs).get_shape()[-1]
    for what, size in (("rows", depth), ("result", columns)):
        if size % FRACTAL:
            refuse(
                op,
                f"convert-comm-to-tile: moe.grouped_matmul: the width of the {what} must be a "
                f"multiple of {FRACTAL}, found {size}",
            )
    shares = tiling.partition.matrix_shares
    block = tiling.partition.task_cols or _task_cols(tiling, route.type, columns)
    transposed = op.transpose_rhs is not None
    rows = tiling.matrix_rows()
    tile = tiling.partition.matmul
    grid = tiling.matrix_grid(route.type)
    across = AffineExpr.dimension(len(grid))
    goes_back = any(_is_return(use.operation) for use in op.product.uses)
    whole = [ExpertRange(0, route.type.local_experts, 0)]
    result = tiling.result(op.product, "product")
    for experts in tiling.way_back(route.type, columns) if goes_back else whole:
        # The experts before the last ones have tasks as wide as without `last_experts`.
        wide = experts.cols if experts.first else block
        if goes_back and tiling.partition.row_tiles:
            # All tiles of a block of columns come before the next block.
            wide = tiling.partition.return_cols or block
        cols = WHOLE if shares else BlockSelector(across, wide)
        last = ("i", shares) if shares else ("n", ceil_div(columns, wide))
        expert = tiling.matrix_expert()
        weights = (expert, cols, WHOLE) if transposed else (expert, WHOLE, cols)
        tiling.tasks(
            TasksOp(
                tiling.fresh("matmul"),
                [*grid, last] if tiling.partition.row_tiles else experts.grid([*grid, last]),
                CoreKind.AIC,
                tiling.partition.matrix_kernel("grouped_matmul"),
                [
                    experts.access(Access(tiling.place(op.lhs), (rows, WHOLE))),
                    experts.access(Access(tiling.place(op.rhs), weights)),
                ],
                [experts.access(Access(result, (rows, cols), scatter=shares > 0))],
                {
                    "tile_m": tile.m,
                    "tile_n": tile.n,
                    "tile_k": tile.k,
                    "transpose_rhs": int(transposed),
                },
                route.route,
                [across, AffineExpr.constant(shares)] if shares else [],
            )
        )


def _is_return(op: Operation) -> bool:
    """Whether an operation returns experts' rows to the ranks of their tokens."""
    return isinstance(op, comm.PutOp) and op.direction.data is not comm.Direction.DISPATCH


def _task_cols(tiling: Tiling, route: RouteType, columns: int) -> int:
    """Returns the default columns of a matrix task.

    As many tile widths as leave four tasks for each AIC: few enough tasks to limit the cost of
    starting them, enough to keep all cores busy when parts have different numbers of rows. Tiles
    that the route numbers are dealt in turn, so that cores differ by a whole task: 40 are left.
    """
    width = tiling.partition.matmul.n
    parts = prod(extent for _, extent in tiling.matrix_grid(route))
    wanted = 4
    if tiling.partition.row_tiles:
        rows = route.tokens.data * route.top.data
        parts, wanted = ceil_div(rows, tiling.partition.matmul.m), 40
    across = ceil_div(columns, width)
    most = max(1, parts * across // (wanted * tiling.machine.aic_cores))
    return width * even_part(across, most)


def weighted_sum_tasks(op: moe.WeightedSumOp, tiling: Tiling) -> None:
    """Tiles `moe.weighted_sum`: one task for each part of the tokens and block of columns."""
    route = tiling.routes[op.route]
    parts = tiling.partition.token_chunks
    tokens = TokenRows(D0, parts)
    cols, grid = tiling.return_blocks(moe.tensor_type(op.out).get_shape()[-1], D1)
    tiling.tasks(
        TasksOp(
            tiling.fresh("weighted_sum"),
            [("b", parts), *grid],
            CoreKind.AIV,
            "weighted_sum",
            [
                Access(tiling.place(op.back), (WHOLE, cols)),
                Access(route.position, (tokens, WHOLE)),
                Access(tiling.place(op.gate), (tokens, WHOLE)),
            ],
            [Access(tiling.result(op.out, "out"), (tokens, cols))],
            route=route.route,
        )
    )


TILINGS: dict[type[Operation], Callable[..., None]] = {
    comm.WindowOp: window_tasks,
    comm.CountTokensOp: count_tasks,
    comm.ExchangeOp: exchange_tasks,
    comm.RouteOp: route_tasks,
    comm.PutOp: put_tasks,
    comm.WaitOp: wait_tasks,
    moe.GroupedMatmulOp: matmul_tasks,
    moe.WeightedSumOp: weighted_sum_tasks,
    **GRADIENT_TILINGS,
}
"""The tilings of the operations of `comm` and `moe` that are not row-wise."""


def tile_operation(op: Operation, tiling: Tiling) -> bool:
    """Adds the tasks of `op` to `tiling`; returns False if `op` has no tiling."""
    trait, rowwise = op.get_trait(HasTilingTrait), op.get_trait(RowwiseTrait)
    built_in = TILINGS.get(type(op))
    if trait is not None:
        trait.to_tasks(op, tiling)
    elif built_in is not None:
        built_in(op, tiling)
    elif rowwise is not None:
        rowwise_tasks(op, rowwise, tiling)
    else:
        return False
    return True
