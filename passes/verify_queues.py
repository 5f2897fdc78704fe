"""`verify-queues`: proves that a queue program has no deadlocks or races, even across launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.queue import ProgramOp, orders_of
from hpmoe_ir.dialects.tile import families_of
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.analysis.level import programs_at
from hpmoe_ir.passes.analysis.task_uses import uses_of
from hpmoe_ir.passes.proof.coverage import check_results, check_written
from hpmoe_ir.passes.proof.deadlock import waiting_cycle
from hpmoe_ir.passes.proof.launches import check_launches
from hpmoe_ir.passes.proof.layout import check_layout, check_thresholds
from hpmoe_ir.passes.proof.order import OrderProof
from hpmoe_ir.passes.proof.races import check_order
from hpmoe_ir.passes.proof.routes import check_routes
from hpmoe_ir.passes.proof.run import QueueRun, run_queues
from hpmoe_ir.passes.proof.scatter import check_scatter
from hpmoe_ir.passes.proof.shapes import check_shapes
from hpmoe_ir.passes.proof.tasks import queue_tasks


@dataclass(frozen=True)
class VerifyQueuesPass(ModulePass):
    """Refuses a queue program unless it is correct on all ranks, for any routing and any timing.

    Proves over all ranks together:

    - each event gets exactly as many signals as its threshold;
    - all tasks end: the wait-for graph, including the queue orders, is acyclic;
    - of two tasks with conflicting accesses to a buffer, or to two buffers that share memory, the
      one that comes first in the program has ended before the other starts;
    - all data that is read, by tasks or by the caller, has been written in the same launch;
    - no access of a window in a launch races with a put of an earlier one, and no event can count
      a signal of the next launch towards this one;
    - the tiles of each task have the shapes that its kernel expects;
    - what `scatter` promises: tasks that share a tile write each of its elements once;
    - counters do not share cache lines, and local memory and cores are within the machine's limits.

    The proof uses only the program's queues, events and accesses, not the number of rows of an
    access at run time. docs/checking.md states its assumptions.

    Needs queues (`assign-queues`). Changes nothing: a correct program is left as it is, and an
    incorrect one, such as this with a missing wait,

    ```
    tile.tasks @matmul (e) in (2) on aic ... writes @h[e, :]
    tile.tasks @swiglu (e) in (2) on aiv ... reads @h[e, :]
    queue.event @matmul_done (2) count 1
    queue.signal @matmul (e) to @matmul_done (e)
    ```
    becomes an error:
    ```
    verify-queues: @swiglu (0) on rank 0 reads @h[e, :], which @matmul (0) on rank 0 writes; it may
    start before that has ended: the first signals @matmul_done[0] on rank 0, the second waits for
    nothing; missing is its wait for @matmul_done[0] on rank 0
    ```
    """

    name = "verify-queues"
    is_check = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in programs_at(op, ProgramOp, self.name):
            verify_queues(program)


def verify_queues(program: ProgramOp) -> None:
    """Proves a verified queue program free of deadlocks and races; raises RefusedError if not."""
    orders = orders_of(program)
    for kind in CoreKind:
        if kind not in orders:
            refuse(
                program,
                f"verify-queues: @{program.sym_name.data} has no order for the {kind} cores; run "
                "assign-queues before it, and expand-tasks after it",
            )
    check_layout(program)
    if not families_of(program):
        return  # no tasks, nothing to prove
    tasks = queue_tasks(program)
    check_thresholds(tasks)
    run = run_queues(tasks)
    if not run.complete:
        _refuse_cycle(run)
    check_shapes(tasks)
    check_routes(tasks)
    check_scatter(tasks)
    uses = uses_of(tasks)
    check_written(tasks, uses)
    proof = OrderProof(run)
    check_order(proof, uses)
    check_launches(proof, uses)
    check_results(tasks, uses)


def _refuse_cycle(run: QueueRun) -> NoReturn:
    tasks = run.tasks
    cycle = waiting_cycle(run)
    lines: list[str] = []
    for i, (head, event, task) in enumerate(cycle):
        following = cycle[(i + 1) % len(cycle)][0]
        text = (
            f"{tasks.task_text(head)} ({tasks.core_text(head)}) waits for "
            f"{tasks.event_text(event)}, which {tasks.task_text(task)} signals"
        )
        if task != following:
            text += (
                f"; that is behind {tasks.task_text(following)} in the queue of "
                f"{tasks.core_text(task)}"
            )
        lines.append(text)
    refuse(
        tasks.family_of(cycle[0][0])[0],
        "verify-queues: the queues cannot end, these tasks wait for each other: "
        + "; ".join(lines),
    )
