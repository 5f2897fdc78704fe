"""The `tile` dialect: a layer as families of tile tasks over buffers.

A `tile.program` is one rank's view of an SPMD program. Its buffers live in global memory; a family
of tasks states, for each point of a grid, the kernel, the kind of core that runs it, and the parts
of buffers that it reads and writes. The order of tasks is not stated: dependences follow from
accesses (`insert-dependencies`), and a program without dependences can run family by family.

```
tile.program @layer ranks 2 {
  tile.buffer @recv window : !tile.buffer<grouped 256 rows, 64xbf16>
  tile.buffer @w13 input : !tile.buffer<2x64x64xbf16>
  tile.buffer @h workspace : !tile.buffer<grouped 256 rows, 64xbf16>
  tile.buffer @route workspace : !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
  tile.tasks @gmm1 (e, g, n) in (2, 1, 1) on aic kernel "grouped_matmul" using @route
    reads @recv[grouped(e, g of 1), :], @w13[e, :, block(n by 64)]
    writes @h[grouped(e, g of 1), block(n by 64)]
}
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    i64,
)
from xdsl.ir import Block, Dialect, Operation
from xdsl.ir import Region as IRRegion
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, SymbolOpInterface, SymbolTable

from hpmoe_ir.dialects.tile.buffer import (
    BufferOp,
    MemorySpace,
    MemorySpaceAttr,
    buffer_bytes,
    buffer_route_type,
    buffer_type,
    copy_bytes,
    element_bytes,
)
from hpmoe_ir.dialects.tile.dependence import DependenceOp
from hpmoe_ir.dialects.tile.signature import (
    Parameter,
    ParameterAttr,
    ProgramSignature,
    parse_forward,
    parse_signature,
    print_forward,
    print_signature,
    program_signature,
    signature_properties,
    verify_signature,
)
from hpmoe_ir.dialects.tile.tasks import TasksOp
from hpmoe_ir.dialects.tile.types import AccessAttr, BufferType, EventRangeAttr, IndexAttr
from hpmoe_ir.dialects.tile.verify import verify_memory, verify_program

__all__ = [
    "BufferOp",
    "DependenceOp",
    "MemorySpace",
    "Parameter",
    "ProgramOp",
    "ProgramSignature",
    "TasksOp",
    "Tile",
    "buffer_bytes",
    "buffer_route_type",
    "buffer_type",
    "buffers_of",
    "copy_bytes",
    "element_bytes",
    "families_of",
    "program_signature",
]


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """One rank's program: buffers, families of tasks and, once inserted, their dependences.

    ```
    tile.program @layer ranks 2 (@x: tokens, @ids: expert_ids) -> (@out: output, @status: status) {
      ...
    }
    ```

    The lists are the buffers of the caller in the order of the arguments and results of the
    function that the program comes from; `inout` buffers are in both. Without lists, the order is
    that of the program's buffers. A backward program names the forward one:

    ```
    tile.program @layer_backward forward @layer ranks 2 (@dout: gradient of result 0)
        -> (@dx: gradient of argument 0) {
      ...
    }
    ```
    """

    name = "tile.program"

    sym_name = prop_def(SymbolNameConstraint())
    ranks = prop_def(IntegerAttr[I64])
    """Number of ranks that run the program."""
    arguments = opt_prop_def(ArrayAttr[ParameterAttr])
    """The `input` and `inout` buffers, in order, with their roles."""
    returned = opt_prop_def(ArrayAttr[ParameterAttr], prop_name="results")
    """The `inout` and `output` buffers, in order, with their roles."""
    forward = opt_prop_def(FlatSymbolRefAttrConstr)
    """The program whose gradients this one computes."""
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), SymbolOpInterface(), SymbolTable())

    def __init__(
        self,
        name: str,
        ranks: int,
        ops: Sequence[Operation] = (),
        signature: ProgramSignature | None = None,
        forward: str | None = None,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "ranks": IntegerAttr(ranks, i64),
                **signature_properties(signature, forward),
            },
            regions=[IRRegion(Block(ops))],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ProgramOp:
        name = parser.parse_symbol_name().data
        forward = parse_forward(parser)
        parser.parse_keyword("ranks")
        ranks = parser.parse_integer(allow_boolean=False, allow_negative=False)
        op = cls(name, ranks, (), parse_signature(parser))
        op.forward = forward
        op.body.detach_block(0)
        op.body.add_block(_single_block(parser.parse_region()))
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        print_forward(printer, self.forward)
        printer.print_string(f" ranks {self.ranks.value.data} ")
        print_signature(printer, self)
        printer.print_region(self.body)

    def verify_(self) -> None:
        dependences = [op for op in self.body.block.ops if isinstance(op, DependenceOp)]
        buffers, families, ranks = buffers_of(self), families_of(self), self.ranks.value.data
        verify_signature(self, buffers)
        verify_program(buffers, families, ranks, dependences)
        verify_memory(buffers, families, ranks)


def _single_block(region: IRRegion) -> Block:
    return region.detach_block(0) if region.blocks else Block()


def buffers_of(program: Operation) -> dict[str, BufferOp]:
    """Returns the buffers of a program by name, in order."""
    block = program.regions[0].block
    return {op.sym_name.data: op for op in block.ops if isinstance(op, BufferOp)}


def families_of(program: Operation) -> dict[str, TasksOp]:
    """Returns the families of tasks of a program by name, in order."""
    block = program.regions[0].block
    return {op.sym_name.data: op for op in block.ops if isinstance(op, TasksOp)}


Tile = Dialect(
    "tile",
    [ProgramOp, BufferOp, TasksOp, DependenceOp],
    [BufferType, AccessAttr, EventRangeAttr, IndexAttr, MemorySpaceAttr, ParameterAttr],
)
