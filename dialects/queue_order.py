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

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.tile_tasks import TasksOp
from hpmoe_ir.dialects.tile_types import dense_i32, int_array

POINT_BITS = 24
"""A slot of a queue is the family's number above this many bits of the point's number."""

POINT_MASK = (1 << POINT_BITS) - 1


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
                "slots": dense_i32(slots.astype(np.uint32).view(np.int32).astype(np.int64)),
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
