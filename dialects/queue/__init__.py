"""The `queue` dialect: which core runs which task when, and which events order them.

A `queue.program` has the buffers and families of the tile program that it came from, and adds the
order of each core's tasks, families of events, who waits for them and who signals them. Nothing is
left to decide at run time: a core takes its tasks in order, waits for the events of a task, runs
its kernel, and signals.

An event is reached when as many signals have come as its threshold says, in this launch; its
counter is in the memory of the rank that waits, alone in its cache line.

```
queue.program @layer ranks 2 machine "ascend-a3" {
  tile.buffer ...
  tile.tasks @dispatch (p, e) ...
  tile.tasks @gmm1 (e, g, n) ...
  queue.event @recv_ready (2, 2) count 1 line 0
  queue.signal @dispatch (p, e) to @recv_ready (e, rank) on (rank + p) mod 2
  queue.wait @gmm1 (e, g, n) for @recv_ready (e, g)
  queue.order aic {
    [@gmm1[0, 2]],
    [@gmm1[1, 3]]
  }
}
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    FlatSymbolRefAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import Block, Dialect, Operation, Region
from xdsl.ir.affine import AffineExpr
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

from hpmoe_ir.dialects.index import dims_used, format_index, parse_index
from hpmoe_ir.dialects.queue.event import EventOp
from hpmoe_ir.dialects.queue.order import POINT_BITS, POINT_MASK, OrderOp
from hpmoe_ir.dialects.queue.task import CoreOp, EventUseAttr, TaskOp
from hpmoe_ir.dialects.queue.verify import verify_queues_cover
from hpmoe_ir.dialects.tile import buffers_of, families_of
from hpmoe_ir.dialects.tile.credit import credit_text, parse_credit, verify_credit
from hpmoe_ir.dialects.tile.types import IndexAttr
from hpmoe_ir.dialects.tile.verify import verify_event_index, verify_peer, verify_program
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import MachineError, load_machine

__all__ = [
    "POINT_BITS",
    "POINT_MASK",
    "WAIT_OPTIONS",
    "CoreOp",
    "EventOp",
    "OrderOp",
    "ProgramOp",
    "Queue",
    "SignalOp",
    "TaskOp",
    "WaitOp",
    "events_of",
    "orders_of",
    "signals_of",
    "waits_of",
]


WAIT_OPTIONS = ("budget", "poll_aic", "poll_aiv")
"""Properties of a program that say how its tasks wait."""


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """One rank's program with its queues and events.

    ```
    queue.program @layer ranks 2 machine "ascend-a3" {
      ...
    }
    ```

    Waits that give up and polls that pause are given in ticks of the chip's system counter, after
    the offset of the counters:

    ```
    queue.program @layer ranks 2 machine "ascend-a3" counters at 4096 budget 50000000 poll_aic 2500
        poll_aiv 7500 {
      ...
    }
    ```
    """

    name = "queue.program"

    MOST_TICKS: ClassVar = 2**31 - 1
    """Most ticks of a wait or a pause: 43 s at 50 MHz."""

    sym_name = prop_def(SymbolNameConstraint())
    ranks = prop_def(IntegerAttr[I64])
    machine = prop_def(StringAttr)
    """Name of the machine description that the queues are made for."""
    counters = opt_prop_def(IntegerAttr[I64])
    """Byte offset of the events' counters in the window memory, set by `allocate-events`."""
    budget = opt_prop_def(IntegerAttr[I64])
    """Ticks after which a wait gives up, says what it waited for, and stops the kernel. Without it,
    waits have no end."""
    poll_aic = opt_prop_def(IntegerAttr[I64])
    """Ticks between two looks of an AIC at a counter. Without it, it looks at once again."""
    poll_aiv = opt_prop_def(IntegerAttr[I64])
    """The same of an AIV."""
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), SymbolOpInterface(), SymbolTable())

    def ticks(self, name: str) -> int:
        """`budget`, `poll_aic` or `poll_aiv`; 0 where there is none."""
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
        parser.parse_keyword("ranks")
        ranks = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_keyword("machine")
        op = cls(name, ranks, parser.parse_str_literal())
        if parser.parse_optional_keyword("counters"):
            parser.parse_keyword("at")
            op.counters = IntegerAttr(parser.parse_integer(), i64)
        for option in WAIT_OPTIONS:
            if parser.parse_optional_keyword(option):
                op.properties[option] = IntegerAttr(parser.parse_integer(), i64)
        body = parser.parse_region()
        if body.blocks:
            op.body.detach_block(0)
            op.body.add_block(body.detach_block(0))
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string(f' ranks {self.ranks.value.data} machine "{self.machine.data}" ')
        if self.counters is not None:
            printer.print_string(f"counters at {self.counters.value.data} ")
        for option in WAIT_OPTIONS:
            if option in self.properties:
                printer.print_string(f"{option} {self.ticks(option)} ")
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
        families = families_of(self)
        verify_program(buffers_of(self), families, self.ranks.value.data)
        verify_queues_cover(self, families, machine)


