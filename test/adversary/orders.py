"""Which task of which launch certainly comes before which, exactly, for a program and a routing.

Queues are fixed and counters only grow, so the more has happened, the more can happen. One question
therefore settles every order of events: if this task never ended, which others could never begin?
Those, and no others, come after it in every execution. All the questions are asked at once: bit s
of a number is the world in which task s never ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from adversary.accesses import Harmful
from adversary.view import Use, View, value


@dataclass
class Steps:
    """Tasks of all launches, and the ends of launches, which start the next one on their rank.

    Tasks are numbered in the order of the program's text: launch, family, rank, grid point.
    """

    view: View
    launches: int
    per_launch: int = 0
    first: dict[str, int] = field(default_factory=dict[str, int])
    before: list[list[int]] = field(default_factory=list[list[int]])
    waits: list[list[tuple[int, int]]] = field(default_factory=list[list[tuple[int, int]]])
    """(counter, least value)."""
    signals: list[list[int]] = field(default_factory=list[list[int]])
    """Counters, once for each signal."""
    queues: list[list[int]] = field(default_factory=list[list[int]])
    """Tasks of each core of each rank, launch after launch, with the ends of launches."""
    puts: dict[int, list[tuple[int, int]]] = field(default_factory=dict[int, list[tuple[int, int]]])
    """Of each task with credited signals: (counter, task that counts it if there are no rows)."""
    counters: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    """Number of each counter, by rank and line."""

    def node(self, launch: int, family: str, rank: int, point: int) -> int:
        """Number of a task; launches from 0."""
        points = len(self.view.families[family].points)
        return launch * self.per_launch + self.first[family] + rank * points + point

    def task(self, node: int) -> tuple[int, str, int, int]:
        """Launch, family, rank and point of a task."""
        launch, rest = divmod(node, self.per_launch)
        name = max((b, n) for n, b in self.first.items() if b <= rest)[1]
        rank, point = divmod(rest - self.first[name], len(self.view.families[name].points))
        return launch, name, rank, point

    def text(self, node: int) -> str:
        """`@a (0, 1) on rank 2 in launch 1`."""
        if node >= self.launches * self.per_launch:
            return "the end of a launch"
        launch, name, rank, point = self.task(node)
        at = self.view.families[name].points[point]
        return f"@{name} {at} on rank {rank} in launch {launch + 1}"


def steps_of(view: View, launches: int) -> Steps:
    """Builds the steps of a program; raises Harmful for counters that grow by another number."""
    steps = Steps(view, launches)
    for name, family in view.families.items():
        steps.first[name] = steps.per_launch
        steps.per_launch += view.ranks * len(family.points)
    tasks = launches * steps.per_launch
    steps.before = [[] for _ in range(tasks + launches * view.ranks)]
    steps.waits = [[] for _ in steps.before]
    steps.signals = [[] for _ in steps.before]
    _add_queues(steps, tasks)
    _add_events(steps)
    return steps


def _add_queues(steps: Steps, tasks: int) -> None:
    view = steps.view
    for rank in range(view.ranks):
        queues: list[list[int]] = [[] for _ in view.queues]
        for launch in range(steps.launches):
            end = tasks + launch * view.ranks + rank
            start = end - view.ranks if launch else None
            if start is not None:
                steps.before[end].append(start)
            for queue, places in zip(queues, view.queues, strict=True):
                last = start
                for name, point in places:
                    node = steps.node(launch, name, rank, point)
                    if last is not None:
                        steps.before[node].append(last)
                    queue.append(node)
                    last = node
                if places and last is not None:
                    steps.before[end].append(last)
            steps.queues.append([end])
        steps.queues += [q for q in queues if q]


def _add_events(steps: Steps) -> None:
    view = steps.view
    table: dict[int, int] = {}
    for event in view.events.values():
        for copy in range(event.copies):
            for number, threshold in enumerate(event.thresholds):
                table[event.line + copy * event.count + number] = threshold

    def counter(use: Use, rank: int, owner: int, point: tuple[int, ...], launch: int) -> int:
        event = view.events[use.event]
        number = 0
        for expr, extent in zip(use.index, event.extents, strict=True):
            number = number * extent + value(expr, point, rank)
        line = event.line + (launch + 1) % event.copies * event.count + number
        return steps.counters.setdefault((owner, line), len(steps.counters))

    lines_of: dict[int, int] = {}
    for use in view.waits:
        family, copies = view.families[use.family], view.events[use.event].copies
        for rank in range(view.ranks):
            for number, point in enumerate(family.points):
                for launch in range(steps.launches):
                    at = counter(use, rank, rank, point, launch)
                    node = steps.node(launch, use.family, rank, number)
                    steps.waits[node].append((at, -(-(launch + 1) // copies)))
    for use in view.signals:
        family = view.families[use.family]
        for rank in range(view.ranks):
            for number, point in enumerate(family.points):
                owner = rank if use.peer is None else value(use.peer, point, rank)
                for launch in range(steps.launches):
                    at = counter(use, rank, owner, point, launch)
                    node = steps.node(launch, use.family, rank, number)
                    if use.credit is None:
                        steps.signals[node].append(at)
                    else:
                        giver = steps.node(launch, use.credit, owner, 0)
                        steps.puts.setdefault(node, []).append((at, giver))
    for (_, line), number in steps.counters.items():
        lines_of[number] = line
    steps.waits = [[(c, table[lines_of[c]] * n) for c, n in own] for own in steps.waits]
    _check_counts(steps)


def _check_counts(steps: Steps) -> None:
    """Each counter must grow by its event's threshold in each launch that uses it."""
    view = steps.view
    grown: dict[int, int] = {}
    first, last = steps.launches - 2, steps.launches
    copied = any(e.copies > 1 for e in view.events.values())
    for launch in range(first if copied else last - 1, last):
        for node in range(launch * steps.per_launch, (launch + 1) * steps.per_launch):
            for at in steps.signals[node]:
                grown[at] = grown.get(at, 0) + 1
            for at, _ in steps.puts.get(node, ()):
                grown[at] = grown.get(at, 0) + 1
    for event in view.events.values():
        for rank in range(view.ranks):
            for copy in range(event.copies):
                for number, threshold in enumerate(event.thresholds):
                    line = event.line + copy * event.count + number
                    times = 2 if copied and event.copies == 1 else 1
                    found = grown.get(steps.counters.get((rank, line), -1), 0)
                    if found != threshold * times:
                        raise Harmful(
                            "count",
                            f"event {number} of @{event.name} on rank {rank} has threshold "
                            f"{threshold} and gets {found / times:g} signals in a launch",
                        )


