"""All tasks of all ranks of a queue program as arrays: cores, places, waits, signals.

Task `rank * per_rank + first[family] + point` is a point of a family on a rank; event
`rank * events_per_rank + first_event[event] + number` is an event in the memory of a rank; core
`rank * cores + c` counts the AIC cores of a rank before its AIV cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.dialects.index import IntArray, evaluate_index
from hpmoe_ir.dialects.queue import (
    POINT_BITS,
    POINT_MASK,
    EventOp,
    ProgramOp,
    SignalOp,
    WaitOp,
    events_of,
    orders_of,
    signals_of,
    waits_of,
)
from hpmoe_ir.dialects.tile import TasksOp, families_of

NONE = -1
"""In `waits` and `signals`: no event."""


@dataclass(frozen=True)
class QueueTasks:
    """The tasks of a program; N tasks and E events over all ranks, C cores on each."""

    program: ProgramOp
    ranks: int
    families: list[TasksOp]
    first: dict[str, int]
    """First task of a family, on rank 0."""
    per_rank: int
    """Tasks of one rank."""
    events: list[EventOp]
    first_event: dict[str, int]
    events_per_rank: int
    core_names: list[str]
    """`aic0`, ... of one rank."""
    core: IntArray
    """[N] the core that runs a task."""
    place: IntArray
    """[N] its place in the queue of its core, from 1."""
    queues: IntArray
    """[N] tasks, core after core, in the order of the queues."""
    queue_starts: IntArray
    """[ranks * C + 1] first index into `queues` of each core."""
    waits: IntArray
    """[N, most waits of a task] events that a task waits for, NONE where it has fewer."""
    signals: IntArray
    """[N, most signals of a task] events that a task counts towards."""
    thresholds: IntArray
    """[E]"""

    @property
    def cores(self) -> int:
        """Cores of one rank."""
        return len(self.core_names)

    def tasks_of(self, family: TasksOp) -> IntArray:
        """[ranks, points] the numbers of a family's tasks."""
        begin = self.first[family.sym_name.data]
        points = np.arange(begin, begin + family.task_count, dtype=np.int64)
        return np.arange(self.ranks, dtype=np.int64)[:, None] * self.per_rank + points

    def rank_of(self, task: int) -> int:
        """The rank that runs a task."""
        return task // self.per_rank

    def family_of(self, task: int) -> tuple[TasksOp, int]:
        """The family of a task and the number of its point."""
        number = task % self.per_rank
        for family in self.families:
            begin = self.first[family.sym_name.data]
            if begin <= number < begin + family.task_count:
                return family, number - begin
        raise AssertionError(f"no task {task}")

    def point_of(self, task: int) -> tuple[int, ...]:
        """The grid point of a task."""
        family, point = self.family_of(task)
        return tuple(int(c) for c in np.unravel_index(point, family.extents))

    def task_text(self, task: int) -> str:
        """`@matmul (0, 1, 0, 2) on rank 3`."""
        family, _ = self.family_of(task)
        point = ", ".join(map(str, self.point_of(task)))
        return f"@{family.sym_name.data} ({point}) on rank {self.rank_of(task)}"

    def core_text(self, task: int) -> str:
        """`aic3`, the core of a task on its rank."""
        return self.core_names[int(self.core[task]) % self.cores]

    def event_text(self, event: int) -> str:
        """`@matmul_done[0, 1] on rank 3`."""
        rank, number = divmod(event, self.events_per_rank)
        for op in self.events:
            begin = self.first_event[op.sym_name.data]
            if begin <= number < begin + op.event_count:
                index = np.unravel_index(number - begin, op.extents)
                text = ", ".join(str(int(i)) for i in index)
                return f"@{op.sym_name.data}[{text}] on rank {rank}"
        raise AssertionError(f"no event {event}")

    @cached_property
    def signallers(self) -> tuple[IntArray, IntArray]:
        """Tasks sorted by the event that they signal, and the first of each event ([E + 1])."""
        return _by_event(self.signals, len(self.thresholds))

    @cached_property
    def waiters(self) -> tuple[IntArray, IntArray]:
        """Tasks sorted by the event that they wait for, and the first of each event ([E + 1])."""
        return _by_event(self.waits, len(self.thresholds))

    def signallers_of(self, event: int) -> IntArray:
        """The tasks that count towards an event."""
        tasks, starts = self.signallers
        return tasks[starts[event] : starts[event + 1]]

    def waiters_of(self, event: int) -> IntArray:
        """The tasks that wait for an event."""
        tasks, starts = self.waiters
        return tasks[starts[event] : starts[event + 1]]


