"""Numbers for all tasks of all ranks of a program.

Task `rank * per_rank + first[family] + point` is a point of a family on a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.index import IntArray, evaluate_index
from hpmoe_ir.dialects.tile import TasksOp, families_of
from hpmoe_ir.memory_limit import available_memory

TASK_BYTES = 128
"""What arrays over all tasks take at least for each: numbers, owners, two axes, of a few uses."""


@dataclass(frozen=True)
class TaskNumbers:
    """The tasks of a tile or queue program."""

    program: Operation
    ranks: int
    families: list[TasksOp]
    first: dict[str, int]
    """First task of a family, on rank 0."""
    per_rank: int
    """Tasks of one rank."""

    def tasks_of(self, family: TasksOp) -> IntArray:
        """[ranks, points] the numbers of a family's tasks."""
        begin = self.first[family.sym_name.data]
        points = np.arange(begin, begin + family.task_count, dtype=np.int64)
        return np.arange(self.ranks, dtype=np.int64)[:, None] * self.per_rank + points

    def rank_of(self, task: int) -> int:
        """The rank that runs a task."""
        return task // self.per_rank

    def family_of(self, task: int) -> tuple[TasksOp, int]:
        """The family of a task and the number of its point."""
        number = task % self.per_rank
        for family in self.families:
            begin = self.first[family.sym_name.data]
            if begin <= number < begin + family.task_count:
                return family, number - begin
        raise AssertionError(f"no task {task}")

    def task_text(self, task: int) -> str:
        """`@matmul (0, 1, 0, 2) on rank 3`."""
        family, point = self.family_of(task)
        coordinates = ", ".join(str(int(c)) for c in np.unravel_index(point, family.extents))
        return f"@{family.sym_name.data} ({coordinates}) on rank {self.rank_of(task)}"


def number_tasks(program: Operation, ranks: int) -> TaskNumbers:
    """Numbers the tasks of a program. Raises RefusedError where their arrays have no memory."""
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
    """Where each of some named ranges starts when they follow each other, and the end."""
    found: dict[str, int] = {}
    total = 0
    for name, size in sizes:
        found[name] = total
        total += size
    return found, total


def task_values(family: TasksOp, expr: AffineExpr, ranks: int) -> IntArray:
    """[ranks, points] value of an index expression at each task of a family."""
    rank = np.arange(ranks, dtype=np.int64)[:, None]
    value = evaluate_index(expr, [c[None, :] for c in family.coordinates()], rank)
    return np.broadcast_to(np.asarray(value, dtype=np.int64), (ranks, family.task_count))