@dataclass(frozen=True)
class Orders:
    """What is certain in every execution."""

    before: list[int]
    """before[w]: bits of the tasks that must have ended when task w begins."""
    after: list[int]
    """The same the other way round."""
    legal: list[int]
    """All steps in an order in which they can happen."""


def certain_orders(steps: Steps, empty: frozenset[int]) -> Orders:
    """Works out all orders; puts in `empty` have no rows. Raises Harmful for a deadlock."""
    signals = [list(own) for own in steps.signals]
    for put, credited in steps.puts.items():
        for at, giver in credited:
            signals[giver if put in empty else put].append(at)
    legal = _run(steps, signals)
    count = len(steps.before)
    everything = (1 << count) - 1
    givers: list[list[int]] = [[] for _ in steps.counters]
    for node in legal:
        for at in signals[node]:
            givers[at].append(node)
    begun = [0] * count
    ended = [0] * count
    changed = True
    known: list[dict[int, int]] = [{} for _ in steps.counters]
    while changed:
        changed = False
        for node in legal:
            worlds = everything
            for earlier in steps.before[node]:
                worlds &= ended[earlier]
            for at, least in steps.waits[node]:
                reached = known[at].get(least)
                if reached is None:
                    reached = known[at][least] = _at_least([ended[g] for g in givers[at]], least)
                worlds &= reached
            if worlds != begun[node]:
                changed = True
                begun[node] = worlds
                ended[node] = worlds & ~(1 << node)
                for at in signals[node]:
                    known[at].clear()
    before = [everything & ~worlds for worlds in begun]
    return Orders(before, _transposed(before, count), legal)


def _run(steps: Steps, signals: list[list[int]]) -> list[int]:
    """Runs all steps once; raises Harmful if some can never begin."""
    counts = [0] * len(steps.counters)
    done = [False] * len(steps.before)
    legal: list[int] = []
    left = [(q, 0) for q in steps.queues]
    moved = True
    while moved and left:
        moved = False
        rest: list[tuple[list[int], int]] = []
        for queue, at in left:
            while at < len(queue):
                node = queue[at]
                if not all(done[b] for b in steps.before[node]):
                    break
                if not all(counts[c] >= least for c, least in steps.waits[node]):
                    break
                done[node] = True
                legal.append(node)
                for c in signals[node]:
                    counts[c] += 1
                at += 1
                moved = True
            if at < len(queue):
                rest.append((queue, at))
        left = rest
    if left:
        stuck = min(q[at] for q, at in left)
        raise Harmful("deadlock", f"{steps.text(stuck)} never begins")
    return legal


def _at_least(values: list[int], least: int) -> int:
    """Returns the bits that are set in at least `least` of the values."""
    if least == len(values):
        all_of = -1
        for v in values:
            all_of &= v
        return all_of if values else -1
    planes: list[int] = []
    for v in values:
        for i, plane in enumerate(planes):
            planes[i], v = plane ^ v, plane & v
            if not v:
                break
        if v:
            planes.append(v)
    if least >> len(planes):
        return 0
    more, equal = 0, -1
    for i in reversed(range(len(planes))):
        if least >> i & 1:
            equal &= planes[i]
        else:
            more |= equal & planes[i]
            equal &= ~planes[i]
    return more | equal


def _transposed(rows: list[int], count: int) -> list[int]:
    size = -(-count // 8)
    data = b"".join(r.to_bytes(size, "little") for r in rows)
    table = np.frombuffer(data, dtype=np.uint8).reshape(count, size)
    flat = np.unpackbits(table, axis=1, bitorder="little")[:, :count]
    turned = np.packbits(flat.T, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in turned]
