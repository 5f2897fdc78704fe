"""Every order that a queue program enforces, found by withholding one task after the other.

This is the oracle for `verify-queues`: it knows nothing of families, classes or elision. It lists
each task of each rank and launch and asks one question: if this task never ended, which others
could never begin? Those are ordered after it. Counters and queues only let more happen the more has
happened, so the answer does not depend on the order in which the rest runs.

A put that is credited signals or not, as the routing will have it, and a routing is chosen for each
question: the withheld put has rows, of the others each is counted by itself or by the credit,
whichever comes first. Only when nothing is withheld, where the question is whether all tasks end,
both must have ended.

Cost: the square of the number of tasks of all ranks and launches; programs here are small.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dialects.index import evaluate_index
from hpmoe_ir.dialects.queue import (
    POINT_BITS,
    POINT_MASK,
    ProgramOp,
    events_of,
    orders_of,
    signals_of,
    waits_of,
)
from hpmoe_ir.dialects.tile import TasksOp, families_of

Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Task:
    """One task of one rank in one launch; `family` is its number in the program."""

    launch: int
    rank: int
    family: int
    point: int


@dataclass
class TaskGraph:
    """Tasks of all launches and ranks with what they wait for and signal.

    Nodes are the tasks, then an end for each launch and rank: the next launch of the rank begins
    when every core has ended this one.
    """

    tasks: list[Task]
    number: dict[Task, int]
    before: list[list[int]]
    """Nodes that must have ended: the task before on the core, or the launch before."""
    waits: list[list[tuple[int, int]]] = field(default_factory=list[list[tuple[int, int]]])
    """(counter, least value)."""
    signals: list[list[int]] = field(default_factory=list[list[int]])
    """Counters, once for each time."""
    early: list[list[int]] = field(default_factory=list[list[int]])
    """Counters that are signalled when the task begins, by mistake."""
    credited: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """(put, task that counts it where it has no rows, counter)."""
    counters: int = 0

    @property
    def nodes(self) -> int:
        """Tasks and ends."""
        return len(self.before)


def build_graph(program: ProgramOp, launches: int, early: int | None = None) -> TaskGraph:
    """The graph of `launches` launches; counters are shared where events share a line.

    `early` is the number of a signal that tasks send when they begin.
    """
    families = list(families_of(program).values())
    ranks = program.ranks.value.data
    tasks = [
        Task(launch, rank, number, point)
        for launch in range(1, launches + 1)
        for rank in range(ranks)
        for number, family in enumerate(families)
        for point in range(family.task_count)
    ]
    graph = TaskGraph(tasks, {t: i for i, t in enumerate(tasks)}, [[] for _ in tasks])
    graph.waits = [[] for _ in tasks]
    graph.signals = [[] for _ in tasks]
    graph.early = [[] for _ in tasks]
    _add_queues(graph, program, families, launches)
    _add_events(graph, program, families, early)
    return graph


def _add_queues(
    graph: TaskGraph, program: ProgramOp, families: list[TasksOp], launches: int
) -> None:
    numbers = {f.sym_name.data: i for i, f in enumerate(families)}
    ends: dict[tuple[int, int], int] = {}
    of_launch: dict[tuple[int, int], list[int]] = defaultdict(list)
    for node, task in enumerate(graph.tasks):
        of_launch[task.launch, task.rank].append(node)
    for (launch, rank), nodes in of_launch.items():
        ends[launch, rank] = len(graph.before)
        graph.before.append(nodes)
        graph.waits.append([])
        graph.signals.append([])
        graph.early.append([])
    for (launch, rank), _ in of_launch.items():
        for order in orders_of(program).values():
            names, slots = order.family_names, order.slot_values.tolist()
            first = order.first_slots.tolist()
            for core in range(order.core_count):
                last = ends.get((launch - 1, rank))
                for slot in slots[first[core] : first[core + 1]]:
                    family = numbers[names[slot >> POINT_BITS]]
                    node = graph.number[Task(launch, rank, family, slot & POINT_MASK)]
                    if last is not None:
                        graph.before[node].append(last)
                    last = node


def _add_events(
    graph: TaskGraph, program: ProgramOp, families: list[TasksOp], early: int | None
) -> None:
    events = events_of(program)
    lines: dict[str, int] = {}
    free = 0
    for name, event in events.items():
        lines[name] = free if event.line is None else event.line.value.data
        free += event.line_count
    counters: dict[tuple[int, int], int] = {}

    def flat(exprs: Any, extents: Any, coords: list[int], rank: int) -> int:
        index = 0
        for expr, extent in zip(exprs, extents, strict=True):
            index = index * extent + int(evaluate_index(expr, coords, rank))
        return index

    def counter(rank: int, name: str, index: int, launch: int) -> int:
        event = events[name]
        line = lines[name] + launch % event.copy_count * event.event_count + index
        return counters.setdefault((rank, line), len(counters))

    numbers = {f.sym_name.data: i for i, f in enumerate(families)}

    for node, task in enumerate(graph.tasks):
        family = families[task.family]
        coords = [int(c) for c in np.unravel_index(task.point, family.extents or (1,))]
        name = family.sym_name.data
        for wait in waits_of(program):
            if wait.family_name == name:
                event = events[wait.event_name]
                index = flat(wait.index_exprs, event.extents, coords, task.rank)
                turns = -(-task.launch // event.copy_count)
                least = int(event.thresholds[index]) * turns
                graph.waits[node].append(
                    (counter(task.rank, wait.event_name, index, task.launch), least)
                )
        for i, signal in enumerate(signals_of(program)):
            if signal.family_name == name:
                event = events[signal.event_name]
                index = flat(signal.index_exprs, event.extents, coords, task.rank)
                peer = signal.peer_expr
                owner = task.rank if peer is None else int(evaluate_index(peer, coords, task.rank))
                at = counter(owner, signal.event_name, index, task.launch)
                if signal.credit_name is not None and i != early:
                    giver = Task(task.launch, owner, numbers[signal.credit_name], 0)
                    graph.credited.append((node, graph.number[giver], at))
                    continue
                sent = graph.early if i == early else graph.signals
                sent[node].append(at)
    graph.counters = len(counters)


@dataclass(frozen=True)
class Orders:
    """What is certain in every run."""

    after: Bools
    """after[s, w]: node w cannot begin before node s has ended."""
    stuck: list[int]
    """Nodes that never begin, whatever the order."""


def certain_orders(graph: TaskGraph) -> Orders:
    """Runs all worlds side by side: in world s node s never ends; in the last one all do."""
    nodes = graph.nodes
    begun = np.zeros((nodes, nodes + 1), dtype=bool)
    ended = np.zeros((nodes, nodes + 1), dtype=bool)
    counts = np.zeros((graph.counters, nodes + 1), dtype=np.int32)
    given = np.zeros((len(graph.credited), nodes + 1), dtype=bool)
    changed = True
    while changed:
        changed = False
        for node in range(nodes):
            ready = ~ended[node]
            if not ready.any():
                continue
            for earlier in graph.before[node]:
                ready &= ended[earlier]
            for counter, least in graph.waits[node]:
                ready &= counts[counter] >= least
            for counter in graph.early[node]:
                counts[counter] += ready & ~begun[node]
            begun[node] |= ready
            ready[node] = False
            if ready.any():
                changed = True
                ended[node] |= ready
                for counter in graph.signals[node]:
                    counts[counter] += ready
        for i, (put, giver, counter) in enumerate(graph.credited):
            now = ended[put] | ended[giver]
            now[put] = False
            now[-1] = ended[put, -1] & ended[giver, -1]
            now &= ~given[i]
            if now.any():
                changed = True
                given[i] |= now
                counts[counter] += now
    return Orders(~begun[:, :nodes].T, np.flatnonzero(~begun[:, nodes]).tolist())
