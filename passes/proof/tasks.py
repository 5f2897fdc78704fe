"""Arrays of all tasks of all ranks of a queue program: cores, places, waits, signals.

Events are numbered `rank * events_per_rank + first_event[event] + number`, where `rank` owns the
counter; cores `rank * cores + c`, with the AIC cores of a rank before its AIV cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from hpmoe_ir.dialects.index import BoolArray, IntArray
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
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.analysis.task_numbers import (
    TaskNumbers,
    first_places,
    number_tasks,
    task_values,
)

NONE = -1
"""Empty entry: no event in `waits` and `signals`, no task in `givers`."""


@dataclass(frozen=True)
class Credit:
    """A task on each rank that signals the rank's events of one family for puts without rows."""

    tasks: IntArray
    """[ranks] the task that gives the credit."""
    events: IntArray
    """[ranks, n] the credited events on each rank."""


@dataclass(frozen=True)
class RangeWait:
    """A wait of a family for ranges of events, which depend on the route."""

    op: WaitOp
    event: EventOp
    tasks: IntArray
    """[ranks, tasks] the tasks that wait."""
    last: IntArray
    """[ranks, tasks] number of the last coordinates of the events that each task waits for."""
    joins: IntArray
    """[ranks, tasks] the join of all events that may be in a task's range."""


@dataclass(frozen=True)
class QueueTasks(TaskNumbers):
    """The tasks of a queue program: N tasks and E events over all ranks, C cores per rank."""

    events: list[EventOp]
    first_event: dict[str, int]
    """Number of the first event of each family of events, on rank 0."""
    events_per_rank: int
    core_names: list[str]
    """[C] names of the cores of one rank: `aic0`, ..."""
    core: IntArray
    """[N] the core that runs a task."""
    place: IntArray
    """[N] the place of a task in the queue of its core, from 1."""
    queues: IntArray
    """[N] the tasks of all queues, core after core."""
    queue_starts: IntArray
    """[ranks * C + 1] index into `queues` of each core's first task, then N."""
    waits: IntArray
    """[N, most waits of a task] events that a task waits for, NONE where it has fewer."""
    signals: IntArray
    """[N, most signals of a task] events that a task signals, NONE where it has fewer."""
    givers: IntArray
    """[N, most signals of a task] for credited signals, the task on the event's rank that adds the
    signal where the task has no rows; NONE for signals that are always sent."""
    credits: list[Credit]
    """The credits, one for each credited signal of the program."""
    thresholds: IntArray
    """[E] signals of each event in a launch."""
    in_turn: BoolArray
    """[E] whether an event has two counters, used in alternate launches."""
    ranges: list[RangeWait]
    """The waits for ranges of events."""
    join_of: IntArray
    """[E, K] the joins that an event is in, NONE where it is in fewer."""
    joins: int
    """Number of joins: sets of events of a rank that differ in the coordinates of a range only."""

    @property
    def cores(self) -> int:
        """Number of cores of one rank."""
        return len(self.core_names)

    def core_text(self, task: int) -> str:
        """Returns the name of a task's core on its rank, such as `aic3`."""
        return self.core_names[int(self.core[task]) % self.cores]

    def event_text(self, event: int) -> str:
        """Returns the text of an event, such as `@matmul_done[0, 1] on rank 3`."""
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
        """Tasks sorted by the event that they signal, and the offset of each event ([E + 1])."""
        return _by_event(self.signals, len(self.thresholds))

    @cached_property
    def waiters(self) -> tuple[IntArray, IntArray]:
        """Tasks sorted by the event that they wait for, and the offset of each event ([E + 1])."""
        return _by_event(self.waits, len(self.thresholds))

    @property
    def needed(self) -> IntArray:
        """[E] signals and credits after which an event is reached under every routing."""
        needed = self.thresholds.copy()
        for credit in self.credits:
            needed[credit.events] += 1
        return needed

    @cached_property
    def joins_of(self) -> dict[int, list[int]]:
        """The joins that a task may wait for, by task; only of tasks that wait for ranges."""
        found: dict[int, list[int]] = {}
        for wait in self.ranges:
            for task, join in zip(wait.tasks.flat, wait.joins.flat, strict=True):
                found.setdefault(int(task), []).append(int(join))
        return found

    def events_of_join(self, join: int) -> IntArray:
        """Returns the events of a join."""
        return np.flatnonzero((self.join_of == join).any(axis=1))

    def givers_of(self, event: int) -> IntArray:
        """Returns the tasks that give credits to an event."""
        rank = event // self.events_per_rank
        found = [int(c.tasks[rank]) for c in self.credits if event in c.events[rank]]
        return np.array(found, dtype=np.int64)

    def signallers_of(self, event: int) -> IntArray:
        """Returns the tasks that signal an event."""
        tasks, starts = self.signallers
        return tasks[starts[event] : starts[event + 1]]

    def waiters_of(self, event: int) -> IntArray:
        """Returns the tasks that wait for an event."""
        tasks, starts = self.waiters
        return tasks[starts[event] : starts[event + 1]]


