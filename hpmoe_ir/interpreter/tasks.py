"""NumPy execution of `tile` and `queue` programs: all tasks of all ranks, in a seeded order.

At the tile level the order is a random one that the dependences allow (without dependences: family
by family, the tasks of each in random order). At the queue level each core takes its tasks in order
and waits for their events; the next core to proceed is chosen at random.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir.affine import AffineExpr
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.dialects import queue, tile
from hpmoe_ir.dialects.access import EventRange
from hpmoe_ir.dialects.index import IntArray, evaluate_index, flat_events
from hpmoe_ir.dialects.tile import DependenceOp, buffer_bytes, buffers_of, families_of
from hpmoe_ir.dialects.tile.signature import RETURNED
from hpmoe_ir.interpreter.memory import RankMemory, TaskMemory, run_kernel
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.memory_limit import check_memory


@dataclass(frozen=True)
class _EventUse:
    """Events that the tasks of one family on one rank wait for or signal."""

    name: str
    number: IntArray
    """Number of each task's event in the family of events, `[tasks]`."""
    rank: IntArray
    """Rank of each task's event, `[tasks]`."""
    credit: str | None = None
    """For a signal: the family whose task credits empty puts."""


@dataclass(frozen=True)
class _RangeUse:
    """A range of events that the tasks of one family wait for, each as its route says."""

    name: str
    """Name of the family of events."""
    range: EventRange
    index: tuple[AffineExpr, ...]
    """The last coordinates of the events."""
    extents: tuple[int, ...]
    """The extents of these coordinates."""


