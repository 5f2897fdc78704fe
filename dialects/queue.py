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
from typing import cast

import numpy as np
from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    FlatSymbolRefAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i32,
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

from hpmoe_ir.dialects.index import IntArray, dims_used, format_index, parse_index
from hpmoe_ir.dialects.queue_task import CoreOp, EventUseAttr, TaskOp
from hpmoe_ir.dialects.queue_verify import verify_queues_cover
from hpmoe_ir.dialects.tile import TasksOp, buffers_of, families_of
from hpmoe_ir.dialects.tile_types import IndexAttr, dense_i32, int_array
from hpmoe_ir.dialects.tile_verify import verify_program
from hpmoe_ir.machine import MachineError, load_machine

POINT_BITS = 24
"""A slot of a queue is the family's number above this many bits of the point's number."""

POINT_MASK = (1 << POINT_BITS) - 1


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """One rank's program with its queues and events.

    ```
    queue.program @layer ranks 2 machine "ascend-a3" {
      ...
    }
    ```
    """

    name = "queue.program"

    sym_name = prop_def(SymbolNameConstraint())
    ranks = prop_def(IntegerAttr[I64])
    machine = prop_def(StringAttr)
    """Name of the machine description that the queues are made for."""
    counters = opt_prop_def(IntegerAttr[I64])
    """Byte offset of the events' counters in the window memory, set by `allocate-events`."""
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), SymbolOpInterface(), SymbolTable())

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
        printer.print_region(self.body)

    def verify_(self) -> None:
        try:
            machine = load_machine(self.machine.data)
        except MachineError as e:
            raise VerifyException(str(e)) from e
        families = families_of(self)
        verify_program(buffers_of(self), families, self.ranks.value.data)
        verify_queues_cover(self, families, machine)


@irdl_op_definition
class EventOp(IRDLOperation):
    """A family of events: counters with thresholds.

    `allocate-events` adds the first cache line of the counters, one line for each event.

    ```
    queue.event @recv_ready (2, 2) count 8 line 16
    ```
    """

    name = "queue.event"

    sym_name = prop_def(SymbolNameConstraint())
    events = prop_def(DenseArrayBase.constr(i64))
    """Extents of the family; empty for a single event."""
    counts = prop_def(DenseArrayBase.constr(i32))
    """Threshold of each event, row-major; one number where all are equal."""
    line = opt_prop_def(IntegerAttr[I64])
    """Cache line of the first counter, in the counters' part of the window memory."""

    traits = traits_def(SymbolOpInterface())

    def __init__(
        self, name: str, extents: Sequence[int], counts: IntArray, line: int | None = None
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "events": DenseArrayBase.from_list(i64, list(extents)),
                "counts": dense_i32(counts),
                "line": None if line is None else IntegerAttr(line, i64),
            }
        )

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the family."""
        return cast(tuple[int, ...], self.events.get_values())

    @property
    def event_count(self) -> int:
        """Number of events."""
        return int(np.prod(self.extents, dtype=np.int64))

    @property
    def thresholds(self) -> IntArray:
        """Threshold of each event."""
        counts = int_array(self.counts)
        return np.broadcast_to(counts, (self.event_count,)) if counts.size == 1 else counts

    @classmethod
    def parse(cls, parser: Parser) -> EventOp:
        name = parser.parse_symbol_name().data
        extents = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_integer)
        parser.parse_keyword("count")
        counts = parser.parse_optional_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_integer
        )
        if counts is None:
            counts = [parser.parse_integer()]
        line = parser.parse_integer() if parser.parse_optional_keyword("line") else None
        return cls(name, extents, np.array(counts, dtype=np.int64), line)

    def print(self, printer: Printer) -> None:
        counts = self.counts.get_values()
        text = str(counts[0]) if len(counts) == 1 else str(list(counts))
        extents = ", ".join(str(n) for n in self.extents)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string(f" ({extents}) count {text}")
        if self.line is not None:
            printer.print_string(f" line {self.line.value.data}")

    def verify_(self) -> None:
        if any(n <= 0 for n in self.extents):
            raise VerifyException(
                f"extents of the events must be positive, found {list(self.extents)}"
            )
        if len(self.counts) not in (1, self.event_count):
            raise VerifyException(
                f"expected 1 or {self.event_count} thresholds, found {len(self.counts)}"
            )
        if any(n <= 0 for n in cast(tuple[int, ...], self.counts.get_values())):
            raise VerifyException("a threshold must be positive")
        if self.line is not None and self.line.value.data < 0:
            raise VerifyException(f"a cache line cannot be negative, found {self.line.value.data}")


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

    `on` is the rank whose event is meant, where it is not the task's own.

    ```
    queue.signal @dispatch (p, e) to @recv_ready (e, rank floordiv 2) on (rank + p) mod 4
    ```
    """

    name = "queue.signal"

    peer = opt_prop_def(IndexAttr)

    def __init__(
        self,
        family: str,
        dims: Sequence[str],
        event: str,
        index: Sequence[AffineExpr],
        peer: AffineExpr | None = None,
    ) -> None:
        super().__init__(
            properties={
                **_use_properties(family, dims, event, index),
                "peer": None if peer is None else IndexAttr(peer),
            }
        )

    @property
    def peer_expr(self) -> AffineExpr | None:
        """The rank whose event is meant; None is the task's own."""
        return None if self.peer is None else self.peer.data

    @classmethod
    def parse(cls, parser: Parser) -> SignalOp:
        use = cls._parse_use(parser, "to")
        peer = parse_index(parser, use[1]) if parser.parse_optional_keyword("on") else None
        return cls(*use, peer)

    def print(self, printer: Printer) -> None:
        self._print_use(printer, "to")
        if self.peer is not None:
            names = [n.data for n in self.dims]
            printer.print_string(f" on {format_index(self.peer.data, names)}")

    def verify_(self) -> None:
        self._verify_use()


