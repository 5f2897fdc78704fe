"""Uses of events in the `queue` dialect: waits of tasks for events, and signals to them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    FlatSymbolRefAttr,
    FlatSymbolRefAttrConstr,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.access import EventRange, event_text, parse_event
from hpmoe_ir.dialects.index import dims_used, format_index, parse_index
from hpmoe_ir.dialects.queue.program import ProgramOp, events_of
from hpmoe_ir.dialects.tile import buffers_of, families_of
from hpmoe_ir.dialects.tile.credit import credit_text, parse_credit, route_of, verify_credit
from hpmoe_ir.dialects.tile.types import EventRangeAttr, IndexAttr
from hpmoe_ir.dialects.tile.verify import verify_event_index, verify_event_range, verify_peer


class _EventUseOp(IRDLOperation):
    """Base class of waits and signals."""

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

    @property
    def event_range(self) -> EventRange | None:
        """Range of the first coordinates of the events; None for one event."""
        return None

    def _print_use(self, printer: Printer, preposition: str) -> None:
        names = [n.data for n in self.dims]
        index = event_text(self.event_range, self.index_exprs, names)
        printer.print_string(
            f" @{self.family_name} ({', '.join(names)}) {preposition} @{self.event_name} ({index})"
        )

    @staticmethod
    def _parse_use(
        parser: Parser, preposition: str
    ) -> tuple[str, list[str], str, list[AffineExpr], EventRange | None]:
        family = parser.parse_symbol_name().data
        names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_identifier)
        parser.parse_keyword(preposition)
        event = parser.parse_symbol_name().data
        among, index = parse_event(parser, names)
        return family, names, event, index, among

    def _verify_use(self) -> None:
        ranged = () if self.event_range is None else self.event_range.exprs
        used = {d for e in (*ranged, *self.index_exprs) for d in dims_used(e)}
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
        among = self.event_range
        ranged = 0 if among is None else among.dims
        if len(event.extents) != ranged + len(self.index):
            raise VerifyException(
                f"@{self.event_name} has {len(event.extents)} coordinates, found "
                f"{ranged + len(self.index)}"
            )
        where = f"@{self.family_name}"
        ranks = program.ranks.value.data
        if among is not None:
            route = route_of(family, buffers_of(program))
            verify_event_range(where, among, event.extents, family, route, ranks)
        verify_event_index(
            where, self.index_exprs, event.extents[ranged:], family, self.dims, ranks
        )
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
    """Each task of a family waits for an event on its rank, or a range of them, before it starts.

    ```
    queue.wait @gmm1 (e, g, n) for @recv_ready (e, g)
    queue.wait @gmm1 (t, n) for @recv_ready (parts(t of 40 by 128))
    ```
    """

    name = "queue.wait"

    among = opt_prop_def(EventRangeAttr)
    """Range of the first coordinates of the events; absent: one event."""

    def __init__(
        self,
        family: str,
        dims: Sequence[str],
        event: str,
        index: Sequence[AffineExpr],
        among: EventRange | None = None,
    ) -> None:
        super().__init__(
            properties={
                **_use_properties(family, dims, event, index),
                "among": None if among is None else EventRangeAttr(among),
            }
        )

    @property
    def event_range(self) -> EventRange | None:
        """Range of the first coordinates of the events; None for one event."""
        return None if self.among is None else self.among.data

    @classmethod
    def parse(cls, parser: Parser) -> WaitOp:
        return cls(*cls._parse_use(parser, "for"))

    def print(self, printer: Printer) -> None:
        self._print_use(printer, "for")

    def verify_(self) -> None:
        self._verify_use()


@irdl_op_definition
class SignalOp(_EventUseOp):
    """Each task of a family adds one to the counter of an event when it has ended.

    `on` is the rank whose event is signalled, if not the task's own. `credited by` a family means
    that an empty put sends no signal: the task of that family on the event's rank adds the missing
    signals, which it knows from its own route, when it has ended (`dialects/tile/credit.py`).

    ```
    queue.signal @dispatch (p, e) to @recv_ready (e, rank floordiv 2) on (rank + p) mod 4
        credited by @build_route
    ```
    """

    name = "queue.signal"

    peer = opt_prop_def(IndexAttr)
    credit = opt_prop_def(FlatSymbolRefAttrConstr)
    """Family whose task credits empty puts; absent: empty puts signal like all others."""

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
        """The rank whose event is signalled; None is the task's own."""
        return None if self.peer is None else self.peer.data

    @property
    def credit_name(self) -> str | None:
        """Name of the family that credits empty puts, None without one."""
        return None if self.credit is None else self.credit.root_reference.data

    @classmethod
    def parse(cls, parser: Parser) -> SignalOp:
        family, names, event, index, among = cls._parse_use(parser, "to")
        if among is not None:
            parser.raise_error("a task signals one event, not a range of them")
        peer = parse_index(parser, names) if parser.parse_optional_keyword("on") else None
        return cls(family, names, event, index, peer, parse_credit(parser))

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


def waits_of(program: Operation) -> list[WaitOp]:
    """Returns the waits of a program, in order."""
    return [op for op in program.regions[0].block.ops if isinstance(op, WaitOp)]


def signals_of(program: Operation) -> list[SignalOp]:
    """Returns the signals of a program, in order."""
    return [op for op in program.regions[0].block.ops if isinstance(op, SignalOp)]
