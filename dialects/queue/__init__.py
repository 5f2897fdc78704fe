"""The `queue` dialect: the static task order of each core, and the events that synchronize tasks.

A `queue.program` has the buffers and families of the tile program that it came from, and adds the
order of each core's tasks, families of events, and their waits and signals. Nothing is scheduled
at run time: a core takes its tasks in order, waits for the events of a task, runs its kernel, and
signals.

An event is reached when the number of its signals in this launch equals its threshold; its counter
is in the memory of the waiting rank, alone in its cache line.

```
queue.program @layer ranks 2 machine "ascend-a3" {
  tile.buffer ...
  tile.tasks @dispatch (p, e) ...
  tile.tasks @gmm1 (e, g, n) ...
  queue.event @recv_ready (2, 2) count 1 line 0
  queue.signal @dispatch (p, e) to @recv_ready (e, rank) on (rank + p) mod 2
  queue.wait @gmm1 (e, g, n) for @recv_ready (e, g)
  queue.order aic {
    [@gmm1[0, 2]],
    [@gmm1[1, 3]]
  }
}
```
"""

from __future__ import annotations

from xdsl.ir import Dialect

from hpmoe_ir.dialects.queue.event import EventOp
from hpmoe_ir.dialects.queue.event_use import SignalOp, WaitOp, signals_of, waits_of
from hpmoe_ir.dialects.queue.order import POINT_BITS, POINT_MASK, OrderOp
from hpmoe_ir.dialects.queue.program import WAIT_OPTIONS, ProgramOp, events_of, orders_of
from hpmoe_ir.dialects.queue.task import CoreOp, EventUseAttr, TaskOp

__all__ = [
    "POINT_BITS",
    "POINT_MASK",
    "WAIT_OPTIONS",
    "CoreOp",
    "EventOp",
    "OrderOp",
    "ProgramOp",
    "Queue",
    "SignalOp",
    "TaskOp",
    "WaitOp",
    "events_of",
    "orders_of",
    "signals_of",
    "waits_of",
]

Queue = Dialect(
    "queue",
    [ProgramOp, EventOp, WaitOp, SignalOp, OrderOp, CoreOp, TaskOp],
    [EventUseAttr],
)
