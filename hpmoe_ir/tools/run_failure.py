"""Why a run failed, in a form that two failures can be compared by."""

from __future__ import annotations

from collections.abc import Sequence

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.run.signature import Direction


class RunFailure(InputError):
    """What was asked for could be run, and went wrong.

    kind: that of a DeviceFault (`deadlock`, `address`, ...); `deadlock` or `interpreter` of an
    upper level; `status` where ranks disagree on it; `bits` where two orders have different
    results; `check` and `gradients` where they are not the reference's; `refused by PASS`;
    `compiler` where the generated code does not compile; `unexpected TYPE` for a Python exception.
    direction: that of the function that ran; None where none did.
    orders: the seeds of the orders that show it, one, or two for `bits`.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        direction: Direction | None = None,
        orders: Sequence[int] = (),
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.direction = direction
        self.orders = tuple(orders)

    def is_like(self, other: RunFailure) -> bool:
        """Whether both went wrong in the same way, in the same direction."""
        return (self.kind, self.direction) == (other.kind, other.direction)

    def with_more(self, text: str) -> RunFailure:
        """The failure with a further line in its message."""
        message = f"{self.message}\n  {text}"
        return RunFailure(self.kind, message, direction=self.direction, orders=self.orders)
