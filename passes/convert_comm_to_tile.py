"""`convert-comm-to-tile`: lowers tensors and windows to buffers and families of tile tasks."""

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
from hpmoe_ir.dialects.moe import GroupedMatmulOp, forward_of, route_type, stated_roles
from hpmoe_ir.dialects.placement import AnyTensor, GroupedAttr
from hpmoe_ir.dialects.role import Role, RoleKind
from hpmoe_ir.dialects.tile import (
    BufferOp,
    MemorySpace,
    Parameter,
    ProgramOp,
    ProgramSignature,
)
from hpmoe_ir.kernels.machine_fit import MachineFitError
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.options.options import OptionError
from hpmoe_ir.passes.analysis.level import require_level
from hpmoe_ir.passes.tiling.context import Tiling, buffer_type_of
from hpmoe_ir.passes.tiling.layer_ops import tile_operation
from hpmoe_ir.passes.tiling.options import TilingOptions


@dataclass(frozen=True)
class ConvertCommToTilePass(TilingOptions, ModulePass):
    """Converts each function to a `tile.program`: buffers, and task families with their accesses.

    An expert's rows are cut into `source-groups` groups of source ranks, each into `row-chunks`
    chunks; a matrix task computes `task-cols` columns of one such part. Puts are split by peer,
    expert and `put-chunks`; work on tokens is split into `token-chunks`.

    With `last-experts=n`, the last n experts of a rank are cut finer than the others: their second
    matmul, the return puts after it and the sums over a token's copies have `return-cols` columns,
    while the rows of other experts return whole. Sums can then start before the last matmul ends.

    `put-rows` and `vector-rows` limit the rows of a task instead of fixing the number of parts:
    there are as many parts as the capacity needs, and parts past the actual row count are empty.
    With `matrix-shares=n`, n tasks share the matmul of each expert and group: task i computes tiles
    i, i + n, and so on, for any number of rows. With `matmul-kernels=cann-like`, matrix tasks run
    kernels that use L1 only for double buffers and L0C as CANN's grouped matmul does
    (`cann_like_grouped_matmul`).

    Needs a module at the `comm` level whose activations are bf16 or f16. Promises that tasks of one
    family write disjoint parts, that running the families one after another in program order is
    correct, and that the program lists its arguments and results in the function's order, with
    their roles, followed by the launch status. Buffers take the names of the values, if any.

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
    leaves_level = "comm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        require_level(op, "comm", self.name)
        machine = self.load_machine()
        for function in list(op.ops):
            if not isinstance(function, FuncOp):
                refuse(function, f"{self.name}: expected functions only, found {function.name}")
            program = self._convert(function, machine)
            program.location = function.location
            block = function.parent_block()
            assert block is not None
            block.insert_op_before(program, function)
            function.detach()
            function.erase()

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
        machine = machine.for_ranks(routes[0].ranks.data)
        try:
            options = self.for_route(routes[0], machine)
        except (OptionError, MachineFitError) as e:
            raise PassFailedException(f"{self.name}: {e}") from e
        tiling = Tiling(machine, options, routes[0].ranks.data)
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
            tiling.places[argument] = tiling.buffer(stem, MemorySpace.INPUT, type)
        _declare_outputs(function, tiling)
        for found in block.ops:
            _check_elements(found)
            if isinstance(found, ReturnOp):
                continue
            if not tile_operation(found, tiling):
                refuse(
                    found,
                    f"{self.name}: {found.name} has no tiling; give it the trait RowwiseTrait or "
                    "HasTilingTrait",
                )
        return ProgramOp(
            function.sym_name.data,
            tiling.ranks,
            [*_in_space_order(tiling), *tiling.families, *tiling.last_families],
            _signature(function, tiling),
            forward_of(function),
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
        tiling.outputs[value] = tiling.buffer(stem, MemorySpace.OUTPUT, buffer_type_of(value.type))
    # An accumulator shares its buffer with the sum from the start.
    for op in reversed(function.body.block.ops):
        if (
            isinstance(op, GroupedMatmulOp)
            and op.accumulator is not None
            and op.product in tiling.outputs
        ):
            tiling.outputs.setdefault(op.accumulator, tiling.outputs[op.product])


def _in_space_order(tiling: Tiling) -> list[BufferOp]:
    spaces = list(MemorySpace)
    return sorted(tiling.buffers, key=lambda b: spaces.index(b.space.data))


def _signature(function: FuncOp, tiling: Tiling) -> ProgramSignature:
    """Returns the function's arguments and results as buffers, with their roles.

    Outputs that hold no value of the function, such as the status, come last.
    """
    block = function.body.block
    last = block.last_op
    assert isinstance(last, ReturnOp)
    given, returned = stated_roles(function)
    arguments = [
        Parameter(tiling.places[v], role) for v, role in zip(block.args, given, strict=True)
    ]
    names = {b.sym_name.data for b in tiling.buffers}
    # A result accumulated in place is in the buffer of its accumulator, not in an output.
    places = [
        output if (output := tiling.outputs[v]) in names else tiling.places[v]
        for v in last.arguments
    ]
    results = [Parameter(name, role) for name, role in zip(places, returned, strict=True)]
    known = {p.buffer for p in results}
    for buffer in tiling.buffers:
        name = buffer.sym_name.data
        if buffer.space.data is MemorySpace.OUTPUT and name not in known:
            role = Role(RoleKind.STATUS) if name == tiling.status else None
            results.append(Parameter(name, role))
    return ProgramSignature(tuple(arguments), tuple(results))


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
