"""`allocate-events`: gives the counter of each event a cache line of its own."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.queue import ProgramOp, events_of
from hpmoe_ir.dialects.tile import MemorySpace, buffer_bytes, buffers_of
from hpmoe_ir.integers import round_up
from hpmoe_ir.passes.analysis.level import programs_at
from hpmoe_ir.passes.plan_memory import ALIGNMENT


@dataclass(frozen=True)
class AllocateEventsPass(ModulePass):
    """Gives each event a counter in the window memory, alone in its 64-byte line.

    The counters come after the windows; an event with two copies has two. Counters must not share
    a cache line: the scalar unit writes back whole lines, so updates of a neighbour would be lost.

    Needs planned windows (`plan-memory`). Idempotent.

    ```
    queue.program @layer ranks 2 machine "ascend-a3" {
      tile.buffer @recv window at 0 : !tile.buffer<grouped 256 rows, 64xbf16>
      queue.event @dispatch_done (2, 2) count 1
      queue.event @gmm1_done (2) count 4
    ```
    becomes
    ```
    queue.program @layer ranks 2 machine "ascend-a3" counters at 32768 {
      tile.buffer @recv window at 0 : !tile.buffer<grouped 256 rows, 64xbf16>
      queue.event @dispatch_done (2, 2) count 1 line 0
      queue.event @gmm1_done (2) count 4 line 4
    ```
    """

    name = "allocate-events"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in programs_at(op, ProgramOp, self.name):
            end = 0
            for name, buffer in buffers_of(program).items():
                if buffer.space.data is not MemorySpace.WINDOW:
                    continue
                if buffer.offset is None:
                    refuse(
                        buffer,
                        f"{self.name}: window @{name} has no offset; run plan-memory before it",
                    )
                end = max(end, buffer.offset.value.data + buffer_bytes(buffer))
            program.counters = IntegerAttr(round_up(end, ALIGNMENT), i64)
            line = 0
            for event in events_of(program).values():
                event.line = IntegerAttr(line, i64)
                line += event.line_count
