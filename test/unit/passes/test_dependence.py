"""Dependences of random programs against what their regions mean, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.dialects.access import Access, BlockSelector, GroupedRows, WholeSelector
from hpmoe_ir.dialects.index import RANK
from hpmoe_ir.dialects.tile import TasksOp
from hpmoe_ir.dialects.tile.types import BufferType
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.options.options import OptionError
from hpmoe_ir.passes.analysis.dependence import (
    DependenceError,
    EventMap,
    Granularity,
    Shape,
    events_between,
)
from hpmoe_ir.passes.insert_dependencies import InsertDependenciesPass, find_dependences

WHOLE = WholeSelector()
D0, D1, D2 = (AffineExpr.dimension(i) for i in range(3))


@pytest.mark.parametrize("granularity", ["part", "expert"])
@pytest.mark.parametrize("seed", range(30))
def test_tasks_that_meet_are_ordered(programs: Any, seed: int, granularity: Granularity):
    program = programs.random(seed)
    program.body.block.add_ops(find_dependences(program, granularity))
    direct: set[tuple[object, object]] = set()
    for d in program.body.block.ops:
        if d.name != "tile.dependence":
            continue
        signals, waits = programs.signals_and_waits(d, program)
        direct |= {(p, task) for task, event in waits.items() for p in signals[event]}
    for routing in range(3):
        for first, second in programs.must_be_ordered(program, routing):
            assert (first, second) in direct, f"routing {routing}: {first}, {second}"


@pytest.mark.parametrize("granularity", ["part", "expert"])
@pytest.mark.parametrize("seed", range(30))
def test_thresholds_are_the_signals_that_come(programs: Any, seed: int, granularity: Granularity):
    program = programs.random(seed)
    for d in find_dependences(program, granularity):
        program.body.block.add_op(d)
        signals, _ = programs.signals_and_waits(d, program)
        for (rank, number), tasks in signals.items():
            assert len(tasks) == d.thresholds[number], f"{d} event {number} on rank {rank}"


def family(name: str, grid: list[int], reads: list[Access], writes: list[Access]) -> TasksOp:
    dims = [(f"d{i}", n) for i, n in enumerate(grid)]
    return TasksOp(name, dims, CoreKind.AIV, "copy_rows", reads, writes)


def grouped(
    expert: AffineExpr, group: AffineExpr, groups: int
) -> tuple[GroupedRows, WholeSelector]:
    return GroupedRows(expert, group, groups), WHOLE


ROWS = Shape(BufferType((40, 48), bf16, "grouped"), 4)


def between(
    producer: TasksOp, consumer: TasksOp, shape: Shape, granularity: Granularity = "part"
) -> EventMap:
    written, used = producer.write_accesses[0], consumer.read_accesses[0]
    found = events_between(producer, written, consumer, used, shape, granularity)
    assert found is not None
    return found


def test_puts_of_all_ranks_by_source_groups():
    put = family("put", [4, 3], [], [Access("b", grouped(D1, RANK, 4), D0)])
    use = family("use", [3, 2], [Access("b", grouped(D0, D1, 2))], [])
    assert between(put, use, ROWS) == EventMap(
        (3, 2), (D1, RANK // 2), (D0, D1), D0, (2, 2, 2, 2, 2, 2)
    )
    assert between(put, use, ROWS, "expert") == EventMap((3,), (D1,), (D0,), D0, (4, 4, 4))


def test_what_is_used_as_a_whole_has_one_event():
    write = family("write", [3, 4], [], [Access("b", grouped(D0, D1, 4))])
    use = family("use", [2], [Access("b", (WHOLE, WHOLE))], [])
    assert between(write, use, ROWS) == EventMap((), (), (), None, (12,))


@pytest.mark.parametrize(
    ("groups", "ranks"), [(g, r) for r in range(1, 9) for g in range(1, r + 1)]
)
def test_each_group_waits_for_its_own_sources_only(groups: int, ranks: int):
    shape = Shape(BufferType((40, 48), bf16, "grouped"), ranks)
    put = family("put", [ranks], [], [Access("b", grouped(D0 * 0, RANK, ranks), D0)])
    use = family("use", [groups], [Access("b", grouped(D0 * 0, D0, groups))], [])
    found = between(put, use, shape)
    sizes = [(g + 1) * ranks // groups - g * ranks // groups for g in range(groups)]
    assert found.counts == tuple(sizes)


@pytest.mark.parametrize("seed", range(30))
def test_blocks_of_columns_wait_for_the_blocks_they_share(seed: int):
    """Classes are as fine as borders that both sides have, or the axis is left out."""
    rng = np.random.default_rng(seed)
    width, ours, theirs = (int(n) for n in 1 + rng.random(3) * (60, 16, 16))
    shape = Shape(BufferType((5, width), bf16), 1)
    write = family("w", [-(-width // ours)], [], [Access("b", (WHOLE, BlockSelector(D0, ours)))])
    use = family("u", [-(-width // theirs)], [Access("b", (WHOLE, BlockSelector(D0, theirs)))], [])
    # Columns between which neither side has a block across the border.
    borders = [c for c in range(1, width) if c % ours == 0 and c % theirs == 0]
    found = between(write, use, shape)
    assert found.extents in ((), (len(borders) + 1,))
    # The classes are a plain division of the block's number whenever one divides the other.
    if not (ours % theirs and theirs % ours):
        assert found.extents == ((len(borders) + 1,) if borders else ())


def test_errors_say_what_is_wrong():
    write = family("write", [2], [], [Access("b", grouped(D0, D0 * 0, 1))])
    use = family("use", [3], [Access("b", grouped(D0, D0 * 0, 1))], [])
    with pytest.raises(DependenceError) as error:
        between(write, use, ROWS)
    assert str(error.value) == "@use uses a part of @b that no task of @write writes: expert 2"
    put = family("put", [3], [], [Access("b", grouped(D0, RANK, 4), D0 * 0 + 1)])
    with pytest.raises(DependenceError) as error:
        between(put, family("use", [], [Access("b", (WHOLE, WHOLE))], []), ROWS)
    assert str(error.value) == (
        "tasks of @put would need thresholds that differ by rank: each rank must be written by as "
        "many of them"
    )


def test_a_granularity_that_does_not_exist():
    with pytest.raises(OptionError) as error:
        InsertDependenciesPass(granularity="row")  # pyright: ignore[reportArgumentType]
    assert str(error.value) == "option 'granularity': expected expert or part, found 'row'"
