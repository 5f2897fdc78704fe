"""Numbering of all tasks of all ranks of a program.

Task number `rank * per_rank + first[family] + point` identifies a grid point of a family on a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.index import IntArray, evaluate_index, uses_rank
from hpmoe_ir.dialects.tile import TasksOp, families_of
from hpmoe_ir.memory_limit import available_memory

TASK_BYTES = 128
"""Lower bound on the bytes per task of the arrays over all tasks: numbers, owners and axes."""


@dataclass(frozen=True)
class TaskNumbers:
    """The numbering of the tasks of a tile or queue program."""

    program: Operation
    ranks: int
    families: list[TasksOp]
    first: dict[str, int]
    """Number of the first task of each family, on rank 0."""
    per_rank: int
    """Number of tasks of one rank."""

    def tasks_of(self, family: TasksOp, ranks: range | None = None) -> IntArray:
        """Returns the task numbers of a family, int64[ranks, points], on all ranks or on some."""
        begin = self.first[family.sym_name.data]
        points = np.arange(begin, begin + family.task_count, dtype=np.int64)
        of = range(self.ranks) if ranks is None else ranks
        rank = np.arange(of.start, of.stop, dtype=np.int64)[:, None]
        return rank * self.per_rank + points

    def rank_of(self, task: int) -> int:
        """Returns the rank that runs a task."""
        return task // self.per_rank

    def family_of(self, task: int) -> tuple[TasksOp, int]:
        """Returns the family of a task and its row-major grid point number."""
        number = task % self.per_rank
        for family in self.families:
            begin = self.first[family.sym_name.data]
            if begin <= number < begin + family.task_count:
                return family, number - begin
        raise AssertionError(f"no task {task}")

    def task_text(self, task: int) -> str:
        """Returns the text of a task for messages: `@matmul (0, 1, 0, 2) on rank 3`."""
        family, point = self.family_of(task)
        coordinates = ", ".join(str(int(c)) for c in np.unravel_index(point, family.extents))
        return f"@{family.sym_name.data} ({coordinates}) on rank {self.rank_of(task)}"


def number_tasks(program: Operation, ranks: int) -> TaskNumbers:
    """Numbers the tasks of a program; raises RefusedError if their arrays do not fit in memory."""
    families = list(families_of(program).values())
    first, per_rank = first_places([(f.sym_name.data, f.task_count) for f in families])
    if ranks * per_rank * TASK_BYTES > available_memory():
        refuse(
            program,
            f"{ranks} ranks of {per_rank} tasks: expected fewer, they do not fit into the memory "
            "that is left; use larger tiles",
        )
    return TaskNumbers(program, ranks, families, first, per_rank)


def first_places(sizes: Sequence[tuple[str, int]]) -> tuple[dict[str, int], int]:
    """Returns the start of each named range when laid out consecutively, and the total size."""
    found: dict[str, int] = {}
    total = 0
    for name, size in sizes:
        found[name] = total
        total += size
    return found, total


def task_values(family: TasksOp, expr: AffineExpr, ranks: int | range) -> IntArray:
    """Evaluates an index expression at each task of a family, int64[ranks, points].

    `ranks` are the ranks, or their number.
    """
    of = range(ranks) if isinstance(ranks, int) else ranks
    rank = np.arange(of.start, of.stop, dtype=np.int64)[:, None]
    value = evaluate_index(expr, [c[None, :] for c in family.coordinates()], rank)
    return np.broadcast_to(np.asarray(value, dtype=np.int64), (len(of), family.task_count))


def distinct_values(family: TasksOp, expr: AffineExpr, ranks: int) -> IntArray:
    """Evaluates an index expression on one rank if all ranks have the same values, else on all.

    Returns int64[1 or ranks, points].
    """
    return task_values(family, expr, ranks if uses_rank(expr) else 1)
