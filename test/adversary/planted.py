"""Faults for the proof of `verify-queues`, planted one by one to see that the adversary finds them.

Each takes a check away, or a part of what a check looks at. This is the only module of the
adversary that knows the parts of the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest

from adversary.campaign import Asked, program_of
from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.dialects.queue import ProgramOp
from hpmoe_ir.dialects.tile import verify
from hpmoe_ir.passes import verify_queues
from hpmoe_ir.passes.analysis.task_uses import Meeting, Use, uses_of
from hpmoe_ir.passes.proof import coverage, launches, layout, races
from hpmoe_ir.passes.proof.order import OrderProof
from hpmoe_ir.passes.proof.run import QueueRun
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks, queue_tasks

Fault: TypeAlias = Callable[[pytest.MonkeyPatch], None]


def _nothing(*args: Any, **kwargs: Any) -> None:
    """A check that finds nothing."""


def counts_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    """An event may get more or fewer signals than its threshold."""
    patch.setattr(verify_queues, "check_thresholds", _nothing)


def cycles_are_not_seen(patch: pytest.MonkeyPatch) -> None:
    """Queues that can't end pass, if their tasks share no memory."""
    patch.setattr(QueueRun, "complete", property(lambda _: True))


def order_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    """Tasks of one launch may race."""
    patch.setattr(verify_queues, "check_order", _nothing)


def written_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    """What is read need not be written."""
    patch.setattr(verify_queues, "check_written", _nothing)


def lines_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    """Counters may share lines with each other and with windows."""
    patch.setattr(layout, "_check_counters", _nothing)


def next_launch_may_overwrite(patch: pytest.MonkeyPatch) -> None:
    """A put of the next launch may reach a window that is still in use."""
    patch.setattr(launches, "_check_overwrites", _nothing)


def next_launch_may_count(patch: pytest.MonkeyPatch) -> None:
    """A signal of the next launch may stand for one of this launch."""
    patch.setattr(launches, "_check_counts", _nothing)


def memory_is_not_shared(patch: pytest.MonkeyPatch) -> None:
    """Two buffers at the same bytes are two buffers."""

    def nothing(tasks: QueueTasks, uses: dict[str, list[Use]]) -> Iterator[tuple[Use, Use]]:
        return iter(())

    patch.setattr(races, "shared_memory", nothing)
    patch.setattr(launches, "shared_memory", nothing)


def empty_puts_signal(patch: pytest.MonkeyPatch) -> None:
    """A credited put orders what is before it even if it has no rows."""

    def tasks(program: Any) -> QueueTasks:
        found = queue_tasks(program)
        return replace(found, givers=np.full_like(found.givers, NONE), credits=[])

    patch.setattr(verify_queues, "queue_tasks", tasks)


def reads_may_be_overwritten(patch: pytest.MonkeyPatch) -> None:
    """A write need not wait for the reads before it."""

    def conflicts(uses: list[Use]) -> Iterator[tuple[Use, Use]]:
        for i, later in enumerate(uses):
            yield from ((earlier, later) for earlier in uses[:i] if earlier.writes)

    patch.setattr(races, "conflicts", conflicts)


def puts_stay_at_home(patch: pytest.MonkeyPatch) -> None:
    """A put is taken for a write to the window of its own rank."""

    def uses(tasks: QueueTasks) -> dict[str, list[Use]]:
        return {
            name: [replace(u, access=replace(u.access, peer=None)) for u in found]
            for name, found in uses_of(tasks).items()
        }

    patch.setattr(verify_queues, "uses_of", uses)


def all_windows_have_two_copies(patch: pytest.MonkeyPatch) -> None:
    """A window, like an event, is taken to be used in every other launch only."""
    overwrite = launches._check_overwrite  # pyright: ignore[reportPrivateUsage]

    def other(proof: OrderProof, one: Use, two: Use, copies: int, *, whole: bool = False) -> None:
        overwrite(proof, one, two, 2, whole=whole)

    patch.setattr(launches, "_check_overwrite", other)


