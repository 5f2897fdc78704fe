"""Orders of the `queue` dialect: the tasks of each core as dense arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FlatSymbolRefAttr,
    StringAttr,
    SymbolRefAttr,
    i32,
)
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.core_kind import parse_core_kind, verify_core_kind
from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.tile.types import dense_i32, int_array
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import MAX_AIV_PER_AIC, MAX_CORES

POINT_BITS = 24
"""Bits of the grid point's number in a slot; the family's number is in the bits above."""

POINT_MASK = (1 << POINT_BITS) - 1


@irdl_op_definition
class OrderOp(IRDLOperation):
    """The order in which each core of a kind runs its tasks.

    One list per core: tasks as families with row-major numbers of grid points. A run of cores
    without tasks is written once with its length.

    ```
    queue.order aic {
      [@gmm1[0, 2], @gmm2[0]],
      [@gmm1[1, 3]],
      [] times 22
    }
    ```
    """

    name = "queue.order"

    core = prop_def(StringAttr)
    """Kind of core: aic or aiv."""
    families = prop_def(ArrayAttr[FlatSymbolRefAttr])
    """The families that occur; a slot has the index of its family in this list."""
    first = prop_def(DenseArrayBase.constr(i32))
    """Index of each core's first slot; one more at the end."""
    slots = prop_def(DenseArrayBase.constr(i32))
    """(family << 24) + point, core after core."""

    def __init__(
        self, core: CoreKind, families: Sequence[str], first: IntArray, slots: IntArray
    ) -> None:
        super().__init__(
            properties={
                "core": StringAttr(core.value),
                "families": ArrayAttr(SymbolRefAttr(f) for f in families),
                "first": dense_i32(first),
                "slots": dense_i32(slots.astype(np.uint32).view(np.int32).astype(np.int64)),
            }
        )

    @property
    def core_kind(self) -> CoreKind:
        """Kind of core that runs the tasks."""
        return CoreKind(self.core.data)

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
        core = parse_core_kind(parser)
        families: dict[str, int] = {}

        def point() -> int:
            start = parser.pos
            number = parser.parse_integer(allow_boolean=False)
            if not 0 <= number <= POINT_MASK:
                parser.raise_error(
                    f"expected a point from 0 to {POINT_MASK}, found {number}", start, parser.pos
                )
            return number

        def run() -> list[int]:
            name = parser.parse_symbol_name().data
            number = families.setdefault(name, len(families)) << POINT_BITS
            points = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, point)
            return [number + p for p in points]

        def equal_queues() -> list[list[int]]:
            runs = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, run)
            queue = [slot for r in runs for slot in r]
            if not queue and parser.parse_optional_keyword("times"):
                start = parser.pos
                times = parser.parse_integer(allow_boolean=False, allow_negative=False)
                if times > MAX_CORES * MAX_AIV_PER_AIC:
                    parser.raise_error(
                        f"expected at most {MAX_CORES * MAX_AIV_PER_AIC} cores, found {times}",
                        start,
                        parser.pos,
                    )
                return [queue] * times
            return [queue]

        queues = [
            queue
            for equal in parser.parse_comma_separated_list(parser.Delimiter.BRACES, equal_queues)
            for queue in equal
        ]
        first = np.cumsum([0, *(len(q) for q in queues)])
        slots = np.array([slot for q in queues for slot in q], dtype=np.int64)
        return cls(core, list(families), first, slots)

    def print(self, printer: Printer) -> None:
        names = self.family_names
        slots, first = self.slot_values, self.first_slots
        printer.print_string(f" {self.core.data} {{")
        texts: list[str] = []
        idle = 0
        for core in range(self.core_count):
            queue = slots[first[core] : first[core + 1]]
            if not queue.size:
                idle += 1
                texts[len(texts) - (idle > 1) :] = ["[]" if idle == 1 else f"[] times {idle}"]
                continue
            idle = 0
            family, point = queue >> POINT_BITS, queue & POINT_MASK
            cuts = np.flatnonzero(np.diff(family)) + 1
            runs = [
                f"@{names[f[0]]}{points.tolist()}"
                for f, points in zip(np.split(family, cuts), np.split(point, cuts), strict=True)
            ]
            texts.append(f"[{', '.join(runs)}]")
        with printer.indented():
            printer.print_string("\n" + ",\n".join(texts))
        printer.print_string("\n}")

    def verify_(self) -> None:
        verify_core_kind(self.core)
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