class _EventUseOp(IRDLOperation):
    """What waits and signals have in common."""

    family = prop_def(FlatSymbolRefAttrConstr)
    dims = prop_def(ArrayAttr[StringAttr])
    """Names of the family's coordinates."""
    event = prop_def(FlatSymbolRefAttrConstr)
    index = prop_def(ArrayAttr[IndexAttr])
    """The event, over the family's coordinates and the rank."""

    @property
    def index_exprs(self) -> tuple[AffineExpr, ...]:
        """The event, over the family's coordinates and the rank."""
        return tuple(e.data for e in self.index)

    @property
    def family_name(self) -> str:
        """Name of the family of tasks."""
        return self.family.root_reference.data

    @property
    def event_name(self) -> str:
        """Name of the family of events."""
        return self.event.root_reference.data

    def _print_use(self, printer: Printer, preposition: str) -> None:
        names = [n.data for n in self.dims]
        index = ", ".join(format_index(e, names) for e in self.index_exprs)
        printer.print_string(
            f" @{self.family_name} ({', '.join(names)}) {preposition} @{self.event_name} ({index})"
        )

    @staticmethod
    def _parse_use(
        parser: Parser, preposition: str
    ) -> tuple[str, list[str], str, list[AffineExpr]]:
        family = parser.parse_symbol_name().data
        names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_identifier)
        parser.parse_keyword(preposition)
        event = parser.parse_symbol_name().data
        index = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_index(parser, names)
        )
        return family, names, event, index

    def _verify_use(self) -> None:
        used = {d for e in self.index_exprs for d in dims_used(e)}
        if used and max(used) >= len(self.dims):
            raise VerifyException("the event's index uses a coordinate the family does not have")
        program = self.parent_op()
        if not isinstance(program, ProgramOp):
            return
        family = families_of(program).get(self.family_name)
        if family is None:
            raise VerifyException(f"no family of tasks @{self.family_name}")
        if len(self.dims) != len(family.dims):
            raise VerifyException(
                f"@{self.family_name} has {len(family.dims)} coordinates, found {len(self.dims)}"
            )
        event = events_of(program).get(self.event_name)
        if event is None:
            raise VerifyException(f"no family of events @{self.event_name}")
        if len(event.extents) != len(self.index):
            raise VerifyException(
                f"@{self.event_name} has {len(event.extents)} coordinates, found {len(self.index)}"
            )
        where = f"@{self.family_name}"
        ranks = program.ranks.value.data
        verify_event_index(where, self.index_exprs, event.extents, family, self.dims, ranks)
        if isinstance(self, SignalOp) and self.peer_expr is not None:
            verify_peer(where, self.peer_expr, family, ranks)


def _use_properties(
    family: str, dims: Sequence[str], event: str, index: Sequence[AffineExpr]
) -> dict[str, FlatSymbolRefAttr | ArrayAttr[StringAttr] | ArrayAttr[IndexAttr]]:
    return {
        "family": SymbolRefAttr(family),
        "dims": ArrayAttr(StringAttr(n) for n in dims),
        "event": SymbolRefAttr(event),
        "index": ArrayAttr(IndexAttr(e) for e in index),
    }


