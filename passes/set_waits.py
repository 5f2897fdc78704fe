"""`set-waits`: sets the time limit and the polling intervals of waits."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.queue import WAIT_OPTIONS, ProgramOp
from hpmoe_ir.passes.analysis.level import programs_at


@dataclass(frozen=True)
class SetWaitsPass(ModulePass):
    """Sets the time limit and polling intervals of waits, in ticks of the system counter (20 ns).

    A wait that has not ended after `budget` ticks gives up: the core reports the task and the event
    it waited for, and stops the kernel. An AIC pauses for `poll-aic` ticks between two polls of a
    counter, an AIV for `poll-aiv`; the published system polls every 50 us and 150 us, which are
    2500 and 7500 ticks. 0 removes the property.

    Needs a `queue.program`. Options that are not given keep their value in the program.

    ```
    queue.program @layer ranks 2 machine "ascend-a3" counters at 512 {
    ```
    becomes by `set-waits{budget=50000000 poll-aiv=7500}`
    ```
    queue.program @layer ranks 2 machine "ascend-a3" counters at 512 budget 50000000 poll_aiv 7500 {
    ```
    """

    name = "set-waits"

    budget: int | None = None
    """Time limit of a wait, in ticks."""
    poll_aic: int | None = None
    """Pause between two polls of an AIC, in ticks."""
    poll_aiv: int | None = None
    """Pause between two polls of an AIV, in ticks."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        given = {name: getattr(self, name) for name in WAIT_OPTIONS}
        given = {name: ticks for name, ticks in given.items() if ticks is not None}
        for program in programs_at(op, ProgramOp, self.name):
            if not given:
                refuse(program, f"{self.name}: expected one of {', '.join(WAIT_OPTIONS)}")
            for name, ticks in given.items():
                if not 0 <= ticks <= ProgramOp.MOST_TICKS:
                    refuse(
                        program,
                        f"{self.name}: {name}: expected 0 to {ProgramOp.MOST_TICKS} ticks, found "
                        f"{ticks}",
                    )
                if ticks == 0:
                    program.properties.pop(name, None)
                else:
                    program.properties[name] = IntegerAttr(ticks, i64)
