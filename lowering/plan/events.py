"""C++ for events: the numbers of their counters, and waits for them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import AffineExpr

from hpmoe_ir.lowering.plan.access import TaskBody, flat_index
from hpmoe_ir.lowering.plan.sizes import camel


def event_number(body: TaskBody, event: str, index: Sequence[AffineExpr] | None) -> str:
    """C++ for the number of the counter of an event that this launch uses.

    Without an index, of the first event of the family.
    """
    number, events = _number(body, event, index)
    return f"env.InTurn({number}, {events})" if events else number


def event_wait(body: TaskBody, event: str, index: Sequence[AffineExpr]) -> str:
    """Call of the environment that waits for an event."""
    number, events = _number(body, event, index)
    return f"WaitInTurn({number}, {events})" if events else f"Wait({number})"


def _number(body: TaskBody, event: str, index: Sequence[AffineExpr] | None) -> tuple[str, str]:
    """C++ for the number of an event's first counter, and how many lines after it the second is."""
    op = body.program.events[event]
    name = f"k{camel(event)}"
    assert op.line is not None
    first = body.sizes.word(name, op.line.value.data)
    flat = "" if index is None else flat_index(body, index, op.extents, name)
    apart = body.sizes.word(f"{name}Events", op.event_count) if op.copy_count == 2 else ""
    return (f"{first} + {flat}" if flat else first), apart