@irdl_op_definition
class WaitOp(_EventUseOp):
    """Each task of a family waits for an event of its own rank before it starts.

    ```
    queue.wait @gmm1 (e, g, n) for @recv_ready (e, g)
    ```
    """

    name = "queue.wait"

    def __init__(
        self, family: str, dims: Sequence[str], event: str, index: Sequence[AffineExpr]
    ) -> None:
        super().__init__(properties={**_use_properties(family, dims, event, index)})

    @classmethod
    def parse(cls, parser: Parser) -> WaitOp:
        return cls(*cls._parse_use(parser, "for"))

    def print(self, printer: Printer) -> None:
        self._print_use(printer, "for")

    def verify_(self) -> None:
        self._verify_use()


@irdl_op_definition
class SignalOp(_EventUseOp):
    """Each task of a family counts once towards an event when it has ended.

    `on` is the rank whose event is meant, where it is not the task's own. `credited by` a family
    says that a put without rows sends no signal: the task of that family on the event's rank counts
    all such puts, from its own route, when it has ended (`dialects/tile/credit.py`).

    ```
    queue.signal @dispatch (p, e) to @recv_ready (e, rank floordiv 2) on (rank + p) mod 4
        credited by @build_route
    ```
    """

    name = "queue.signal"

    peer = opt_prop_def(IndexAttr)
    credit = opt_prop_def(FlatSymbolRefAttrConstr)
    """Family whose task counts the puts without rows; absent: they signal like all others."""

    def __init__(
        self,
        family: str,
        dims: Sequence[str],
        event: str,
        index: Sequence[AffineExpr],
        peer: AffineExpr | None = None,
        credit: FlatSymbolRefAttr | None = None,
    ) -> None:
        super().__init__(
            properties={
                **_use_properties(family, dims, event, index),
                "peer": None if peer is None else IndexAttr(peer),
                "credit": credit,
            }
        )

    @property
    def peer_expr(self) -> AffineExpr | None:
        """The rank whose event is meant; None is the task's own."""
        return None if self.peer is None else self.peer.data

    @property
    def credit_name(self) -> str | None:
        """Name of the family that counts the puts without rows."""
        return None if self.credit is None else self.credit.root_reference.data

    @classmethod
    def parse(cls, parser: Parser) -> SignalOp:
        use = cls._parse_use(parser, "to")
        peer = parse_index(parser, use[1]) if parser.parse_optional_keyword("on") else None
        return cls(*use, peer, parse_credit(parser))

    def print(self, printer: Printer) -> None:
        self._print_use(printer, "to")
        if self.peer is not None:
            names = [n.data for n in self.dims]
            printer.print_string(f" on {format_index(self.peer.data, names)}")
        if self.credit is not None:
            printer.print_string(f" {credit_text(self.credit)}")

    def verify_(self) -> None:
        self._verify_use()
        program = self.parent_op()
        if self.credit_name is not None and isinstance(program, ProgramOp):
            families = families_of(program)
            verify_credit(
                self.credit_name,
                families[self.family_name],
                families,
                buffers_of(program),
                self.peer_expr,
                self.index_exprs,
                events_of(program)[self.event_name].extents,
            )


def events_of(program: Operation) -> dict[str, EventOp]:
    """The families of events of a program by name, in order."""
    return {op.sym_name.data: op for op in program.regions[0].block.ops if isinstance(op, EventOp)}


def waits_of(program: Operation) -> list[WaitOp]:
    """The waits of a program, in order."""
    return [op for op in program.regions[0].block.ops if isinstance(op, WaitOp)]


def signals_of(program: Operation) -> list[SignalOp]:
    """The signals of a program, in order."""
    return [op for op in program.regions[0].block.ops if isinstance(op, SignalOp)]


def orders_of(program: Operation) -> dict[CoreKind, OrderOp]:
    """The orders of a program by kind of core."""
    return {op.core_kind: op for op in program.regions[0].block.ops if isinstance(op, OrderOp)}


Queue = Dialect(
    "queue",
    [ProgramOp, EventOp, WaitOp, SignalOp, OrderOp, CoreOp, TaskOp],
    [EventUseAttr],
)