def _by_event(uses: IntArray, events: int) -> tuple[IntArray, IntArray]:
    task, column = np.nonzero(uses != NONE)
    event = uses[task, column]
    order = np.argsort(event, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(event, minlength=events))])
    return task[order], starts


def queue_tasks(program: ProgramOp) -> QueueTasks:
    """The tasks of a verified program that has the orders of its cores."""
    families = list(families_of(program).values())
    events = list(events_of(program).values())
    ranks = program.ranks.value.data
    first, per_rank = _starts([(f.sym_name.data, f.task_count) for f in families])
    first_event, events_per_rank = _starts([(e.sym_name.data, e.event_count) for e in events])
    names, local, starts = _queues(program, first)
    cores, count = len(names), len(local)
    assert count == per_rank, "each task is in one queue"
    rank = np.arange(ranks, dtype=np.int64)[:, None]
    core, place = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    sizes = np.diff(starts)
    core[local] = np.repeat(np.arange(cores), sizes)
    place[local] = np.arange(count) - np.repeat(starts[:-1], sizes) + 1
    thresholds = np.concatenate([np.zeros(0, dtype=np.int64), *(e.thresholds for e in events)])

    def columns(uses: Sequence[WaitOp | SignalOp]) -> IntArray:
        found: dict[str, list[IntArray]] = {f.sym_name.data: [] for f in families}
        for op in uses:
            family = next(f for f in families if f.sym_name.data == op.family_name)
            event = next(e for e in events if e.sym_name.data == op.event_name)
            number = np.zeros((ranks, family.task_count), dtype=np.int64)
            for expr, extent in zip(op.index_exprs, event.extents, strict=True):
                number = number * extent + task_values(family, expr, ranks)
            peer = op.peer_expr if isinstance(op, SignalOp) else None
            owner = rank if peer is None else task_values(family, peer, ranks)
            found[op.family_name].append(
                number + owner * events_per_rank + first_event[op.event_name]
            )
        table = np.full((ranks, per_rank, max(map(len, found.values()), default=0)), NONE)
        for name, numbers in found.items():
            for column, event in enumerate(numbers):
                table[:, first[name] : first[name] + event.shape[1], column] = event
        return table.reshape(ranks * per_rank, -1)

    return QueueTasks(
        program,
        ranks,
        families,
        first,
        per_rank,
        events,
        first_event,
        events_per_rank,
        names,
        (rank * cores + core).ravel(),
        np.tile(place, ranks),
        (rank * per_rank + local).ravel(),
        np.append((rank * count + starts[:-1]).ravel(), ranks * count),
        columns(waits_of(program)),
        columns(signals_of(program)),
        np.tile(thresholds, ranks),
    )


def task_values(family: TasksOp, expr: AffineExpr, ranks: int) -> IntArray:
    """[ranks, points] value of an index expression at each task of a family."""
    rank = np.arange(ranks, dtype=np.int64)[:, None]
    value = evaluate_index(expr, [c[None, :] for c in family.coordinates()], rank)
    return np.broadcast_to(np.asarray(value, dtype=np.int64), (ranks, family.task_count))


def _starts(sizes: Sequence[tuple[str, int]]) -> tuple[dict[str, int], int]:
    starts: dict[str, int] = {}
    total = 0
    for name, size in sizes:
        starts[name] = total
        total += size
    return starts, total


def _queues(program: ProgramOp, first: dict[str, int]) -> tuple[list[str], IntArray, IntArray]:
    """Names of a rank's cores, their tasks on rank 0 core after core, first of each core."""
    names: list[str] = []
    parts: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    starts: list[IntArray] = [np.zeros(1, dtype=np.int64)]
    total = 0
    for kind in TasksOp.CORES:
        order = orders_of(program).get(kind)
        if order is None:
            continue
        names += [f"{kind}{c}" for c in range(order.core_count)]
        begins = np.array([first[n] for n in order.family_names] or [0], dtype=np.int64)
        slots = order.slot_values
        parts.append(begins[slots >> POINT_BITS] + (slots & POINT_MASK))
        starts.append(order.first_slots[1:] + total)
        total += slots.size
    return names, np.concatenate(parts), np.concatenate(starts)
