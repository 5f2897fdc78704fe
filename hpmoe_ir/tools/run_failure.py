"""Failures of a run, with a kind by which failures are compared."""

from __future__ import annotations

from collections.abc import Sequence

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.run.signature import Direction


class RunFailure(InputError):
    """A valid run that failed.

    kind: the kind of a DeviceFault (`deadlock`, `address`, ...); `deadlock` or `interpreter` at an
    upper level; `status` if ranks disagree on the status; `bits` if two orders give different
    results; `check` or `gradients` if results differ from the reference; `refused by PASS`;
    `compiler` if the generated code does not compile; `unexpected TYPE` for a Python exception.
    direction: the direction of the function that ran; None if none did.
    orders: the seeds of the orders that reproduce it: one, or two for `bits`.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        direction: Direction | None = None,
        orders: Sequence[int] = (),
        location: str = "",
    ) -> None:
        super().__init__(message, location)
        self.kind = kind
        self.direction: Direction | None = direction
        self.orders = tuple(orders)

    def is_like(self, other: RunFailure) -> bool:
        """Returns whether both failures have the same kind and direction."""
        return (self.kind, self.direction) == (other.kind, other.direction)

    def with_more(self, text: str) -> RunFailure:
        """Returns the failure with another line in its message."""
        message = f"{self.message}\n  {text}"
        return RunFailure(
            self.kind,
            message,
            direction=self.direction,
            orders=self.orders,
            location=self.location,
        )
