"""Single tasks of the `queue` dialect: the expansion of families by `expand-tasks`, for reading.

```
queue.core aic 3 {
  queue.task @gmm1 (0, 1, 0)
    waits @recv_ready[0, 1] count 8
    reads @recv[grouped(0, 1 of 2), :], @w13[0, :, block(0 by 64)]
    writes @h[grouped(0, 1 of 2), block(0 by 64)]
    signals @h_ready[0, 1]
}
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import Block, Data, Operation, Region
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects import access
from hpmoe_ir.dialects.core_kind import parse_core_kind, verify_core_kind
from hpmoe_ir.dialects.index import format_index, parse_index
from hpmoe_ir.dialects.tile.credit import parse_credit
from hpmoe_ir.dialects.tile.types import AccessAttr
from hpmoe_ir.machines.core_kind import CoreKind


@dataclass(frozen=True)
class EventUse:
    """One event that a task waits for or signals."""

    event: str
    index: tuple[AffineExpr, ...]
    count: int | None = None
    """Threshold of the event, for a wait."""
    peer: AffineExpr | None = None
    """The rank whose event is signalled; None is the task's own."""
    credit: str | None = None
    """The family that credits the put if it is empty, for a signal."""
    among: access.EventRange | None = None
    """The range of the first coordinates of several events, for a wait."""


def format_event_use(use: EventUse) -> str:
    """Returns the text of an event use; `parse_event_use` reads it back."""
    index = access.event_text(use.among, use.index, ())
    count = "" if use.count is None else f" count {use.count}"
    peer = "" if use.peer is None else f" on {format_index(use.peer, ())}"
    credit = "" if use.credit is None else f" credited by @{use.credit}"
    return f"@{use.event}[{index}]{count}{peer}{credit}"


def parse_event_use(parser: AttrParser) -> EventUse:
    """Parses an event use."""
    event = parser.parse_symbol_name().data
    among, index = access.parse_event(parser, (), parser.Delimiter.SQUARE)
    count = None
    if parser.parse_optional_keyword("count"):
        count = parser.parse_integer()
    peer = parse_index(parser, ()) if parser.parse_optional_keyword("on") else None
    credit = parse_credit(parser)
    by = None if credit is None else credit.root_reference.data
    return EventUse(event, tuple(index), count, peer, by, among)


@irdl_attr_definition
class EventUseAttr(Data[EventUse]):
    """An event that a single task waits for or signals.

    ```
    #queue.event_use<@recv_ready[0, 1] count 8>
    ```
    """

    name = "queue.event_use"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> EventUse:
        with parser.in_angle_brackets():
            return parse_event_use(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(format_event_use(self.data))


@irdl_op_definition
class CoreOp(IRDLOperation):
    """The tasks of one core, in the order in which it runs them.

    ```
    queue.core aic 3 {
      queue.task @gmm1 (0, 1, 0)
    }
    ```
    """

    name = "queue.core"

    core = prop_def(StringAttr)
    number = prop_def(IntegerAttr[I64])
    body = region_def("single_block")

    traits = traits_def(NoTerminator())

    def __init__(self, core: CoreKind, number: int, tasks: Sequence[Operation] = ()) -> None:
        super().__init__(
            properties={"core": StringAttr(core.value), "number": IntegerAttr(number, i64)},
            regions=[Region(Block(tasks))],
        )

    @property
    def core_kind(self) -> CoreKind:
        """Kind of core that runs the tasks."""
        return CoreKind(self.core.data)

    @classmethod
    def parse(cls, parser: Parser) -> CoreOp:
        core = parse_core_kind(parser)
        op = cls(core, parser.parse_integer())
        body = parser.parse_region()
        if body.blocks:
            op.body.detach_block(0)
            op.body.add_block(body.detach_block(0))
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.core.data} {self.number.value.data} ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        verify_core_kind(self.core)
        for op in self.body.block.ops:
            if not isinstance(op, TaskOp):
                raise VerifyException(f"a core runs queue.task ops, found {op.name}")


@irdl_op_definition
class TaskOp(IRDLOperation):
    """One task: a grid point of a family, with its waits, reads, writes and signals.

    ```
    queue.task @dispatch (1, 0)
      writes @recv on (rank + 1) mod 2 [grouped(0, rank of 2), :]
      signals @recv_ready[0, rank] on (rank + 1) mod 2
    ```
    """

    name = "queue.task"

    family = prop_def(FlatSymbolRefAttrConstr)
    point = prop_def(DenseArrayBase.constr(i64))
    waits = prop_def(ArrayAttr[EventUseAttr])
    reads = prop_def(ArrayAttr[AccessAttr])
    writes = prop_def(ArrayAttr[AccessAttr])
    signals = prop_def(ArrayAttr[EventUseAttr])

    def __init__(
        self,
        family: str,
        point: Sequence[int],
        waits: Sequence[EventUse],
        reads: Sequence[access.Access],
        writes: Sequence[access.Access],
        signals: Sequence[EventUse],
    ) -> None:
        super().__init__(
            properties={
                "family": SymbolRefAttr(family),
                "point": DenseArrayBase.from_list(i64, list(point)),
                "waits": ArrayAttr(EventUseAttr(w) for w in waits),
                "reads": ArrayAttr(AccessAttr(r) for r in reads),
                "writes": ArrayAttr(AccessAttr(r) for r in writes),
                "signals": ArrayAttr(EventUseAttr(s) for s in signals),
            }
        )

    @classmethod
    def parse(cls, parser: Parser) -> TaskOp:
        family = parser.parse_symbol_name().data
        point = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_integer)

        def uses(keyword: str) -> list[EventUse]:
            if not parser.parse_optional_keyword(keyword):
                return []
            return parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: parse_event_use(parser)
            )

        def some_regions(keyword: str) -> list[access.Access]:
            if not parser.parse_optional_keyword(keyword):
                return []
            return parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: access.parse_access(parser, ())
            )

        waits = uses("waits")
        reads, writes = some_regions("reads"), some_regions("writes")
        return cls(family, point, waits, reads, writes, uses("signals"))

    def print(self, printer: Printer) -> None:
        point = ", ".join(str(c) for c in self.point.get_values())
        printer.print_string(f" @{self.family.root_reference.data} ({point})")
        lines = (
            ("waits", [format_event_use(w.data) for w in self.waits]),
            ("reads", [access.format_access(r.data, ()) for r in self.reads]),
            ("writes", [access.format_access(w.data, ()) for w in self.writes]),
            ("signals", [format_event_use(s.data) for s in self.signals]),
        )
        with printer.indented():
            for keyword, texts in lines:
                if texts:
                    printer.print_string(f"\n{keyword} {', '.join(texts)}")
