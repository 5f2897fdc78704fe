"""Events of the `queue` dialect: counters with thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    i32,
    i64,
)
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.tile.types import MOST_EVENTS, dense_i32, int_array

MOST_LINES = 2 * MOST_EVENTS
"""Most cache lines of counters of a program, with those between them that hold none."""


@irdl_op_definition
class EventOp(IRDLOperation):
    """A family of events: counters with thresholds.

    `allocate-events` adds the first cache line of the counters, one line for each event. An event
    with `copies 2` has two counters, between which launches alternate as between the two copies of
    a window: signals of a launch may then arrive before all those of the previous launch.

    ```
    queue.event @recv_ready (2, 2) count 8 line 16
    queue.event @exchange_done () count 2 copies 2 line 20
    ```
    """

    name = "queue.event"

    sym_name = prop_def(SymbolNameConstraint())
    events = prop_def(DenseArrayBase.constr(i64))
    """Extents of the grid of events; empty for a single event."""
    counts = prop_def(DenseArrayBase.constr(i32))
    """Threshold of each event, row-major; one number where all are equal."""
    line = opt_prop_def(IntegerAttr[I64])
    """Cache line of the first counter, from the start of the counters in the window memory."""
    copies = opt_prop_def(IntegerAttr[I64])
    """2: two counters per event, between which launches alternate; absent: one."""

    traits = traits_def(SymbolOpInterface())

    def __init__(
        self,
        name: str,
        extents: Sequence[int],
        counts: IntArray,
        line: int | None = None,
        copies: int = 1,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "events": DenseArrayBase.from_list(i64, list(extents)),
                "counts": dense_i32(counts),
                "line": None if line is None else IntegerAttr(line, i64),
                "copies": None if copies == 1 else IntegerAttr(copies, i64),
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
    def copy_count(self) -> int:
        """Number of counters of each event."""
        return 1 if self.copies is None else self.copies.value.data

    @property
    def line_count(self) -> int:
        """Number of cache lines of all counters of the family."""
        return self.event_count * self.copy_count

    @property
    def end_line(self) -> int:
        """The cache line after the last counter of the family; 0 without `allocate-events`."""
        return 0 if self.line is None else self.line.value.data + self.line_count

    def first_line(self, launch: int = 1) -> int:
        """Returns the cache line of the first counter that a launch uses.

        Launch n uses copy n mod `copy_count`. Needs `allocate-events` to have set `line`.
        """
        assert self.line is not None
        return self.line.value.data + launch % self.copy_count * self.event_count

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
        copies = parser.parse_integer() if parser.parse_optional_keyword("copies") else 1
        line = parser.parse_integer() if parser.parse_optional_keyword("line") else None
        op = cls(name, extents, np.ones(1, dtype=np.int64), line, copies)
        op.counts = DenseArrayBase.from_list(i32, counts)
        return op

    def print(self, printer: Printer) -> None:
        counts = self.counts.get_values()
        text = str(counts[0]) if len(counts) == 1 else str(list(counts))
        extents = ", ".join(str(n) for n in self.extents)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string(f" ({extents}) count {text}")
        if self.copy_count != 1:
            printer.print_string(f" copies {self.copy_count}")
        if self.line is not None:
            printer.print_string(f" line {self.line.value.data}")

    def verify_(self) -> None:
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
        if self.copies is not None and self.copy_count != 2:
            raise VerifyException(f"expected 1 or 2 copies, found {self.copy_count}")
        if self.line is not None and self.line.value.data < 0:
            raise VerifyException(f"a cache line cannot be negative, found {self.line.value.data}")
        if self.end_line > MOST_LINES:
            raise VerifyException(
                f"counters are in the first {MOST_LINES} cache lines, found lines up to "
                f"{self.end_line - 1}"
            )
