"""`convert-comm-to-tile`: from tensors and windows to buffers and families of tile tasks."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.comm import RouteOp
from hpmoe_ir.dialects.moe import GroupedMatmulOp, route_type
from hpmoe_ir.dialects.placement import AnyTensor, GroupedAttr, RouteType
from hpmoe_ir.dialects.tile import SPACES, BufferOp, ProgramOp
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.kernels.matmul_tile import (
    MatmulTile,
    TileSizeError,
    check_matmul_tile,
    largest_matmul_tile,
)
from hpmoe_ir.machines.machine import Machine, MachineError, load_machine
from hpmoe_ir.passes.analysis.level import require_level
from hpmoe_ir.passes.tiling.context import Partition, Tiling, buffer_type_of
from hpmoe_ir.passes.tiling.layer_ops import tile_operation

MAX_GROUPS = 8
"""Source groups by default, where there are more ranks: finer parts cost more waiting than they
save once a part is smaller than a matrix tile."""

MIN_TOKENS = 16
"""Tokens that a part should have at least, by default."""


@dataclass(frozen=True)
class ConvertCommToTilePass(ModulePass):
    """Makes a `tile.program` of each function: buffers, and tasks with the regions they use.

    An expert's rows are cut into `source_groups` groups of source ranks, each into `row_chunks`
    chunks; matrix tasks take `task_cols` columns of one such part. Puts are cut by peer, expert
    and `put_chunks`; work on tokens into `token_chunks`. 0 leaves a number to the pass: the largest
    matrix tile that fits the machine's L0 with two buffers, up to 8 groups, one chunk, columns for
    four tasks a matrix core, and parts of 16 tokens or more for all vector cores.

    With `last_experts=n`, the last n experts of a rank are cut finer than the others: their last
    product and the puts after it have `return_cols` columns, as the sums over a token's copies,
    while the other experts' rows go back whole. Sums can so begin before the last product ends.

    `put_rows` and `vector_rows` say how many rows a task has at most rather than how many parts
    there are: there are then as many parts as the most rows that can come need, and those beyond
    the rows that do come are empty. With `matrix_shares=n`, n tasks share each product of an expert
    and group: task i does tiles i, i + n and so on of it, however many rows there are. With
    `plain-products=true` matrix tasks run kernels that use L1 for double buffers alone, and L0C as
    CANN's grouped matmul does (`plain_grouped_matmul`), as other systems' do.

    Needs a module at the `comm` level whose activations are bf16 or f16. Promises that tasks of one
    family write different parts, and that families are in an order in which they may be run one
    after the other.

    ```
    %a = moe.swiglu %h : tensor<?x64xbf16, #moe.grouped<256 rows>> -> ...
    ```
    becomes
    ```
    tile.buffer @a workspace : !tile.buffer<grouped 256 rows, 32xbf16>
    tile.tasks @swiglu (e, g, c) in (2, 2, 1) on aiv
      kernel "swiglu" using @route
      reads @h[grouped(e, g of 2), :]
      writes @a[grouped(e, g of 2), :]
    ```
    """

    name = "convert-comm-to-tile"

    machine: str = "ascend-a3"
    """The machine description."""
    source_groups: int = 0
    """Groups of source ranks, at most the number of ranks."""
    row_chunks: int = 1
    """Chunks of the rows of an expert and group, cut at multiples of tile_m."""
    put_chunks: int = 1
    """Chunks of the rows from one rank to one expert."""
    token_chunks: int = 0
    """Parts of a rank's tokens."""
    put_rows: int = 0
    """Most rows of a put, instead of put_chunks."""
    return_cols: int = 0
    """Columns of a put on the way back and of a sum over a token's copies, a multiple of 16."""
    last_experts: int = 0
    """Last local experts that return_cols cuts on the way back, their last product too; 0: all
    experts, but not their products."""
    vector_rows: int = 0
    """Most rows of a vector task on an expert's rows, instead of row_chunks."""
    vector_chunks: int = 0
    """Equal parts of the rows of an expert and group for vector tasks, instead of row_chunks."""
    matrix_shares: int = 0
    """Matrix tasks that share a product, instead of task_cols."""
    task_cols: int = 0
    """Columns of a matrix task, a multiple of 16."""
    gradient_cols: int = 0
    """Columns of a task of a weight gradient, a multiple of 16; 0: as task_cols says. Narrow tasks
    of one expert read the same rows at a time, so that L2 holds what they read again."""
    last_gradients: int = 0
    """Last local experts that gradient_cols cuts; 0: all. The last tasks are then short, so that
    cores end together, and the others are as fast as they can be."""
    tile_m: int = 0
    """Rows of a matrix tile."""
    tile_n: int = 0
    """Columns of a matrix tile."""
    tile_k: int = 0
    """Depth of a matrix tile."""
    plain_products: bool = False
    """Whether matrix tasks run kernels that use a core as CANN's grouped matmul does."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        require_level(op, "comm", self.name)
        try:
            machine = load_machine(self.machine)
        except MachineError as e:
            raise PassFailedException(f"{self.name}: option machine: {e}") from e
        for function in list(op.ops):
            if not isinstance(function, FuncOp):
                refuse(function, f"{self.name}: expected functions only, found {function.name}")
            program = self._convert(function, machine)
            block = function.parent_block()
            assert block is not None
            block.insert_op_before(program, function)
            function.detach()
            function.erase()

    def _partition(self, route: RouteType, machine: Machine) -> Partition:
        largest = largest_matmul_tile(machine)
        tile = MatmulTile(
            self.tile_m or largest.m, self.tile_n or largest.n, self.tile_k or largest.k
        )
        try:
            check_matmul_tile(tile, machine)
        except TileSizeError as e:
            raise PassFailedException(f"{self.name}: {e}") from e
        ranks, tokens = route.ranks.data, route.tokens.data
        for name, value, lowest, highest in (
            ("source_groups", self.source_groups, 0, ranks),
            ("row_chunks", self.row_chunks, 1, 1 << 20),
            ("put_chunks", self.put_chunks, 1, 1 << 20),
            ("token_chunks", self.token_chunks, 0, tokens),
            ("put_rows", self.put_rows, 0, 1 << 20),
            ("return_cols", self.return_cols, 0, 1 << 20),
            ("last_experts", self.last_experts, 0, route.local_experts),
            ("vector_rows", self.vector_rows, 0, 1 << 20),
            ("vector_chunks", self.vector_chunks, 0, 1 << 20),
            ("matrix_shares", self.matrix_shares, 0, 1 << 20),
            ("task_cols", self.task_cols, 0, 1 << 20),
            ("gradient_cols", self.gradient_cols, 0, 1 << 20),
            ("last_gradients", self.last_gradients, 0, route.local_experts),
        ):
            if not lowest <= value <= highest:
                raise PassFailedException(
                    f"{self.name}: option {name}: expected {lowest} to {highest}, found {value}"
                )
        for name, value in (
            ("task_cols", self.task_cols),
            ("gradient_cols", self.gradient_cols),
            ("return_cols", self.return_cols),
        ):
            if value % 16:
                raise PassFailedException(
                    f"{self.name}: option {name}: expected a multiple of 16, found {value}"
                )
        if self.last_experts and not self.return_cols:
            raise PassFailedException(
                f"{self.name}: option last_experts: expected return_cols with it, into which the "
                "way back of these experts is cut"
            )
        if self.last_gradients and not self.gradient_cols:
            raise PassFailedException(
                f"{self.name}: option last_gradients: expected gradient_cols with it, into which "
                "the weight gradients of these experts are cut"
            )
        if self.last_experts and self.matrix_shares:
            raise PassFailedException(
                f"{self.name}: options last_experts and matrix_shares: expected one of them"
            )
        for one, value, other, default in (
            ("put_rows", self.put_rows, "put_chunks", self.put_chunks == 1),
            ("vector_rows", self.vector_rows, "vector_chunks", self.vector_chunks == 0),
            ("matrix_shares", self.matrix_shares, "task_cols", self.task_cols == 0),
            ("matrix_shares", self.matrix_shares, "gradient_cols", self.gradient_cols == 0),
        ):
            if value and not default:
                raise PassFailedException(
                    f"{self.name}: options {one} and {other}: expected one of them"
                )
        return Partition(
            source_groups=self.source_groups or min(ranks, MAX_GROUPS),
            row_chunks=self.row_chunks,
            put_chunks=self.put_chunks,
            token_chunks=self.token_chunks or min(machine.aiv_cores, ceil_div(tokens, MIN_TOKENS)),
            task_cols=self.task_cols,
            gradient_cols=self.gradient_cols,
            last_gradients=self.last_gradients,
            put_rows=self.put_rows,
            return_cols=self.return_cols,
            last_experts=self.last_experts,
            vector_rows=self.vector_rows,
            vector_chunks=self.vector_chunks,
            matrix_shares=self.matrix_shares,
            matmul=tile,
            plain_products=self.plain_products,
        )

    def _convert(self, function: FuncOp, machine: Machine) -> ProgramOp:
        routes = [route_type(o.route) for o in function.body.walk() if isinstance(o, RouteOp)]
        if not routes:
            refuse(
                function,
                f"{self.name}: @{function.sym_name.data} has no comm.route, there is nothing to "
                "spread over ranks",
            )
        if len(routes) > 1:
            refuse(
                function,
                f"{self.name}: @{function.sym_name.data} has {len(routes)} routes, one "
                "is supported",
            )
        tiling = Tiling(machine, self._partition(routes[0], machine), routes[0].ranks.data)
        block = function.body.block
        for i, argument in enumerate(block.args):
            if not isa(argument.type, AnyTensor):
                refuse(
                    function,
                    f"{self.name}: argument {i} of @{function.sym_name.data}: expected a tensor, "
                    f"found {argument.type}",
                )
            stem = argument.name_hint or f"arg{i}"
            type = buffer_type_of(argument.type)
            tiling.places[argument] = tiling.buffer(stem, "input", type)
        _declare_outputs(function, tiling)
        for found in block.ops:
            _check_elements(found)
            if isinstance(found, ReturnOp):
                continue
            if not tile_operation(found, tiling):
                refuse(
                    found,
                    f"{self.name}: {found.name} has no tiling; give it the trait HasTilingTrait",
                )
        return ProgramOp(
            function.sym_name.data,
            tiling.ranks,
            [*_in_argument_order(tiling), *tiling.families, *tiling.last_families],
        )


def _declare_outputs(function: FuncOp, tiling: Tiling) -> None:
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    for i, value in enumerate(last.arguments):
        if not isinstance(value.owner, Operation):
            refuse(
                function,
                f"convert-comm-to-tile: @{function.sym_name.data} returns as value {i} what it "
                "does not compute; outputs must be results of tasks",
            )
        if value in tiling.outputs:
            refuse(
                function, f"convert-comm-to-tile: @{function.sym_name.data} returns value {i} twice"
            )
        assert isa(value.type, AnyTensor)
        stem = value.name_hint or f"out{i}"
        tiling.outputs[value] = tiling.buffer(stem, "output", buffer_type_of(value.type))
    # What a sum is added into is in the sum's buffer from the start.
    for op in reversed(function.body.block.ops):
        if (
            isinstance(op, GroupedMatmulOp)
            and op.accumulator is not None
            and op.product in tiling.outputs
        ):
            tiling.outputs.setdefault(op.accumulator, tiling.outputs[op.product])


def _in_argument_order(tiling: Tiling) -> list[BufferOp]:
    return sorted(tiling.buffers, key=lambda b: SPACES.index(b.space.data))


def _check_elements(op: Operation) -> None:
    for value in op.results:
        if isa(value.type, AnyTensor) and isinstance(value.type.encoding, GroupedAttr):
            element = value.type.element_type
            if not isinstance(element, BFloat16Type | Float16Type):
                refuse(
                    op,
                    f"convert-comm-to-tile: {op.name}: the kernels take bf16 or f16, found "
                    f"{element}",
                )