class ProgramRun:
    """A program with its memory: windows keep their contents from launch to launch."""

    def __init__(self, program: tile.ProgramOp | queue.ProgramOp, seed: int = 0) -> None:
        self.program = program
        self.ranks = program.ranks.value.data
        needed = self.ranks * sum(2 * buffer_bytes(b) for b in buffers_of(program).values())
        check_memory(needed, f"buffers of @{program.sym_name.data} on {self.ranks} ranks in NumPy")
        self.families = families_of(program)
        self.points = {n: f.coordinates() for n, f in self.families.items()}
        self.memory = [RankMemory(buffers_of(program)) for _ in range(self.ranks)]
        self.random = np.random.default_rng(seed)
        self.thresholds = _thresholds(program)

    def launch(self, inputs: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """Runs the program once.

        `inputs[r]` has an array for each input buffer, with as many token rows as rank r has
        tokens. Returns the output buffers of each rank, at their full capacity; rows that no task
        wrote are NaN. Raises InterpretationError for a deadlock, or for an event with more signals
        than its threshold.
        """
        if len(inputs) != self.ranks:
            raise InterpretationError(
                f"the program runs on {self.ranks} ranks, found inputs for {len(inputs)}"
            )
        for memory, values in zip(self.memory, inputs, strict=True):
            memory.start(values)
        # Numbers beyond the range are infinite, as on the device.
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(self.program, tile.ProgramOp) and not self.thresholds:
                self._run_families()
            else:
                _Run(self).run()
        return [
            {
                name: memory.array(name).copy()
                for name, buffer in memory.buffers.items()
                if buffer.space.data in RETURNED
            }
            for memory in self.memory
        ]

    def run_task(self, rank: int, family: str, point: int) -> None:
        """Runs one task."""
        run_kernel(self.task_memory(rank, family, point))

    def task_memory(self, rank: int, family: str, point: int) -> TaskMemory:
        """Returns the memory of all ranks as one task accesses it."""
        coords = [int(c[point]) for c in self.points[family]]
        return TaskMemory(self.memory, rank, self.families[family], coords)

    def _run_families(self) -> None:
        for name, family in self.families.items():
            for task in self.random.permutation(self.ranks * family.task_count).tolist():
                self.run_task(task % self.ranks, name, task // self.ranks)


def _thresholds(program: tile.ProgramOp | queue.ProgramOp) -> dict[str, IntArray]:
    ops = program.body.block.ops
    if isinstance(program, queue.ProgramOp):
        return {op.sym_name.data: op.thresholds for op in ops if isinstance(op, queue.EventOp)}
    found = [op for op in ops if isinstance(op, DependenceOp)]
    return {str(i): d.thresholds for i, d in enumerate(found)}


class _Run:
    """One launch that is driven by events."""

    def __init__(self, run: ProgramRun) -> None:
        self.run_state = run
        self.waits: dict[tuple[int, str], list[_EventUse]] = defaultdict(list)
        self.ranges: dict[str, list[_RangeUse]] = defaultdict(list)
        """The ranges of events that the tasks of a family wait for."""
        self.found: dict[tuple[int, str, int], list[tuple[str, int]]] = {}
        """The events, by name and number, of the ranges that a task waits for, once known."""
        self.signals: dict[tuple[int, str], list[_EventUse]] = defaultdict(list)
        self.credited: dict[str, list[tuple[int, str, _EventUse]]] = defaultdict(list)
        """By crediting family: (rank of the puts, family of the puts, their signal)."""
        self.counts = {
            (rank, name): np.zeros(t.size, dtype=np.int64)
            for rank in range(run.ranks)
            for name, t in run.thresholds.items()
        }
        self._find_uses()
        self.unmet: dict[tuple[int, str], IntArray] = {}
        self.waiting: dict[tuple[int, str, int], list[tuple[int, str, int]]] = defaultdict(list)
        for rank in range(run.ranks):
            for name, family in run.families.items():
                uses = self.waits[rank, name]
                self.unmet[rank, name] = np.full(family.task_count, len(uses))
                for use in uses:
                    for point, event in enumerate(use.number.tolist()):
                        self.waiting[rank, use.name, event].append((rank, name, point))
        self.queues = self._queues()
        self.heads = [0] * len(self.queues)
        self.queue_of = {task: i for i, q in enumerate(self.queues) for task in q}
        self.ready = [i for i in range(len(self.queues)) if self._can_start(i)]

    def run(self) -> None:
        """Runs all tasks."""
        random = self.run_state.random
        left = sum(len(q) for q in self.queues)
        while self.ready:
            at = int(random.random() * len(self.ready))
            self.ready[at], self.ready[-1] = self.ready[-1], self.ready[at]
            i = self.ready.pop()
            task = self.queues[i][self.heads[i]]
            self.run_state.run_task(*task)
            left -= 1
            self.heads[i] += 1
            if self._can_start(i):
                self.ready.append(i)
            self._signal(*task)
        if left:
            raise InterpretationError(self._deadlock())

    def _find_uses(self) -> None:
        program = self.run_state.program
        for i, op in enumerate(o for o in program.body.block.ops if isinstance(o, DependenceOp)):
            name = str(i)
            producer, consumer = op.producer.root_reference.data, op.consumer.root_reference.data
            peer, credit = op.peer_expr, op.credit_name
            self._add(self.signals, producer, name, op.source_exprs, op, peer, credit)
            self._add_wait(consumer, name, op.target_exprs, op.event_range, op)
        if isinstance(program, queue.ProgramOp):
            events = queue.events_of(program)
            for signal in queue.signals_of(program):
                event = events[signal.event_name]
                self._add(
                    self.signals,
                    signal.family_name,
                    signal.event_name,
                    signal.index_exprs,
                    event,
                    signal.peer_expr,
                    signal.credit_name,
                )
            for wait in queue.waits_of(program):
                event = events[wait.event_name]
                self._add_wait(
                    wait.family_name, wait.event_name, wait.index_exprs, wait.event_range, event
                )

    def _add_wait(
        self,
        family: str,
        name: str,
        exprs: tuple[AffineExpr, ...],
        among: EventRange | None,
        events: DependenceOp | queue.EventOp,
    ) -> None:
        if among is None:
            self._add(self.waits, family, name, exprs, events)
            return
        use = _RangeUse(name, among, exprs, events.extents[among.dims :])
        self.ranges[family].append(use)

    def _add(
        self,
        uses: dict[tuple[int, str], list[_EventUse]],
        family: str,
        name: str,
        exprs: Sequence[AffineExpr],
        events: DependenceOp | queue.EventOp,
        peer: AffineExpr | None = None,
        credit: str | None = None,
    ) -> None:
        run = self.run_state
        size, points = run.families[family].task_count, run.points[family]
        for rank in range(run.ranks):
            number = flat_events(exprs, events.extents, points, rank, size)
            owner = rank if peer is None else evaluate_index(peer, points, rank)
            owner = np.broadcast_to(owner, (size,))
            uses[rank, family].append(_EventUse(name, number, owner, credit))
            if credit is not None:
                self.credited[credit].append((rank, family, uses[rank, family][-1]))

    def _queues(self) -> list[list[tuple[int, str, int]]]:
        run = self.run_state
        queues: list[list[tuple[int, str, int]]] = []
        for rank in range(run.ranks):
            if isinstance(run.program, tile.ProgramOp):
                for name, family in run.families.items():
                    queues += [[(rank, name, p)] for p in range(family.task_count)]
                continue
            for order in queue.orders_of(run.program).values():
                first, slots, names = order.first_slots, order.slot_values, order.family_names
                for core in range(order.core_count):
                    own = slots[first[core] : first[core + 1]].tolist()
                    queues.append(
                        [(rank, names[s >> queue.POINT_BITS], s & queue.POINT_MASK) for s in own]
                    )
        return queues

    def _can_start(self, i: int) -> bool:
        if self.heads[i] >= len(self.queues[i]):
            return False
        task = rank, name, point = self.queues[i][self.heads[i]]
        if self.unmet[rank, name][point] == 0 and self.ranges[name] and task not in self.found:
            # Its other events are reached: the route, which it reads, is built.
            self._wait_for_ranges(task)
        return self.unmet[rank, name][point] == 0

    def _wait_for_ranges(self, task: tuple[int, str, int]) -> None:
        """Adds the events of a task's ranges that are not reached to those it waits for."""
        rank, name, point = task
        memory = self.run_state.task_memory(rank, name, point)
        self.found[task] = []
        for use in self.ranges[name]:
            last = int(flat_events(use.index, use.extents, memory.point, rank, 1)[0])
            for first in memory.events(use.range).tolist():
                event = first * prod(use.extents) + last
                self.found[task].append((use.name, event))
                count = self.counts[rank, use.name][event]
                if count < self.run_state.thresholds[use.name][event]:
                    self.unmet[rank, name][point] += 1
                    self.waiting[rank, use.name, event].append(task)

    def _signal(self, rank: int, name: str, point: int) -> None:
        run = self.run_state
        for use in self.signals[rank, name]:
            if use.credit is None or not run.task_memory(rank, name, point).is_empty():
                self._count(use, rank, name, point)
        for source, family, use in self.credited[name]:
            for put in np.flatnonzero(use.rank == rank).tolist():
                if run.task_memory(source, family, put).arrives_empty(rank):
                    self._count(use, source, family, put)

    def _count(self, use: _EventUse, rank: int, name: str, point: int) -> None:
        """Adds the signal of one task, sent or credited, to its event."""
        owner, event = int(use.rank[point]), int(use.number[point])
        counts = self.counts[owner, use.name]
        counts[event] += 1
        threshold = self.run_state.thresholds[use.name][event]
        if counts[event] > threshold:
            raise InterpretationError(
                f"@{name} ({self._point(name, point)}) on rank {rank} signals event {event} "
                f"of {use.name} on rank {owner} once more than its threshold {threshold}"
            )
        if counts[event] == threshold:
            for waiter in self.waiting[owner, use.name, event]:
                self.unmet[waiter[0], waiter[1]][waiter[2]] -= 1
                i = self.queue_of[waiter]
                if self.queues[i][self.heads[i] :][:1] == [waiter] and self._can_start(i):
                    self.ready.append(i)

    def _point(self, name: str, point: int) -> str:
        return ", ".join(str(c[point]) for c in self.run_state.points[name])

    def _deadlock(self) -> str:
        lines: list[str] = []
        for q, head in zip(self.queues, self.heads, strict=True):
            if head >= len(q):
                continue
            rank, name, point = q[head]
            events = [(use.name, int(use.number[point])) for use in self.waits[rank, name]]
            for event_name, event in (*events, *self.found.get(q[head], ())):
                count = self.counts[rank, event_name][event]
                threshold = self.run_state.thresholds[event_name][event]
                if count < threshold:
                    lines.append(
                        f"  @{name} ({self._point(name, point)}) on rank {rank} waits for event "
                        f"{event} of {event_name}: {count} of {threshold} signals"
                    )
        shown = lines[:16] + ([f"  and {len(lines) - 16} more"] if len(lines) > 16 else [])
        return "\n".join(["deadlock: no task can start", *shown])
