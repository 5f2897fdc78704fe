"""Programs of the `queue` dialect, and lookup of their ops by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    i64,
)
from xdsl.ir import Block, Operation, Region
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
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.queue.event import EventOp
from hpmoe_ir.dialects.queue.order import OrderOp
from hpmoe_ir.dialects.queue.verify import verify_queues_cover
from hpmoe_ir.dialects.tile import buffers_of, families_of
from hpmoe_ir.dialects.tile.signature import (
    ParameterAttr,
    parse_forward,
    parse_signature,
    print_forward,
    print_signature,
    signature_properties,
    verify_signature,
)
from hpmoe_ir.dialects.tile.verify import verify_memory, verify_program
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import MachineError, load_machine

WAIT_OPTIONS = ("budget", "poll_aic", "poll_aiv")
"""Properties of a program that parameterize waits, in ticks of the system counter."""


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """One rank's program with its queues and events.

    ```
    queue.program @layer ranks 2 machine "ascend-a3" (@x: tokens, @ids: expert_ids)
        -> (@out: output, @status: status) {
      ...
    }
    ```

    Arguments, results and the forward program are those of the `tile.program`.

    The budget of waits and the pauses between polls, in ticks of the chip's system counter, stand
    after the offset of the counters and before the arguments:

    ```
    queue.program @layer ranks 2 machine "ascend-a3" counters at 4096 budget 50000000 poll_aic 2500
        poll_aiv 7500 {
      ...
    }
    ```
    """

    name = "queue.program"

    MOST_TICKS: ClassVar = 2**31 - 1
    """Largest number of ticks of a wait or a pause: 43 s at 50 MHz; fits a signed 32-bit word."""

    MOST_BYTES: ClassVar = 1 << 38
    """Bytes of window memory before the counters: the task table has the number of their first
    64-byte line in 32 bits."""

    sym_name = prop_def(SymbolNameConstraint())
    ranks = prop_def(IntegerAttr[I64])
    machine = prop_def(StringAttr)
    """Name of the machine description that the queues are made for."""
    arguments = opt_prop_def(ArrayAttr[ParameterAttr])
    """The `input` and `inout` buffers, in order, with their roles."""
    returned = opt_prop_def(ArrayAttr[ParameterAttr], prop_name="results")
    """The `inout` and `output` buffers, in order, with their roles."""
    forward = opt_prop_def(FlatSymbolRefAttrConstr)
    """The program whose gradients this one computes."""
    counters = opt_prop_def(IntegerAttr[I64])
    """Byte offset of the events' counters in the window memory, set by `allocate-events`."""
    budget = opt_prop_def(IntegerAttr[I64])
    """Ticks after which a wait gives up, reports its event, and stops the kernel. Absent: waits
    never time out."""
    poll_aic = opt_prop_def(IntegerAttr[I64])
    """Pause between two polls of a counter by an AIC, in ticks. Absent: no pause."""
    poll_aiv = opt_prop_def(IntegerAttr[I64])
    """Pause between two polls of a counter by an AIV, in ticks. Absent: no pause."""
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), SymbolOpInterface(), SymbolTable())

    def ticks(self, name: str) -> int:
        """Returns the property `budget`, `poll_aic` or `poll_aiv` in ticks; 0 if absent."""
        value = self.properties.get(name)
        assert value is None or isinstance(value, IntegerAttr)
        return 0 if value is None else value.value.data

    def __init__(self, name: str, ranks: int, machine: str, ops: Sequence[Operation] = ()) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "ranks": IntegerAttr(ranks, i64),
                "machine": StringAttr(machine),
            },
            regions=[Region(Block(ops))],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ProgramOp:
        name = parser.parse_symbol_name().data
        forward = parse_forward(parser)
        parser.parse_keyword("ranks")
        ranks = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_keyword("machine")
        op = cls(name, ranks, parser.parse_str_literal())
        op.forward = forward
        if parser.parse_optional_keyword("counters"):
            parser.parse_keyword("at")
            op.counters = IntegerAttr(parser.parse_integer(), i64)
        for option in WAIT_OPTIONS:
            if parser.parse_optional_keyword(option):
                op.properties[option] = IntegerAttr(parser.parse_integer(), i64)
        op.properties |= signature_properties(parse_signature(parser), None)
        body = parser.parse_region()
        if body.blocks:
            op.body.detach_block(0)
            op.body.add_block(body.detach_block(0))
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        print_forward(printer, self.forward)
        printer.print_string(f' ranks {self.ranks.value.data} machine "{self.machine.data}" ')
        if self.counters is not None:
            printer.print_string(f"counters at {self.counters.value.data} ")
        for option in WAIT_OPTIONS:
            if option in self.properties:
                printer.print_string(f"{option} {self.ticks(option)} ")
        print_signature(printer, self)
        printer.print_region(self.body)

    def verify_(self) -> None:
        try:
            machine = load_machine(self.machine.data)
        except MachineError as e:
            raise VerifyException(str(e)) from e
        for option in WAIT_OPTIONS:
            if option in self.properties and not 1 <= self.ticks(option) <= self.MOST_TICKS:
                raise VerifyException(
                    f"{option}: expected 1 to {self.MOST_TICKS} ticks, found {self.ticks(option)}"
                )
        if self.counters is not None and not 0 <= self.counters.value.data < self.MOST_BYTES:
            raise VerifyException(
                f"counters at: expected a byte from 0 to {self.MOST_BYTES - 1}, found "
                f"{self.counters.value.data}"
            )
        families, buffers = families_of(self), buffers_of(self)
        verify_signature(self, buffers)
        ranks = self.ranks.value.data
        verify_program(buffers, families, ranks)
        orders = [op for op in self.body.block.ops if isinstance(op, OrderOp)]
        verify_queues_cover(orders, families, machine)
        verify_memory(buffers, families, ranks)


def events_of(program: Operation) -> dict[str, EventOp]:
    """Returns the families of events of a program by name, in order."""
    return {op.sym_name.data: op for op in program.regions[0].block.ops if isinstance(op, EventOp)}


def orders_of(program: Operation) -> dict[CoreKind, OrderOp]:
    """Returns the orders of a program by kind of core."""
    return {op.core_kind: op for op in program.regions[0].block.ops if isinstance(op, OrderOp)}
