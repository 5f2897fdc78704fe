"""Names tasks that wait for each other in a launch that cannot end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hpmoe_ir.passes.proof.run import QueueRun
from hpmoe_ir.passes.proof.tasks import NONE


def waiting_cycle(run: QueueRun) -> list[tuple[int, int, int]]:
    """Returns a shortest cycle of the wait-for graph of an incomplete run.

    One entry (head, event, signaller) per core: its first task that could not run, an event that
    the task waits for, and a task that signals the event, at or behind the head of the next entry's
    core. Empty where there is no cycle.
    """
    tasks = run.tasks
    stuck = np.flatnonzero(run.heads < tasks.queue_starts[1:])
    head_of = {int(c): int(tasks.queues[run.heads[c]]) for c in stuck}
    index = np.empty(tasks.queues.size, dtype=np.int64)
    index[tasks.queues] = np.arange(tasks.queues.size)
    edges: dict[int, dict[int, tuple[int, int]]] = {}
    for core, head in head_of.items():
        edges[core] = {}
        for event in _events_waited(run, head):
            telling = np.append(tasks.signallers_of(event), tasks.givers_of(event))
            for task in telling:
                other = int(tasks.core[task])
                if other in head_of and index[task] >= run.heads[other]:
                    edges[core].setdefault(other, (event, int(task)))
    best: list[tuple[int, int, int]] = []
    for start in list(head_of)[:64]:
        found = _shortest_cycle(start, edges)
        if found and (not best or len(found) < len(best)):
            best = [(head_of[a], *edges[a][b]) for a, b in found]
    return best


def _events_waited(run: QueueRun, task: int) -> Iterator[int]:
    """Yields the events that a task waits for, also those that may be in its ranges."""
    tasks = run.tasks
    yield from (int(event) for event in tasks.waits[task] if event != NONE)
    for join in tasks.joins_of.get(task, ()):
        yield from map(int, tasks.events_of_join(join))


def _shortest_cycle(
    start: int, edges: dict[int, dict[int, tuple[int, int]]]
) -> list[tuple[int, int]]:
    """Returns the edges of a shortest cycle through `start`, found by breadth-first search."""
    came: dict[int, int] = {}
    level = [start]
    while level:
        following: list[int] = []
        for core in level:
            for other in edges[core]:
                if other == start:
                    path = [(core, start)]
                    while path[0][0] != start:
                        path.insert(0, (came[path[0][0]], path[0][0]))
                    return path
                if other not in came:
                    came[other] = core
                    following.append(other)
        level = following
    return []