@irdl_op_definition
class OrderOp(IRDLOperation):
    """The order in which each core of a kind runs its tasks.

    One list a core: points of families, by their number in the family's grid, row-major.

    ```
    queue.order aic {
      [@gmm1[0, 2], @gmm2[0]],
      [@gmm1[1, 3]]
    }
    ```
    """

    name = "queue.order"

    core = prop_def(StringAttr)
    """Kind of core: aic or aiv."""
    families = prop_def(ArrayAttr[FlatSymbolRefAttr])
    """The families that occur; a slot names one by its place here."""
    first = prop_def(DenseArrayBase.constr(i32))
    """Index of each core's first slot; one more at the end."""
    slots = prop_def(DenseArrayBase.constr(i32))
    """(family << 24) + point, core after core."""

    def __init__(
        self, core: str, families: Sequence[str], first: IntArray, slots: IntArray
    ) -> None:
        super().__init__(
            properties={
                "core": StringAttr(core),
                "families": ArrayAttr(SymbolRefAttr(f) for f in families),
                "first": dense_i32(first),
                "slots": dense_i32(slots.astype(np.uint32).view(np.int32)),
            }
        )

    @property
    def family_names(self) -> list[str]:
        """The families that occur."""
        return [f.root_reference.data for f in self.families]

    @property
    def core_count(self) -> int:
        """Number of cores."""
        return len(self.first) - 1

    @property
    def first_slots(self) -> IntArray:
        """Index of each core's first slot; one more at the end."""
        return int_array(self.first)

    @property
    def slot_values(self) -> IntArray:
        """(family << 24) + point, core after core."""
        return int_array(self.slots) & 0xFFFFFFFF

    @classmethod
    def parse(cls, parser: Parser) -> OrderOp:
        core = parser.parse_keyword_in(TasksOp.CORES, " as the kind of core")
        families: dict[str, int] = {}

        def run() -> list[int]:
            name = parser.parse_symbol_name().data
            number = families.setdefault(name, len(families)) << POINT_BITS
            points = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            return [number + p for p in points]

        def queue() -> list[int]:
            runs = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, run)
            return [slot for r in runs for slot in r]

        queues = parser.parse_comma_separated_list(parser.Delimiter.BRACES, queue)
        first = np.cumsum([0, *(len(q) for q in queues)])
        slots = np.array([slot for q in queues for slot in q], dtype=np.int64)
        return cls(core, list(families), first, slots)

    def print(self, printer: Printer) -> None:
        names = self.family_names
        slots, first = self.slot_values, self.first_slots
        printer.print_string(f" {self.core.data} {{")
        with printer.indented():
            for core in range(self.core_count):
                queue = slots[first[core] : first[core + 1]]
                family, point = queue >> POINT_BITS, queue & POINT_MASK
                cuts = np.flatnonzero(np.diff(family)) + 1
                runs = [
                    f"@{names[f[0]]}{[int(p) for p in points]}"
                    for f, points in zip(np.split(family, cuts), np.split(point, cuts), strict=True)
                    if f.size
                ]
                comma = "," if core + 1 < self.core_count else ""
                printer.print_string(f"\n[{', '.join(runs)}]{comma}")
        printer.print_string("\n}")

    def verify_(self) -> None:
        first, slots = self.first_slots, self.slot_values
        if first.size < 2 or first[0] != 0 or (np.diff(first) < 0).any() or first[-1] != slots.size:
            raise VerifyException(
                "the first slots of the cores must start at 0, not decrease, and end at the "
                f"number of slots, {slots.size}"
            )
        if slots.size and int(slots.max()) >> POINT_BITS >= len(self.families):
            raise VerifyException(
                f"a slot names family {int(slots.max()) >> POINT_BITS} of {len(self.families)}"
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


def orders_of(program: Operation) -> dict[str, OrderOp]:
    """The orders of a program by kind of core."""
    return {op.core.data: op for op in program.regions[0].block.ops if isinstance(op, OrderOp)}


Queue = Dialect(
    "queue",
    [ProgramOp, EventOp, WaitOp, SignalOp, OrderOp, CoreOp, TaskOp],
    [EventUseAttr],
)
