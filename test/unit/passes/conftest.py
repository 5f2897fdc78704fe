"""Random tile programs, and what their regions mean row by row under a random routing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    Chunk,
    GroupedRows,
    IndexSelector,
    Selector,
    SentRows,
    TokenRows,
    WholeSelector,
    chunk_bounds,
    group_bounds,
)
from hpmoe_ir.dialects.index import RANK, evaluate_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import (
    BufferOp,
    DependenceOp,
    MemorySpace,
    ProgramOp,
    TasksOp,
    buffer_type,
    buffers_of,
    families_of,
)
from hpmoe_ir.dialects.tile.types import BufferType
from hpmoe_ir.dialects.tile.verify import verify_program
from hpmoe_ir.machines.core_kind import CoreKind

IntArray: TypeAlias = np.ndarray[Any, np.dtype[np.integer[Any]]]
Task: TypeAlias = tuple[int, str, int]
"""Rank, family, number of the grid point."""

COLUMNS = 10
WHOLE = WholeSelector()


def _dim(i: int) -> AffineExpr:
    return AffineExpr.dimension(i)


class _Maker:
    """Draws a program: local work on grouped rows, puts to peers, work on tokens and lists."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.ranks = self._draw(1, 4)
        self.local = self._draw(1, 3)
        experts = self.ranks * self.local
        self.route = RouteType(6, 1, experts, self.ranks)
        self.buffers = [
            BufferOp("route", MemorySpace.WORKSPACE, self.route),
            BufferOp("list", MemorySpace.WORKSPACE, BufferType((6, COLUMNS), bf16)),
        ]
        self.families: list[TasksOp] = []
        self.written: dict[str, list[str]] = {"grouped": [], "sent": [], "tokens": [], "": ["list"]}

    def _draw(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))  # pyright: ignore[reportUnknownMemberType]

    def _one_of(self, names: list[str]) -> str:
        return names[self._draw(0, len(names) - 1)]

    def program(self) -> ProgramOp:
        """The program; its families are in an order in which they may run."""
        self._add("build", [], [Access("list", (WHOLE, WHOLE))], [Access("route", (WHOLE,))])
        self._put()
        makers = (self._put, self._return, *[self._rows] * 3, self._tokens, self._list)
        for _ in range(self._draw(2, 6)):
            makers[self._draw(0, len(makers) - 1)]()
        program = ProgramOp("random", self.ranks, [*self.buffers, *self.families])
        verify_program(buffers_of(program), families_of(program), self.ranks)
        return program

    def _add(
        self,
        stem: str,
        grid: list[tuple[str, int]],
        reads: list[Access],
        writes: list[Access],
        route: bool = False,
    ) -> None:
        # Some work on grouped rows is by matrix cores, as in a layer.
        core = CoreKind.AIC if stem == "rows" and self._draw(0, 1) else CoreKind.AIV
        name = f"{stem}{len(self.families)}"
        family = TasksOp(
            name, grid, core, "copy_rows", reads, writes, route="route" if route else None
        )
        self.families.append(family)

    def _buffer(self, space: MemorySpace, rows: str, capacity: int) -> str:
        name = f"b{len(self.buffers)}"
        self.buffers.append(BufferOp(name, space, BufferType((capacity, COLUMNS), bf16, rows)))
        return name

    def _target(self, rows: str, capacity: int, *sources: str) -> str:
        """A buffer to write, sometimes one that has been used before, but none of `sources`."""
        old = [
            b.sym_name.data
            for b in self.buffers
            if b.space.data is MemorySpace.WORKSPACE
            and b.sym_name.data in self.written[rows]
            and b.sym_name.data not in sources
        ]
        if old and self._draw(0, 3) == 0:
            return self._one_of(old)
        name = self._buffer(MemorySpace.WORKSPACE, rows, capacity)
        self.written[rows].append(name)
        return name

    def _chunk(self, dim: int) -> Chunk:
        count = self._draw(1, 3)
        return Chunk(_dim(dim), count, self._draw(1, 2)) if count > 1 else Chunk()

    def _put(self) -> None:
        window = self._buffer(MemorySpace.WINDOW, "grouped", self.route.rows.data)
        self.written["grouped"].append(window)
        chunk = self._chunk(2)
        peer = _dim(0) if self._draw(0, 1) else (RANK + _dim(0)) % self.ranks
        rows = GroupedRows(_dim(1), RANK, self.ranks, chunk)
        reads = [Access(self._one_of(self.written[""]), (WHOLE, WHOLE))]
        grid = [("p", self.ranks), ("e", self.local), ("c", chunk.count)]
        self._add("put", grid, reads, [Access(window, (rows, WHOLE), peer)], route=True)

    def _return(self) -> None:
        """Rows back to where they came from, and a task that reads them by expert or as a whole."""
        window = self._buffer(MemorySpace.WINDOW, "sent", 6)
        chunk = self._chunk(2)
        source = GroupedRows(_dim(0), _dim(1), self.ranks, chunk)
        reads = [Access(self._one_of(self.written["grouped"]), (source, WHOLE))]
        sent = SentRows(RANK * self.local + _dim(0), chunk)
        writes = [Access(window, (sent, WHOLE), _dim(1))]
        grid = [("e", self.local), ("s", self.ranks), ("c", chunk.count)]
        self._add("return", grid, reads, writes, route=True)
        target = self._buffer(MemorySpace.WORKSPACE, "sent", 6)
        self.written["sent"] += [window, target]
        rows = SentRows(_dim(0), self._chunk(1))
        read: Selector = rows if self._draw(0, 1) else WHOLE
        self._add(
            "sent",
            [("x", self.route.experts.data), ("c", rows.chunk.count)],
            [Access(window, (read, WHOLE))],
            [Access(target, (rows, WHOLE))],
            route=True,
        )

    def _rows(self) -> None:
        groups = self._draw(1, self.ranks)
        chunk = self._chunk(2)
        rows = GroupedRows(_dim(0), _dim(1), groups, chunk)
        block = self._draw(1, 2) * 4
        blocks = -(-COLUMNS // block)
        source = self._one_of(self.written["grouped"])
        columns: Selector = WHOLE if self._draw(0, 2) else BlockSelector(_dim(3), block)
        target = self._target("grouped", self.route.rows.data, source)
        grid = [("e", self.local), ("g", groups), ("c", chunk.count), ("n", blocks)]
        read, write = (
            Access(source, (rows, columns)),
            Access(target, (rows, BlockSelector(_dim(3), block))),
        )
        self._add("rows", grid, [read], [write], route=True)

    def _tokens(self) -> None:
        parts = self._draw(1, 3)
        rows = TokenRows(_dim(0), parts)
        sources = self.written["tokens"] or self.written["grouped"]
        source = self._one_of(sources)
        read: Selector = rows if sources is self.written["tokens"] and self._draw(0, 1) else WHOLE
        target = self._target("tokens", 6, source)
        grid = [("b", parts)]
        self._add("tokens", grid, [Access(source, (read, WHOLE))], [Access(target, (rows, WHOLE))])

    def _list(self) -> None:
        source = self._one_of(self.written[""])
        first: Selector = IndexSelector(_dim(0)) if self._draw(0, 1) else WHOLE
        reads = [Access(source, (first, WHOLE))]
        other = [*self.written["tokens"], *self.written["grouped"], *self.written["sent"]]
        if self._draw(0, 1):
            reads.append(Access(self._one_of(other), (WHOLE, WHOLE)))
        target = self._target("", 6, source)
        self._add("list", [("i", 6)], reads, [Access(target, (IndexSelector(_dim(0)), WHOLE))])


@dataclass(frozen=True)
class Box:
    """Rows and columns of one buffer on one rank, half open."""

    buffer: str
    rank: int
    rows: tuple[int, int]
    columns: tuple[int, int]

    def meets(self, other: Box) -> bool:
        """Whether some element is in both."""
        return (
            (self.buffer, self.rank) == (other.buffer, other.rank)
            and max(self.rows[0], other.rows[0]) < min(self.rows[1], other.rows[1])
            and max(self.columns[0], other.columns[0]) < min(self.columns[1], other.columns[1])
        )


class Meaning:
    """What the regions of a program are under one random routing."""

    def __init__(self, program: ProgramOp, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.program = program
        self.ranks = program.ranks.value.data
        self.buffers = buffers_of(program)
        route = self.buffers["route"].type
        assert isinstance(route, RouteType)
        self.local = route.local_experts
        shape = (self.ranks, self.local, self.ranks)
        self.counts: IntArray = (random.random(shape) * 7).astype(np.int64)
        """Rows on each rank for each local expert from each source."""
        self.tokens = [int(t) for t in random.random(self.ranks) * 7]

    def boxes(self, task: Task, regions: tuple[Access, ...]) -> list[Box]:
        """The boxes of some regions of a task."""
        rank, name, point = task
        family = families_of(self.program)[name]
        coords = [int(c[point]) for c in family.coordinates()]

        def value(expr: AffineExpr) -> int:
            return int(evaluate_index(expr, coords, rank))

        found: list[Box] = []
        for region in regions:
            buffer = self.buffers[region.buffer]
            if isinstance(buffer.type, RouteType):
                found.append(Box(region.buffer, rank, (0, 1), (0, 1)))
                continue
            owner = rank if region.peer is None else value(region.peer)
            spans = [
                self._span(s, extent, owner, value)
                for s, extent in zip(region.selectors, buffer_type(buffer).dims, strict=True)
            ]
            found.append(Box(region.buffer, owner, spans[0], spans[1]))
        return found

    def _span(
        self, s: Selector, extent: int, owner: int, value: Callable[[AffineExpr], int]
    ) -> tuple[int, int]:
        match s:
            case WholeSelector():
                return 0, extent
            case IndexSelector():
                return value(s.index), value(s.index) + 1
            case BlockSelector():
                begin = value(s.index) * s.size
                return begin, min(begin + s.size, extent)
            case TokenRows():
                return chunk_bounds(self.tokens[owner], value(s.index), s.count, 1)
            case GroupedRows():
                first, last = group_bounds(value(s.group), s.groups, self.ranks)
                flat = self.counts[owner].ravel()
                at = value(s.expert) * self.ranks
                begin, count = (
                    int(flat[: at + first].sum()),
                    int(flat[at + first : at + last].sum()),
                )
                c = s.chunk
                low, high = chunk_bounds(count, value(c.index), c.count, c.align)
                return begin + low, begin + high
            case SentRows():
                # The owner's send order: by destination rank and its local expert.
                flat = self.counts[:, :, owner].ravel()
                expert = value(s.expert)
                begin, count = int(flat[:expert].sum()), int(flat[expert])
                c = s.chunk
                low, high = chunk_bounds(count, value(c.index), c.count, c.align)
                return begin + low, begin + high
            case _:
                raise AssertionError(f"not a selector: {s}")


def tasks_of(program: ProgramOp) -> list[Task]:
    """All tasks of all ranks, families in order."""
    return [
        (rank, name, point)
        for name, family in families_of(program).items()
        for rank in range(program.ranks.value.data)
        for point in range(family.task_count)
    ]


def must_be_ordered(program: ProgramOp, seed: int) -> list[tuple[Task, Task]]:
    """Pairs of tasks of different families that use the same element, one of them writing it."""
    meaning = Meaning(program, seed)
    families = families_of(program)
    order = {name: i for i, name in enumerate(families)}
    uses: list[tuple[Task, bool, Box]] = []
    for task in tasks_of(program):
        family = families[task[1]]
        reads = family.read_accesses
        if family.route is not None:
            reads = (*reads, Access("route", (WHOLE,)))
        uses += [(task, False, box) for box in meaning.boxes(task, reads)]
        uses += [(task, True, box) for box in meaning.boxes(task, family.write_accesses)]
    return [
        (a, b)
        for a, a_writes, a_box in uses
        for b, b_writes, b_box in uses
        if (a_writes or b_writes) and order[a[1]] < order[b[1]] and a_box.meets(b_box)
    ]


def signals_and_waits(
    d: DependenceOp, program: ProgramOp
) -> tuple[dict[tuple[int, int], list[Task]], dict[Task, tuple[int, int]]]:
    """For each event (rank, number) the tasks that signal it, and each task's event to wait for."""
    families = families_of(program)
    ranks = range(program.ranks.value.data)

    def number(exprs: tuple[AffineExpr, ...], coords: list[int], rank: int) -> int:
        flat = 0
        for expr, extent in zip(exprs, d.extents, strict=True):
            flat = flat * extent + int(evaluate_index(expr, coords, rank))
        return flat

    producer, consumer = d.producer.root_reference.data, d.consumer.root_reference.data
    signals: dict[tuple[int, int], list[Task]] = {
        (rank, n): [] for rank in ranks for n in range(d.event_count)
    }
    waits: dict[Task, tuple[int, int]] = {}
    for rank in ranks:
        for point in range(families[producer].task_count):
            coords = [int(c[point]) for c in families[producer].coordinates()]
            owner = rank if d.peer_expr is None else int(evaluate_index(d.peer_expr, coords, rank))
            event = (owner, number(d.source_exprs, coords, rank))
            signals[event].append((rank, producer, point))
        for point in range(families[consumer].task_count):
            coords = [int(c[point]) for c in families[consumer].coordinates()]
            waits[rank, consumer, point] = (rank, number(d.target_exprs, coords, rank))
    return signals, waits


@dataclass(frozen=True)
class Order:
    """Which tasks come before which, through dependences."""

    number: dict[Task, int]
    before: dict[Task, int]
    """A bit for each task that comes before."""

    def ordered(self, first: Task, second: Task) -> bool:
        """Whether `first` has certainly ended when `second` starts."""
        return bool(self.before[second] >> self.number[first] & 1)


def order_of(program: ProgramOp) -> Order:
    """The order that the dependences of a program make, followed task by task."""
    number = {task: i for i, task in enumerate(tasks_of(program))}
    before = dict.fromkeys(number, 0)
    dependences = [op for op in program.body.block.ops if isinstance(op, DependenceOp)]
    for name in families_of(program):
        for d in dependences:
            if d.consumer.root_reference.data != name:
                continue
            signals, waits = signals_and_waits(d, program)
            masks = {
                event: reduce(lambda a, t: a | before[t] | 1 << number[t], tasks, 0)
                for event, tasks in signals.items()
            }
            for task, event in waits.items():
                before[task] |= masks[event]
    return Order(number, before)


@dataclass(frozen=True)
class Programs:
    """What the tests of tasks share; test files cannot import each other."""

    random: Callable[[int], ProgramOp]
    """The program of a seed, without dependences."""
    must_be_ordered: Callable[[ProgramOp, int], list[tuple[Task, Task]]]
    signals_and_waits: Callable[
        [DependenceOp, ProgramOp],
        tuple[dict[tuple[int, int], list[Task]], dict[Task, tuple[int, int]]],
    ]
    order_of: Callable[[ProgramOp], Order]


@pytest.fixture(scope="session")
def programs() -> Programs:
    """Random programs and what must hold of them."""
    return Programs(
        lambda seed: _Maker(seed).program(), must_be_ordered, signals_and_waits, order_of
    )