def _by_event(uses: IntArray, events: int) -> tuple[IntArray, IntArray]:
    task, column = np.nonzero(uses != NONE)
    event = uses[task, column]
    order = np.argsort(event, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(event, minlength=events))])
    return task[order], starts


def queue_tasks(program: ProgramOp) -> QueueTasks:
    """Builds the task arrays of a verified program that has the queue orders of its cores."""
    numbers = number_tasks(program, program.ranks.value.data)
    families, first, per_rank = numbers.families, numbers.first, numbers.per_rank
    events = list(events_of(program).values())
    ranks = numbers.ranks
    first_event, events_per_rank = first_places([(e.sym_name.data, e.event_count) for e in events])
    names, local, starts = _queues(program, first)
    cores, count = len(names), len(local)
    assert count == per_rank, "each task is in one queue"
    rank = np.arange(ranks, dtype=np.int64)[:, None]
    core, place = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    sizes = np.diff(starts)
    core[local] = np.repeat(np.arange(cores), sizes)
    place[local] = np.arange(count) - np.repeat(starts[:-1], sizes) + 1
    thresholds = np.concatenate([np.zeros(0, dtype=np.int64), *(e.thresholds for e in events)])

    in_turn = np.concatenate(
        [np.zeros(0, dtype=bool), *(np.full(e.event_count, e.copy_count == 2) for e in events)]
    )

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

    signals = columns(signals_of(program))
    givers = np.full((ranks, per_rank, signals.shape[1]), NONE)
    credits: list[Credit] = []
    for family in families:
        own = [op for op in signals_of(program) if op.family_name == family.sym_name.data]
        for column, op in enumerate(own):
            if op.credit_name is None:
                continue
            assert op.peer_expr is not None, "only puts are credited"
            own_tasks = slice(first[op.family_name], first[op.family_name] + family.task_count)
            owner = task_values(family, op.peer_expr, ranks)
            givers[:, own_tasks, column] = owner * per_rank + first[op.credit_name]
            event = next(e for e in events if e.sym_name.data == op.event_name)
            own_events = first_event[op.event_name] + np.arange(event.event_count)
            credits.append(
                Credit(
                    (rank * per_rank + first[op.credit_name]).ravel(),
                    rank * events_per_rank + own_events,
                )
            )
    ranges, join_of, joins = _ranges(numbers, events, first_event, events_per_rank)
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
        columns([wait for wait in waits_of(program) if wait.event_range is None]),
        signals,
        givers.reshape(signals.shape),
        credits,
        np.tile(thresholds, ranks),
        np.tile(in_turn, ranks),
        ranges,
        join_of,
        joins,
    )


def _ranges(
    numbers: TaskNumbers, events: Sequence[EventOp], first: dict[str, int], events_per_rank: int
) -> tuple[list[RangeWait], IntArray, int]:
    """Returns the waits for ranges, the joins of each event, and the number of joins."""
    found: list[RangeWait] = []
    columns: list[IntArray] = []
    begin: dict[tuple[str, int], int] = {}
    count = 0
    rank = np.arange(numbers.ranks, dtype=np.int64)[:, None]
    for op in waits_of(numbers.program):
        if op.event_range is None:
            continue
        event = next(e for e in events if e.sym_name.data == op.event_name)
        extents = event.extents[op.event_range.dims :]
        size = prod(extents)
        key = (op.event_name, op.event_range.dims)
        if key not in begin:
            begin[key] = count
            column = np.full((numbers.ranks, events_per_rank), NONE)
            own = slice(first[op.event_name], first[op.event_name] + event.event_count)
            column[:, own] = count + rank * size + np.arange(event.event_count) % size
            columns.append(column.ravel())
            count += numbers.ranks * size
        family = next(f for f in numbers.families if f.sym_name.data == op.family_name)
        last = np.zeros((numbers.ranks, family.task_count), dtype=np.int64)
        for expr, extent in zip(op.index_exprs, extents, strict=True):
            last = last * extent + task_values(family, expr, numbers.ranks)
        joins = begin[key] + rank * size + last
        found.append(RangeWait(op, event, numbers.tasks_of(family), last, joins))
    none = np.zeros((numbers.ranks * events_per_rank, 0), dtype=np.int64)
    return found, np.stack(columns, axis=1) if columns else none, count


def _queues(program: ProgramOp, first: dict[str, int]) -> tuple[list[str], IntArray, IntArray]:
    """Returns the core names of a rank, rank 0's tasks core after core, and each core's offset."""
    names: list[str] = []
    parts: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    starts: list[IntArray] = [np.zeros(1, dtype=np.int64)]
    total = 0
    for kind in CoreKind:
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
