"""Which tasks must come before which: all pairs that use the same memory, task by task.

Two tasks conflict when their regions can name the same element under some routing and one of them
writes. Of two that do, the one of the earlier launch, or of the earlier family of the program, or
of the earlier point of a family on one rank, must come first. A task must also find everything that
it reads written in its launch. Written without the analysis that the compiler uses
(`passes/analysis/dependence.py`): boxes are compared pair by pair.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import product

from hpmoe_ir.dialects.queue import ProgramOp, events_of
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, buffer_bytes, buffers_of, copy_bytes
from hpmoe_ir.machines.machine import load_machine
from mutants.boxes import BoxAccess, all_accesses
from mutants.task_graph import TaskGraph
from mutants.written import unwritten


@dataclass
class Needs:
    """The pairs (first, second) that must be ordered, and what is wrong whatever the order."""

    first: list[int]
    second: list[int]
    wrong: list[str]


def find_needs(program: ProgramOp, graph: TaskGraph) -> Needs:
    """All that must hold for the program to compute what its regions say."""
    buffers = buffers_of(program)
    accesses = all_accesses(program, graph)
    needs = Needs([], [], [])
    places: dict[tuple[int, str, int], list[BoxAccess]] = defaultdict(list)
    for access in accesses:
        launch = graph.tasks[access.node].launch
        buffer = buffers[access.box.buffer]
        copy = launch % buffer.copies.value.data
        if buffer.space.data is MemorySpace.WINDOW:
            places[access.box.rank, access.box.buffer, copy].append(access)
        else:
            # Other launches of the rank come before or after as a whole.
            places[access.box.rank, access.box.buffer, launch].append(access)
    pairs: set[tuple[int, int]] = set()
    keys = list(places)
    for i, key in enumerate(keys):
        for other in keys[i:]:
            if key == other or _share_memory(buffers, key, other):
                _compare(graph, places[key], places[other], key[1] == other[1], pairs, needs)
    needs.first = [a for a, _ in sorted(pairs)]
    needs.second = [b for _, b in sorted(pairs)]
    _check_shared(buffers, places, graph, needs)
    _check_counters(program, buffers, needs)
    needs.wrong += unwritten(buffers, accesses, graph, program.ranks.value.data)
    return needs


def _share_memory(
    buffers: dict[str, BufferOp], key: tuple[int, str, int], other: tuple[int, str, int]
) -> bool:
    """Whether two places of the same rank overlap in bytes."""
    a, b = buffers[key[1]], buffers[other[1]]
    if key[0] != other[0] or a.space != b.space or a.offset is None or b.offset is None:
        return False
    if a.space.data is MemorySpace.WORKSPACE and key[2] != other[2]:
        return False

    def begin(buffer: BufferOp, copy: int) -> int:
        assert buffer.offset is not None
        copies = buffer.copies.value.data
        return buffer.offset.value.data + (copy % copies) * copy_bytes(buffer)

    one, two = begin(a, key[2]), begin(b, other[2])
    return one < two + copy_bytes(b) and two < one + copy_bytes(a)


def _compare(
    graph: TaskGraph,
    here: list[BoxAccess],
    there: list[BoxAccess],
    same: bool,
    pairs: set[tuple[int, int]],
    needs: Needs,
) -> None:
    for a, b in product(here, there):
        if a.node == b.node or not (a.writes or b.writes):
            continue
        one, two = graph.tasks[a.node], graph.tasks[b.node]
        left, right = (one.launch, one.family), (two.launch, two.family)
        if left == right and (a.scatter and b.scatter):
            continue
        if same and not a.box.meets(b.box):
            continue
        if left == right and one.rank == two.rank:
            left, right = (0, one.point), (0, two.point)
        if left == right:
            needs.wrong.append(f"{one} and {two} use the same part of @{a.box.buffer}")
        else:
            pairs.add((a.node, b.node) if left < right else (b.node, a.node))


def _check_shared(
    buffers: dict[str, BufferOp],
    places: dict[tuple[int, str, int], list[BoxAccess]],
    graph: TaskGraph,
    needs: Needs,
) -> None:
    """Of two buffers that share memory, none is written between a write and a read of the other."""
    for key, other in product(places, places):
        if key[1] == other[1] or not _share_memory(buffers, key, other):
            continue
        uses: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        for access in places[key]:
            task = graph.tasks[access.node]
            uses[task.launch].append((task.family, access.writes))
        for access in places[other]:
            task = graph.tasks[access.node]
            first = min((f for f, w in uses[task.launch] if w), default=task.family)
            last = max((f for f, w in uses[task.launch] if not w), default=task.family)
            if access.writes and first < task.family < last:
                needs.wrong.append(f"{task} writes @{other[1]} over @{key[1]}, which is still read")


def _check_counters(program: ProgramOp, buffers: dict[str, BufferOp], needs: Needs) -> None:
    if program.counters is None:
        return
    line = load_machine(program.machine.data).counter_line
    for name, event in events_of(program).items():
        assert event.line is not None
        begin = program.counters.value.data + event.line.value.data * line
        for buffer in buffers.values():
            if buffer.space.data is MemorySpace.WINDOW and buffer.offset is not None:
                first = buffer.offset.value.data
                if first < begin + event.line_count * line and begin < first + buffer_bytes(buffer):
                    needs.wrong.append(f"counters of @{name} lie in @{buffer.sym_name.data}")
