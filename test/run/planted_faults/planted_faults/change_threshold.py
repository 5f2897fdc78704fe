"""`change-threshold`: an event that waits for too many or too few signals."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hpmoe_ir.dialects.queue import EventOp
from hpmoe_ir.dialects.tile.types import dense_i32


@dataclass(frozen=True)
class ChangeThresholdPass(ModulePass):
    """Adds a number to the thresholds of the events of a name, and keeps them at 1 or more.

    ```
    queue.event @return_done count 8
    ```
    becomes, with `event=return_done by=-1`
    ```
    queue.event @return_done count 7
    ```
    """

    name = "change-threshold"

    event: str
    """Name of the events."""
    by: int
    """What is added."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for event in op.walk():
            if isinstance(event, EventOp) and event.sym_name.data == self.event:
                event.counts = dense_i32((event.thresholds + self.by).clip(1))
