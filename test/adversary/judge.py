"""Judges a queue program by explicit execution: all orders of events, several routings, launches.

A program is harmful if, under one of the routings and in some order of events,

- a task never begins (`deadlock`), or a counter does not grow by its threshold (`count`);
- two accesses of the same bytes, one a write, are not ordered (`race`), or are ordered so that a
  read sees another write than it does when the families run one after the other (`value`);
- a task or the caller reads bytes that no task has written in the launch (`unwritten`);
- an access, a counter or a report of a wait lies outside or on top of what is there (`address`,
  `layout`), a task writes an `input` or what it itself reads (`input`, `in place`), or a kernel
  traps because the shapes of its tiles do not fit (`tiles`).

Accesses are exact bytes, also those of kernels that find rows by a list. Lists are taken to have
the values that the routing gives.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from math import prod

import numpy as np

from adversary.accesses import Harmful, Mask, TaskWork, Touch, Worker, bits, check_operands
from adversary.orders import Orders, Steps, certain_orders, steps_of
from adversary.routings import Routing, Tables, routings_of
from adversary.view import LINE, Buffer, Family, View, view_of
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.queue import ProgramOp
from hpmoe_ir.dialects.tile import MemorySpace

FEW, MANY = 2, 24
"""Random routings besides the extreme ones: at first, and of a program that the proof refuses."""

STATIC_TOKENS = 8
"""Tokens of a rank in a program whose inputs don't limit them."""


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a program; no kind if nothing is."""

    kind: str = ""
    text: str = ""

    @property
    def harmful(self) -> bool:
        """Whether some execution goes wrong."""
        return bool(self.kind)


def judge(program: ProgramOp, seed: int, count: int = FEW) -> Verdict:
    """Returns whether any execution of a verified program can go wrong.

    Raises OutsideContract for puts of rows that are not their rank's own.
    """
    try:
        _Judge(view_of(program), random.Random(seed), count).run()
    except Harmful as e:
        return Verdict(e.kind, str(e))
    return Verdict()


@dataclass
class _Judge:
    view: View
    chance: random.Random
    count: int
    orders: dict[frozenset[int], Orders] = field(default_factory=dict[frozenset[int], Orders])
    works: dict[Routing, list[TaskWork]] = field(default_factory=dict[Routing, list[TaskWork]])

    def run(self) -> None:
        view = self.view
        _check_layout(view)
        steps = steps_of(view, 3 if view.copied else 2)
        route = next((b.route for b in view.buffers.values() if b.route is not None), None)
        capacity = _capacity(view, route)
        dynamic = any(b.rows for b in view.buffers.values())
        if dynamic or route is not None:
            routings = routings_of(
                view.ranks, _most_tokens(view, route), route, capacity, self.chance, self.count
            )
        else:
            routings = [Routing((1,) * view.ranks)]
        for routing in routings:
            tables = None if route is None else Tables(route, routing, capacity)
            self._work(steps, routing, tables)
            self._launch(steps, [routing] * steps.launches)
        # Each launch with a routing of its own.
        for shift in range(min(3, len(routings) - 1)):
            turned = routings[shift:] + routings[:shift]
            step = max(1, len(turned) - 2)
            self._launch(steps, (turned * steps.launches)[::step][: steps.launches])

    def _launch(self, steps: Steps, run: list[Routing]) -> None:
        _check_run(steps, [self.works[r] for r in run], self._orders(steps, run))

    def _work(self, steps: Steps, routing: Routing, tables: Tables | None) -> None:
        view = self.view
        if routing in self.works:
            return
        worker = Worker(view, routing, tables)
        works: list[TaskWork] = []
        for family in view.families.values():
            for rank in range(view.ranks):
                for point in family.points:
                    work = worker.work(family, rank, point)
                    check_operands(view, family, work)
                    works.append(work)
        _check_written(view, works, routing, tables)
        self.works[routing] = works

    def _orders(self, steps: Steps, run: list[Routing]) -> Orders:
        empty: set[int] = set()
        for put in steps.puts:
            launch, at = divmod(put, steps.per_launch)
            if self.works[run[launch]][at].empty:
                empty.add(put)
        key = frozenset(empty)
        if key not in self.orders:
            self.orders[key] = certain_orders(steps, key)
        return self.orders[key]


def _capacity(view: View, route: RouteType | None) -> int:
    for family in view.families.values():
        if family.kernel == "build_route":
            return family.scalars[1].eval((), ())
    return 0 if route is None else route.rows.data


def _most_tokens(view: View, route: RouteType | None) -> int:
    given = [
        b.dims[0] for b in view.buffers.values() if b.rows == "tokens" and b.space.is_of_caller
    ]
    if given:
        return min(given)
    return STATIC_TOKENS if route is None else route.tokens.data


def _check_layout(view: View) -> None:
    """Counters, and the lines behind them, have lines that no window has."""
    end = view.end_line + view.given_up
    if view.counters % LINE:
        raise Harmful("layout", f"the counters begin at {view.counters}, within a line")
    for buffer in view.buffers.values():
        if buffer.space is MemorySpace.WINDOW and buffer.offset is not None:
            if buffer.offset < view.counters + end * LINE and view.counters < buffer.end:
                raise Harmful("layout", f"@{buffer.name} lies where counters are")
    taken: dict[int, str] = {}
    for event in view.events.values():
        for line in range(event.line, event.line + event.lines):
            if line in taken:
                raise Harmful("layout", f"@{event.name} and @{taken[line]} share line {line}")
            taken[line] = event.name


def _tasks(view: View) -> list[tuple[Family, int, int]]:
    return [
        (family, rank, point)
        for family in view.families.values()
        for rank in range(view.ranks)
        for point in range(len(family.points))
    ]


def _check_written(
    view: View, works: list[TaskWork], routing: Routing, tables: Tables | None
) -> None:
    """All that a task reads has been written by an earlier one of the program, in the launch, and
    all that the caller gets by some task."""
    written: dict[tuple[int, str], Mask] = defaultdict(int)
    for (family, rank, point), work in zip(_tasks(view), works, strict=True):
        for touch in work.touches:
            buffer = view.buffers[touch.buffer]
            if touch.writes or buffer.space in (MemorySpace.INPUT, MemorySpace.INOUT):
                continue
            if missing := touch.mask & ~written[touch.rank, touch.buffer]:
                first = next(iter(bits(missing))) * view.granule
                raise Harmful(
                    "unwritten",
                    f"@{family.name} {family.points[point]} on rank {rank} reads byte {first} of "
                    f"@{touch.buffer}, which nothing has written",
                )
        for touch in work.touches:
            if touch.writes:
                written[touch.rank, touch.buffer] |= touch.mask
    for buffer in view.buffers.values():
        for rank in range(view.ranks):
            if buffer.space is MemorySpace.OUTPUT:
                rows = _result_rows(buffer, rank, routing, tables)
                bytes = rows * prod(buffer.dims[1:]) * buffer.element
                whole = (1 << bytes // view.granule) - 1
                if whole & ~written[rank, buffer.name]:
                    raise Harmful("unwritten", f"the caller gets a part of @{buffer.name}")


def _result_rows(buffer: Buffer, rank: int, routing: Routing, tables: Tables | None) -> int:
    """Rows of an output that the caller reads: those of the launch."""
    if tables is not None and not tables.fits and buffer.rows:
        return 0
    match buffer.rows:
        case "tokens":
            return routing.tokens[rank]
        case "grouped":
            return 0 if tables is None else tables.received[rank]
        case "sent":
            return 0 if tables is None else sum(tables.sent[rank])
        case _:
            return buffer.dims[0]


def _shifted(view: View, touch: Touch, launch: int) -> tuple[tuple[int, str], Mask]:
    """The memory of a touch and its granules there; launches from 0."""
    buffer = view.buffers[touch.buffer]
    if buffer.offset is None:
        return (touch.rank, touch.buffer), touch.mask
    begin = _begin(buffer, launch) // view.granule
    return (touch.rank, buffer.space.value), touch.mask << begin


def _begin(buffer: Buffer, launch: int) -> int:
    assert buffer.offset is not None
    return buffer.offset + (launch + 1) % buffer.copies * buffer.copy_bytes


@dataclass
class _Users:
    """Tasks that touch exactly the same bytes, as bits."""

    readers: int = 0
    writers: int = 0
    buffers: set[str] = field(default_factory=set[str])


def _check_run(steps: Steps, works: list[list[TaskWork]], orders: Orders) -> None:
    """Checks all pairs of accesses that conflict in a sequence of launches."""
    view = steps.view
    memory: dict[tuple[int, str], dict[Mask, _Users]] = defaultdict(dict)
    for launch, of_launch in enumerate(works):
        for at, work in enumerate(of_launch):
            node = launch * steps.per_launch + at
            for touch in work.touches:
                if not touch.mask:
                    continue
                place, mask = _shifted(view, touch, launch)
                users = memory[place].setdefault(mask, _Users())
                users.buffers.add(touch.buffer)
                if touch.writes:
                    users.writers |= 1 << node
                else:
                    users.readers |= 1 << node
    values = False
    for place in memory.values():
        listed = list(place.items())
        for mask, users in listed:
            if not users.writers:
                continue
            met = 0
            for other, others in listed:
                if mask & other:
                    met |= others.readers | others.writers
                    values = values or others.buffers != users.buffers
            for node in bits(users.writers):
                earlier, later = met & ((1 << node) - 1), met >> node + 1 << node + 1
                before, after = orders.before[node], orders.after[node]
                if open_ := met & ~before & ~after & ~(1 << node):
                    other = next(iter(bits(open_)))
                    raise Harmful(
                        "race", f"{steps.text(node)} and {steps.text(other)}: nothing orders them"
                    )
                values = values or bool(earlier & ~before or later & ~after)
    if values:
        _check_values(steps, works, orders.legal)


def _check_values(steps: Steps, works: list[list[TaskWork]], legal: list[int]) -> None:
    """Compares what each read sees with what it sees when families run one after the other.

    For programs whose conflicting accesses are all ordered, but not as in the text, or that use
    memory twice. One order of events is then as good as another.
    """
    view = steps.view
    wanted: dict[tuple[int, int], list[int]] = {}
    own: dict[tuple[int, str, int], np.ndarray[tuple[int], np.dtype[np.int32]]] = {}
    spots: dict[Mask, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}

    def indices(mask: Mask) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if mask not in spots:
            size = -(-mask.bit_length() // 8)
            data = np.frombuffer(mask.to_bytes(size, "little"), dtype=np.uint8)
            spots[mask] = np.flatnonzero(np.unpackbits(data, bitorder="little"))
        return spots[mask]

    for launch, of_launch in enumerate(works):
        for at, work in enumerate(of_launch):
            node = launch * steps.per_launch + at
            for number, touch in enumerate(work.touches):
                buffer = view.buffers[touch.buffer]
                key = (touch.rank, touch.buffer, (launch + 1) % buffer.copies)
                if key not in own:
                    own[key] = np.full(buffer.copy_bytes // view.granule, -1, dtype=np.int32)
                if not touch.writes:
                    wanted[node, number] = own[key][indices(touch.mask)].tolist()
            for touch in work.touches:
                if touch.writes:
                    copies = view.buffers[touch.buffer].copies
                    key = (touch.rank, touch.buffer, (launch + 1) % copies)
                    own[key][indices(touch.mask)] = node
    real: dict[tuple[int, str], np.ndarray[tuple[int], np.dtype[np.int32]]] = {}
    for node in legal:
        launch, at = divmod(node, steps.per_launch)
        if launch >= len(works):
            continue
        for number, touch in enumerate(works[launch][at].touches):
            place, mask = _shifted(view, touch, launch)
            if place not in real:
                real[place] = np.full(_size(view, place[1]), -1, dtype=np.int32)
            if touch.writes:
                continue
            if real[place][indices(mask)].tolist() != wanted[node, number]:
                raise Harmful(
                    "value",
                    f"{steps.text(node)} reads other writes of @{touch.buffer} than it should",
                )
        for touch in works[launch][at].touches:
            if touch.writes:
                place, mask = _shifted(view, touch, launch)
                real[place][indices(mask)] = node
    for (rank, name, copy), written in own.items():
        if view.buffers[name].space.is_of_caller and copy == 0:
            if (rank, name) in real and (real[rank, name] != written).any():
                raise Harmful("value", f"@{name} of rank {rank} ends with other writes")


def _size(view: View, place: str) -> int:
    """Granules of a memory: a whole space, or a buffer of the caller."""
    if place in view.buffers:
        return view.buffers[place].copy_bytes // view.granule
    ends = [b.end for b in view.buffers.values() if b.space.value == place and b.offset is not None]
    return max(ends) // view.granule
