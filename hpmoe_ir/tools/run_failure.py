"""Why a run failed, in a form that two failures can be compared by."""

from __future__ import annotations

from collections.abc import Sequence

from hpmoe_ir.diagnostics import InputError


class RunFailure(InputError):
    """What was asked for could be run, and went wrong.

    kind: that of a DeviceFault (`deadlock`, `address`, ...); `deadlock` or `interpreter` of an
    upper level; `status` where ranks disagree on it; `bits` where two orders have different
    results; `check` and `gradients` where they are not the reference's; `refused by PASS`;
    `compiler` where the generated code does not compile; `unexpected TYPE` for a Python exception.
    function: the function that ran; empty where none did.
    orders: the seeds of the orders that show it, one, or two for `bits`.
    """

    def __init__(
        self, kind: str, message: str, *, function: str = "", orders: Sequence[int] = ()
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.function = function
        self.orders = tuple(orders)

    def is_like(self, other: RunFailure) -> bool:
        """Whether both went wrong in the same way, in the same direction."""
        return (self.kind, self.function) == (other.kind, other.function)

    def with_more(self, text: str) -> RunFailure:
        """The failure with a further line in its message."""
        message = f"{self.message}\n  {text}"
        return RunFailure(self.kind, message, function=self.function, orders=self.orders)
