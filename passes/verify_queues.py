"""`verify-queues`: a proof that a queue program cannot hang, race, or spoil its next launch."""

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
from hpmoe_ir.passes.proof.coverage import check_written
from hpmoe_ir.passes.proof.layout import check_layout, check_thresholds
from hpmoe_ir.passes.proof.order import OrderProof
from hpmoe_ir.passes.proof.races import check_launches, check_order
from hpmoe_ir.passes.proof.run import QueueRun, run_queues, waiting_cycle
from hpmoe_ir.passes.proof.tasks import queue_tasks


@dataclass(frozen=True)
class VerifyQueuesPass(ModulePass):
    """Refuses a queue program that can go wrong on any rank, under any routing and any timing.

    Proved over all ranks together:

    - each event gets exactly as many signals as its threshold says;
    - all tasks end: the queues and the waits have no circle;
    - of two tasks that use the same part of a buffer, one of them writing, or of two buffers that
      share memory, the one that the program names first has ended before the other starts;
    - what is read has been written in the same launch;
    - no rank can overwrite, in its next launch, a window that a peer still uses in this one, and
      no event can count a signal of the next launch for one of this;
    - counters have cache lines of their own, and local memory and cores are within the machine.

    The proof uses the program's queues, events and accesses alone: how many rows an access has at
    run time plays no part. docs/checking.md says what it assumes.

    Needs queues (`assign-queues`). Changes nothing: a right program is left as it is, and a wrong
    one, such as this without a wait,

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
    """Refuses a verified queue program that can go wrong; raises RefusedError."""
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
        return  # no task, nothing that could go wrong
    tasks = queue_tasks(program)
    check_thresholds(tasks)
    run = run_queues(tasks)
    if not run.complete:
        _refuse_cycle(run)
    uses = uses_of(tasks)
    check_written(tasks, uses)
    proof = OrderProof(run)
    check_order(proof, uses)
    check_launches(proof, uses)


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