def own_windows_are_safe(patch: pytest.MonkeyPatch) -> None:
    """A rank may touch its own windows in the next launch before its peers' puts of this one."""
    overwrite = launches._check_overwrite  # pyright: ignore[reportPrivateUsage]

    def other(proof: OrderProof, one: Use, two: Use, copies: int, *, whole: bool = False) -> None:
        if two.access.peer is not None:
            overwrite(proof, one, two, copies, whole=whole)

    patch.setattr(launches, "_check_overwrite", other)


def reports_have_no_lines(patch: pytest.MonkeyPatch) -> None:
    """The lines in which cores report waits may lie in a window."""
    check = layout._check_windows  # pyright: ignore[reportPrivateUsage]

    def other(program: ProgramOp, what: str, begin: int, end: int) -> None:
        if what == "the counters":
            check(program, what, begin, end)

    patch.setattr(layout, "_check_windows", other)


def operands_may_overlap(patch: pytest.MonkeyPatch) -> None:
    """A task may write an input, or what its kernel still reads."""
    patch.setattr(verify, "verify_contract", _nothing)


def buffers_are_long_enough(patch: pytest.MonkeyPatch) -> None:
    """Rows may be more than their buffer holds."""
    patch.setattr(verify, "verify_capacity", _nothing)


def half_is_all(patch: pytest.MonkeyPatch) -> None:
    """A buffer is written as a whole once a task has written a part of it."""
    patch.setattr(coverage, "_check_readers", _nothing)


def parts_are_apart(patch: pytest.MonkeyPatch) -> None:
    """Tasks of two families meet only if they use the same part."""
    meet = Meeting._meet  # pyright: ignore[reportPrivateUsage]

    def other(self: Meeting, a: IntArray, b: IntArray) -> BoolArray:
        found = meet(self, a, b)
        for name, axis in self.first.axes.items():
            if not self.whole and name in self.second.axes:
                found &= axis.low[a] == self.second.axes[name].low[b]
        return found

    patch.setattr(Meeting, "_meet", other)


def queues_run_in_parallel(patch: pytest.MonkeyPatch) -> None:
    """A task comes after all that its rank has in earlier places of any queue."""
    known = OrderProof.ended

    def ended(self: OrderProof, before: IntArray, after: IntArray, *, rows: bool) -> BoolArray:
        tasks = self.tasks
        same = before // tasks.per_rank == after // tasks.per_rank
        earlier = same & (tasks.place[before] < tasks.place[after])
        return known(self, before, after, rows=rows) | earlier

    patch.setattr(OrderProof, "ended", ended)


def all_ranks_are_known(patch: pytest.MonkeyPatch) -> None:
    """Each task is taken to start after tasks of all ranks."""

    def known(proof: OrderProof) -> BoolArray:
        return np.ones(proof.tasks.per_rank, dtype=np.bool_)

    patch.setattr(OrderProof, "know_all", property(known))


OP_FAULTS: frozenset[Fault] = frozenset({operands_may_overlap, buffers_are_long_enough})
"""Faults in the verifiers of the ops."""

COMMON_FAULTS: tuple[Fault, ...] = (
    counts_are_not_checked,
    cycles_are_not_seen,
    order_is_not_checked,
    written_is_not_checked,
    lines_are_not_checked,
    next_launch_may_overwrite,
    next_launch_may_count,
    memory_is_not_shared,
    reads_may_be_overwritten,
    all_windows_have_two_copies,
    own_windows_are_safe,
    reports_have_no_lines,
    operands_may_overlap,
    buffers_are_long_enough,
    half_is_all,
    queues_run_in_parallel,
    puts_stay_at_home,
    all_ranks_are_known,
)
"""Faults that a few hundred programs find."""

RARE_FAULTS: tuple[Fault, ...] = (
    empty_puts_signal,
    parts_are_apart,
)
"""Faults that a thousand or two find."""


def misses(fault: Fault, asked: Asked) -> bool:
    """Returns whether a harmful program that is refused is accepted with a fault.

    A check that crashes does not accept.
    """
    if not asked.found or asked.by_ops != (fault in OP_FAULTS):
        return False
    try:
        with pytest.MonkeyPatch.context() as patch:
            fault(patch)
            if asked.by_ops:
                asked.module.verify()
            verify_queues.verify_queues(program_of(asked.module))
    except Exception:
        return False
    return True
