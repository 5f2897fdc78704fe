"""Arrays of all tasks of all ranks of a queue program: cores, places, waits, signals.

Events are numbered `rank * events_per_rank + first_event[event] + number`, where `rank` owns the
counter; cores `rank * cores + c`, with the AIC cores of a rank before its AIV cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dialects.access import EventRange
from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.dialects.placement import RouteType
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
from hpmoe_ir.dialects.tile import TasksOp, buffers_of
from hpmoe_ir.dialects.tile.credit import route_of
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.analysis.task_numbers import (
    TaskNumbers,
    distinct_values,
    first_places,
    number_tasks,
    task_values,
)

NONE = -1
"""Empty entry: no event in `waits` and `signals`, no task in `givers`."""


TaskArray: TypeAlias = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
"""Numbers of tasks, cores, places or events: 32-bit integers if they suffice."""


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
    is_complete: bool
    """Whether on each rank the tasks wait for the range of every tile, or part: then each event of
    one with rows is in the range of some task."""


@dataclass(frozen=True)
class QueueTasks(TaskNumbers):
    """The tasks of a queue program: N tasks and E events over all ranks, C cores per rank."""

    events: list[EventOp]
    first_event: dict[str, int]
    """Number of the first event of each family of events, on rank 0."""
    events_per_rank: int
    core_names: list[str]
    """[C] names of the cores of one rank: `aic0`, ..."""
    core: TaskArray
    """[N] the core that runs a task."""
    place: TaskArray
    """[N] the place of a task in the queue of its core, from 1."""
    queues: TaskArray
    """[N] the tasks of all queues, core after core."""
    queue_starts: IntArray
    """[ranks * C + 1] index into `queues` of each core's first task, then N."""
    waits: TaskArray
    """[N, most waits of a task] events that a task waits for, NONE where it has fewer."""
    signals: TaskArray
    """[N, most signals of a task] events that a task signals, NONE where it has fewer."""
    givers: TaskArray
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
    own_waits: TaskArray
    """[T, most waits of a task] for each of the T tasks of a rank the event of rank 0 that it waits
    for on rank 0, if on each rank it waits for the same event of that rank; else NONE."""
    own_signals: TaskArray
    """[T, most signals of a task] the same for signals."""

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
    def unlike_waits(self) -> BoolArray:
        """[T, most waits of a task] whether ranks wait for different events."""
        return (self.waits[: self.per_rank] != NONE) & (self.own_waits == NONE)

    @cached_property
    def unlike_signals(self) -> BoolArray:
        """[T, most signals of a task] whether ranks signal different events, or other ranks."""
        return (self.signals[: self.per_rank] != NONE) & (self.own_signals == NONE)

    def unlike_events(self, tasks: TaskArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Yields, for tasks of rank 0, indices of some that wait for different events on each rank,
        and [ranks, n] the number of the event on its rank."""
        waits = self.waits.reshape(self.ranks, self.per_rank, -1)
        first = np.arange(self.ranks, dtype=np.int64)[:, None] * self.events_per_rank
        for column in self._unlike_columns:
            some = np.flatnonzero(self.unlike_waits[tasks, column])
            if some.size:
                yield some, waits[:, tasks[some], column] - first

    @cached_property
    def _unlike_columns(self) -> IntArray:
        return np.flatnonzero(self.unlike_waits.any(axis=0))

    @cached_property
    def signals_apart(self) -> IntArray:
        """[ranks, n] the events of all `unlike_signals`."""
        signals = self.signals.reshape(self.ranks, self.per_rank, -1)
        return signals[:, self.unlike_signals].astype(np.int64)

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

    def on_all_ranks(self) -> QueueTasks:
        """Returns a program of one rank with the tasks, and only those waits and signals within the
        rank, that each rank has.

        If a task ends before another starts by a chain of these, it does so on each rank.
        """
        size, events = self.per_rank, self.events_per_rank
        credits = [Credit(c.tasks[:1], c.events[:1]) for c in self.credits]
        return replace(
            self,
            ranks=1,
            core=self.core[:size],
            place=self.place[:size],
            queues=self.queues[:size],
            queue_starts=self.queue_starts[: self.cores + 1],
            waits=self.own_waits,
            signals=self.own_signals,
            givers=np.where(self.own_signals == NONE, NONE, self.givers[:size]),
            credits=credits,
            thresholds=self.thresholds[:events],
            in_turn=self.in_turn[:events],
            ranges=[],
            join_of=self.join_of[:events],
        )

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


def _by_event(uses: TaskArray, events: int) -> tuple[IntArray, IntArray]:
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
    most = ranks * max(per_rank, events_per_rank, cores)
    word = np.int32 if most <= np.iinfo(np.int32).max else np.int64
    rank = np.arange(ranks, dtype=word)[:, None]
    core, place = np.empty(count, dtype=word), np.empty(count, dtype=word)
    sizes = np.diff(starts)
    core[local] = np.repeat(np.arange(cores), sizes)
    place[local] = np.arange(count) - np.repeat(starts[:-1], sizes) + 1
    thresholds = np.concatenate([np.zeros(0, dtype=np.int64), *(e.thresholds for e in events)])

    in_turn = np.concatenate(
        [np.zeros(0, dtype=bool), *(np.full(e.event_count, e.copy_count == 2) for e in events)]
    )

    def columns(uses: Sequence[WaitOp | SignalOp]) -> tuple[TaskArray, TaskArray]:
        """Returns the events of all tasks, and of those of one rank that all ranks have alike."""
        found: dict[str, list[IntArray]] = {f.sym_name.data: [] for f in families}
        for op in uses:
            family = next(f for f in families if f.sym_name.data == op.family_name)
            event = next(e for e in events if e.sym_name.data == op.event_name)
            # From the first event of the rank that runs the task, alike on all ranks or by rank.
            number = np.full((1, family.task_count), 0, dtype=np.int64)
            for expr, extent in zip(op.index_exprs, event.extents, strict=True):
                number = number * extent + distinct_values(family, expr, ranks)
            number = number + first_event[op.event_name]
            peer = op.peer_expr if isinstance(op, SignalOp) else None
            if peer is not None:
                owner = task_values(family, peer, ranks) - rank
                number = number + owner * events_per_rank
            found[op.family_name].append(number)
        most = max(map(len, found.values()), default=0)
        table = np.full((ranks, per_rank, most), NONE, dtype=word)
        alike = np.full((per_rank, most), NONE, dtype=word)
        for name, numbers in found.items():
            for column, event in enumerate(numbers):
                own = slice(first[name], first[name] + event.shape[1])
                table[:, own, column] = event + rank * events_per_rank
                same = (event == event[:1]).all(axis=0)
                same &= (event[0] >= 0) & (event[0] < events_per_rank)
                alike[own, column] = np.where(same, event[0], NONE)
        return table.reshape(ranks * per_rank, -1), alike

    waits, own_waits = columns([w for w in waits_of(program) if w.event_range is None])
    signals, own_signals = columns(signals_of(program))
    givers = np.full((ranks, per_rank, signals.shape[1]), NONE, dtype=word)
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
        (rank * per_rank + local.astype(word)).ravel(),
        np.append((rank * count + starts[:-1]).ravel(), ranks * count),
        waits,
        signals,
        givers.reshape(signals.shape),
        credits,
        np.tile(thresholds, ranks),
        np.tile(in_turn, ranks),
        ranges,
        join_of,
        joins,
        own_waits,
        own_signals,
    )


def _ranges(
    numbers: TaskNumbers, events: Sequence[EventOp], first: dict[str, int], events_per_rank: int
) -> tuple[list[RangeWait], IntArray, int]:
    """Returns the waits for ranges, the joins of each event, and the number of joins."""
    found: list[RangeWait] = []
    columns: list[IntArray] = []
    begin: dict[tuple[str, int], int] = {}
    count = 0
    buffers = buffers_of(numbers.program)
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
        complete = _is_complete(op.event_range, route_of(family, buffers), family, last, size)
        found.append(RangeWait(op, event, numbers.tasks_of(family), last, joins, complete))
    none = np.zeros((numbers.ranks * events_per_rank, 0), dtype=np.int64)
    return found, np.stack(columns, axis=1) if columns else none, count


def _is_complete(
    among: EventRange, route: RouteType | None, family: TasksOp, last: IntArray, size: int
) -> bool:
    """Returns whether tasks on each rank wait for every range, with each of `size` last numbers."""
    assert route is not None, "a family that waits for a range uses a route"
    number, ranges = np.zeros_like(last), 1
    for expr, count in among.limits:
        count = route.local_experts if count is None else count
        number = number * count + task_values(family, expr, len(last))
        ranges *= count
    number = number * size + last
    return all(len(set(own)) == ranges * size for own in number.tolist())


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
