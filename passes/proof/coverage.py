"""Refuses programs with reads of memory that no task writes in the same launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.tile import buffers_of
from hpmoe_ir.dialects.tile.signature import GIVEN
from hpmoe_ir.passes.analysis.task_uses import Use
from hpmoe_ir.passes.proof.tasks import QueueTasks

MOST_CELLS = 1 << 24
"""Maximum number of cells checked at a time, to bound the memory of the check."""


@dataclass(frozen=True)
class _Cells:
    """One axis of a buffer, divided at all bounds of accesses; all writers must split it alike."""

    name: str
    cut: tuple[int, ...]
    points: IntArray
    """[cells + 1] bounds of the cells, ascending."""

    def box(self, use: Use) -> IntArray:
        """Returns [2, tasks]: the first cell of each task and one past its last cell."""
        axis = use.axes.get(self.name)
        if axis is None or axis.cut != self.cut:
            # The whole axis: rows that are split differently may be in any cell.
            whole = np.array([[0], [len(self.points) - 1]])
            return np.broadcast_to(whole, (2, len(use.tasks)))
        return np.searchsorted(self.points, axis.spans).T[:, axis.which]


def check_written(tasks: QueueTasks, uses_by_buffer: dict[str, list[Use]]) -> None:
    """Checks that earlier families write, in the same launch, all that each task reads.

    Buffers that the caller provides are exempt. Accesses are boxes over experts, source ranks,
    chunks and columns; where a reader splits rows differently from the writers, every chunk must be
    written. Raises RefusedError naming the task, the access and what is missing.
    """
    buffers = buffers_of(tasks.program)
    for name, uses in uses_by_buffer.items():
        if buffers[name].space.data in GIVEN:
            continue
        for i, use in enumerate(uses):
            if use.writes:
                continue
            writers = [w for w in uses[:i] if w.writes and w.family is not use.family]
            if not writers:
                refuse(
                    use.family,
                    f"verify-queues: @{use.family.sym_name.data} reads @{use.access.buffer}, and "
                    "no family before it writes that buffer in the launch",
                )
            _check_covered(tasks, use, writers)


def _check_covered(tasks: QueueTasks, use: Use, writers: Sequence[Use]) -> None:
    axes = _cells(use, writers)
    shape = tuple(len(axis.points) for axis in axes)
    at_once = max(1, MOST_CELLS // int(np.prod(shape)))
    for first in range(0, tasks.ranks, at_once):
        # Counts the writers of each cell: differences at the corners of each box, then prefix sums.
        written = np.zeros((min(at_once, tasks.ranks - first), *shape), dtype=np.int64)
        for writer in writers:
            some = (writer.owner >= first) & (writer.owner < first + len(written))
            boxes = [axis.box(writer)[:, some] for axis in axes]
            for corner in product((0, 1), repeat=len(axes)):
                at = [box[c] for box, c in zip(boxes, corner, strict=True)]
                sign = 1 - 2 * (sum(corner) % 2)
                np.add.at(written, (writer.owner[some] - first, *at), sign)
        for axis in range(1, written.ndim):
            np.cumsum(written, axis=axis, out=written)
        _check_readers(tasks, use, axes, written > 0, first)


def _check_readers(
    tasks: QueueTasks,
    use: Use,
    axes: Sequence[_Cells],
    written: np.ndarray[Any, np.dtype[np.bool_]],
    rank: int,
) -> None:
    """Checks that all cells of each reader's box are written; `written` starts at rank `rank`."""
    some = np.flatnonzero((use.owner >= rank) & (use.owner < rank + len(written)))
    boxes = [axis.box(use)[:, some] for axis in axes]
    sums = np.zeros((len(written), *(n + 1 for n in written.shape[1:])), dtype=np.int64)
    sums[(slice(None), *[slice(1, None)] * len(axes))] = written
    for axis in range(1, sums.ndim):
        np.cumsum(sums, axis=axis, out=sums)
    found = np.zeros(len(some), dtype=np.int64)
    for corner in product((0, 1), repeat=len(axes)):
        at = [box[c] for box, c in zip(boxes, corner, strict=True)]
        sign = 1 - 2 * ((len(axes) - sum(corner)) % 2)
        found += sign * sums[(use.owner[some] - rank, *at)]
    wanted = np.ones(len(some), dtype=np.int64)
    for low, high in boxes:
        wanted *= high - low
    missing = np.flatnonzero(found < wanted)
    if not missing.size:
        return
    first = int(missing[0])
    task = int(use.tasks[some[first]])
    here = written[int(use.owner[some[first]]) - rank]
    what = "and no task writes it on that rank"
    if here.any():
        box = [(int(b[0, first]), int(b[1, first])) for b in boxes]
        cell = np.argwhere(~here[tuple(slice(*b) for b in box)])[0]
        places = [
            f"{_axis_text(axis.name)} {int(axis.points[low + offset])}"
            for axis, (low, _), offset in zip(axes, box, cell, strict=True)
        ]
        what = f"of which no task writes {' of '.join(reversed(places))}"
    refuse(
        use.family,
        f"verify-queues: {tasks.task_text(task)} reads {use.text(task, tasks)}, {what}",
    )


def _cells(use: Use, writers: Sequence[Use]) -> list[_Cells]:
    found: list[_Cells] = []
    for name in sorted({n for w in writers for n in w.axes}):
        parts = [w.axes[name] for w in writers if name in w.axes]
        if len({part.cut for part in parts}) > 1:
            continue
        mine = use.axes.get(name)
        if mine is not None and mine.cut == parts[0].cut:
            parts.append(mine)
        bounds = [part.spans.ravel() for part in parts]
        points = np.unique(np.concatenate([*bounds, [0, parts[0].extent]]))
        found.append(_Cells(name, parts[0].cut, points))
    return found


def _axis_text(name: str) -> str:
    if name.startswith("dim"):
        return f"dimension {name[3:]}, index"
    return {"source": "source rank", "chunk": "chunk"}.get(name, name)
