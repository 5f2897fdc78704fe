"""Dependences between families of tasks of the `tile` dialect."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FlatSymbolRefAttr,
    FlatSymbolRefAttrConstr,
    StringAttr,
    SymbolRefAttr,
    i32,
    i64,
)
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.access import EventRange, event_text, parse_event
from hpmoe_ir.dialects.index import IntArray, dims_used, format_index, parse_index
from hpmoe_ir.dialects.tile.credit import credit_text, parse_credit
from hpmoe_ir.dialects.tile.tasks import TasksOp
from hpmoe_ir.dialects.tile.types import (
    MOST_EVENTS,
    EventRangeAttr,
    IndexAttr,
    dense_i32,
    int_array,
)


@irdl_op_definition
class DependenceOp(IRDLOperation):
    """Tasks of one family wait for tasks of another.

    Each task of `producer` signals one event of a family of events, each task of `consumer` waits
    for one, or for a range of them; an event is reached after `counts` signals. With `on p` the
    event is in the memory of rank p, an expression over the producer's coordinates. `credited by` a
    family means that empty puts do not signal: the task of that family on the event's rank adds the
    missing signals, which it knows from its route (`dialects/tile/credit.py`).

    ```
    tile.dependence @dispatch (p, e, c) -> @gmm1 (e, g, n) on @recv
      events (2, 2) from (e, rank floordiv 2) on (rank + p) mod 4 to (e, g) count 2
      credited by @build_route
    tile.dependence @dispatch (p, e, c) -> @gmm1 (t, n) on @recv
      events (2, 4) from (e, rank) on p to (parts(t of 40 by 128)) count 2
    ```
    """

    name = "tile.dependence"

    producer = prop_def(FlatSymbolRefAttrConstr)
    consumer = prop_def(FlatSymbolRefAttrConstr)
    producer_dims = prop_def(ArrayAttr[StringAttr])
    consumer_dims = prop_def(ArrayAttr[StringAttr])
    buffers = prop_def(ArrayAttr[FlatSymbolRefAttr])
    """The buffers on which the two families conflict."""
    events = prop_def(DenseArrayBase.constr(i64))
    """Extents of the grid of events; empty for a single event."""
    source = prop_def(ArrayAttr[IndexAttr])
    """Event that a producer signals, over the producer's coordinates."""
    target = prop_def(ArrayAttr[IndexAttr])
    """Event that a consumer waits for, over the consumer's coordinates; with `among`, its last
    coordinates."""
    among = opt_prop_def(EventRangeAttr)
    """Range of the first coordinates of the events that a consumer waits for; absent: one event."""
    peer = opt_prop_def(IndexAttr)
    """Rank whose event the producer signals, over its coordinates; absent: its own."""
    counts = prop_def(DenseArrayBase.constr(i32))
    """Threshold of each event, row-major; one number where all are equal."""
    credit = opt_prop_def(FlatSymbolRefAttrConstr)
    """Family whose task credits empty puts on the event's rank; absent: empty puts signal."""

    def __init__(
        self,
        producer: TasksOp,
        consumer: TasksOp,
        buffers: Sequence[str],
        events: Sequence[int],
        source: Sequence[AffineExpr],
        target: Sequence[AffineExpr],
        counts: IntArray,
        peer: AffineExpr | None = None,
        among: EventRange | None = None,
    ) -> None:
        if counts.size and (counts == counts.flat[0]).all():
            counts = counts.ravel()[:1]
        super().__init__(
            properties={
                "producer": SymbolRefAttr(producer.sym_name),
                "consumer": SymbolRefAttr(consumer.sym_name),
                "producer_dims": producer.dims,
                "consumer_dims": consumer.dims,
                "buffers": ArrayAttr(SymbolRefAttr(b) for b in buffers),
                "events": DenseArrayBase.from_list(i64, list(events)),
                "source": ArrayAttr(IndexAttr(e) for e in source),
                "target": ArrayAttr(IndexAttr(e) for e in target),
                "among": None if among is None else EventRangeAttr(among),
                "peer": None if peer is None else IndexAttr(peer),
                "counts": dense_i32(counts),
            }
        )

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the grid of events."""
        return self.events.get_values()

    @property
    def event_count(self) -> int:
        """Number of events."""
        return prod(self.extents)

    @property
    def thresholds(self) -> IntArray:
        """Threshold of each event."""
        counts = int_array(self.counts)
        return np.broadcast_to(counts, (self.event_count,)) if counts.size == 1 else counts

    @property
    def source_exprs(self) -> tuple[AffineExpr, ...]:
        """Event that a producer signals, over the producer's coordinates."""
        return tuple(e.data for e in self.source)

    @property
    def target_exprs(self) -> tuple[AffineExpr, ...]:
        """Event that a consumer waits for, over the consumer's coordinates; with `event_range`, its
        last coordinates."""
        return tuple(e.data for e in self.target)

    @property
    def event_range(self) -> EventRange | None:
        """Range of the first coordinates of the events that a consumer waits for."""
        return None if self.among is None else self.among.data

    @property
    def range_dims(self) -> int:
        """Number of coordinates that `event_range` stands for."""
        return 0 if self.among is None else self.among.data.dims

    @property
    def joined_extents(self) -> tuple[int, ...]:
        """Extents of the events if those of a range are one event.

        A consumer waits for at most that event, whatever the routing.
        """
        return self.extents[self.range_dims :]

    @property
    def joined_source(self) -> tuple[AffineExpr, ...]:
        """Event of `joined_extents` that a producer signals."""
        return self.source_exprs[self.range_dims :]

    @property
    def peer_expr(self) -> AffineExpr | None:
        """Rank whose event the producer signals; None is its own."""
        return None if self.peer is None else self.peer.data

    @property
    def credit_name(self) -> str | None:
        """Name of the family that credits empty puts, None without one."""
        return None if self.credit is None else self.credit.root_reference.data

    @classmethod
    def parse(cls, parser: Parser) -> DependenceOp:
        def family() -> tuple[SymbolRefAttr, list[str]]:
            symbol = SymbolRefAttr(parser.parse_symbol_name())
            dims = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_identifier
            )
            return symbol, dims

        def indices(names: Sequence[str]) -> ArrayAttr[IndexAttr]:
            exprs = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: IndexAttr(parse_index(parser, names))
            )
            return ArrayAttr(exprs)

        producer, producer_dims = family()
        parser.parse_punctuation("->")
        consumer, consumer_dims = family()
        parser.parse_keyword("on")
        buffers = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: SymbolRefAttr(parser.parse_symbol_name())
        )
        parser.parse_keyword("events")
        events = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_integer)
        parser.parse_keyword("from")
        source = indices(producer_dims)
        peer = None
        if parser.parse_optional_keyword("on"):
            peer = IndexAttr(parse_index(parser, producer_dims))
        parser.parse_keyword("to")
        among, target = parse_event(parser, consumer_dims)
        parser.parse_keyword("count")
        counts = parser.parse_optional_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_integer
        )
        if counts is None:
            counts = [parser.parse_integer()]
        credit = parse_credit(parser)
        return cls.create(
            properties={
                "producer": producer,
                "consumer": consumer,
                "producer_dims": ArrayAttr(StringAttr(n) for n in producer_dims),
                "consumer_dims": ArrayAttr(StringAttr(n) for n in consumer_dims),
                "buffers": ArrayAttr(buffers),
                "events": DenseArrayBase.from_list(i64, events),
                "source": source,
                "target": ArrayAttr(IndexAttr(e) for e in target),
                "counts": DenseArrayBase.from_list(i32, counts),
                **({} if among is None else {"among": EventRangeAttr(among)}),
                **({} if peer is None else {"peer": peer}),
                **({} if credit is None else {"credit": credit}),
            }
        )

    def print(self, printer: Printer) -> None:
        def indices(exprs: Sequence[AffineExpr], dims: ArrayAttr[StringAttr]) -> str:
            names = [n.data for n in dims]
            return "(" + ", ".join(format_index(e, names) for e in exprs) + ")"

        def dims(names: ArrayAttr[StringAttr]) -> str:
            return "(" + ", ".join(n.data for n in names) + ")"

        printer.print_string(f" @{self.producer.root_reference.data} {dims(self.producer_dims)}")
        printer.print_string(f" -> @{self.consumer.root_reference.data} {dims(self.consumer_dims)}")
        buffers = ", ".join(f"@{b.root_reference.data}" for b in self.buffers)
        printer.print_string(f" on {buffers}")
        with printer.indented():
            printer.print_string("\n")
            events = ", ".join(str(n) for n in self.extents)
            printer.print_string(f"events ({events})")
            printer.print_string(f" from {indices(self.source_exprs, self.producer_dims)}")
            if self.peer is not None:
                names = [n.data for n in self.producer_dims]
                printer.print_string(f" on {format_index(self.peer.data, names)}")
            names = [n.data for n in self.consumer_dims]
            target = event_text(self.event_range, self.target_exprs, names)
            printer.print_string(f" to ({target})")
            counts = self.counts.get_values()
            text = str(counts[0]) if len(counts) == 1 else str(list(counts))
            printer.print_string(f" count {text}")
            if self.credit is not None:
                printer.print_string("\n")
                printer.print_string(credit_text(self.credit))

    @property
    def _consumer_exprs(self) -> tuple[AffineExpr, ...]:
        ranged = () if self.event_range is None else self.event_range.exprs
        return (*ranged, *self.target_exprs)

    def verify_(self) -> None:
        waited = self.range_dims + len(self.target)
        if not (len(self.source) == waited == len(self.events)):
            raise VerifyException(
                f"a family of events with {len(self.events)} coordinates needs as many "
                f"expressions on each side, found {len(self.source)} and {waited}"
            )
        if any(n <= 0 for n in self.extents):
            raise VerifyException(
                f"extents of the events must be positive, found {list(self.extents)}"
            )
        if self.event_count > MOST_EVENTS:
            raise VerifyException(
                f"a family of events has at most {MOST_EVENTS}, found {self.event_count}"
            )
        if len(self.counts) not in (1, self.event_count):
            raise VerifyException(
                f"expected 1 or {self.event_count} thresholds, found {len(self.counts)}"
            )
        if any(n <= 0 for n in self.counts.get_values()):
            raise VerifyException("a threshold must be positive")
        for side, names, exprs in (
            ("producer", self.producer_dims, self.source_exprs),
            ("consumer", self.consumer_dims, self._consumer_exprs),
        ):
            used = {d for e in exprs for d in dims_used(e)}
            if used and max(used) >= len(names):
                raise VerifyException(f"an event index uses a coordinate the {side} does not have")
