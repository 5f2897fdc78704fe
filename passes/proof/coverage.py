"""Refuses programs with reads of memory that no task writes in the same launch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, NoReturn, TypeAlias

import numpy as np

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, TasksOp, buffers_of
from hpmoe_ir.dialects.tile.signature import GIVEN
from hpmoe_ir.passes.analysis.task_uses import Axis, AxisSpans, Use
from hpmoe_ir.passes.proof.tasks import QueueTasks

MOST_CELLS = 1 << 22
"""Maximum number of cells checked at a time, to bound the memory of the check."""

MOST_READERS = 1 << 20
"""Approximate maximum number of tasks checked at a time."""

Cut: TypeAlias = tuple[int, ...]
Written: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class _Cells:
    """One axis of a buffer, divided at all bounds of the accesses that cut it by `cut`."""

    name: str
    cut: Cut
    points: IntArray
    """[cells + 1] bounds of the cells, ascending."""

    def box(self, axes: Mapping[str, Axis], tasks: int) -> IntArray:
        """Returns [2, tasks]: the first cell of each task and one past its last cell."""
        axis = axes.get(self.name)
        if axis is None or axis.cut != self.cut:
            # The whole axis: rows that are split differently may be in any cell.
            whole = np.array([[0], [len(self.points) - 1]])
            return np.broadcast_to(whole, (2, tasks))
        return np.searchsorted(self.points, axis.spans).T[:, axis.which]


def check_written(tasks: QueueTasks, uses_by_buffer: dict[str, list[Use]]) -> None:
    """Checks that earlier families write, in every launch, all that each task reads.

    Buffers that the caller provides are exempt. Accesses are boxes over experts, source ranks,
    chunks and columns. Rows that are cut in two ways cover each other only as a whole: where a
    reader cuts them differently from a writer, or two writers differently from each other, all
    chunks of one of the writers' cuts must be written.

    The rows of a launch are fewer than a buffer holds, and none if the routing exceeds the
    capacity. Tasks that write those rows therefore do not write what `:` reads, which is the whole
    capacity, unless the kernel reads only rows that another operand lists. A task that adds to what
    it writes also reads it. Raises RefusedError naming the task, the access and what is missing.
    """
    buffers = buffers_of(tasks.program)
    for name, uses in uses_by_buffer.items():
        buffer = buffers[name]
        if buffer.space.data in GIVEN:
            continue
        for i, use in enumerate(uses):
            if use.writes and not _adds(use.family):
                continue
            earlier = [w for w in uses[:i] if w.writes and w.family is not use.family]
            if not earlier:
                refuse(
                    use.family,
                    f"verify-queues: @{use.family.sym_name.data} reads @{use.access.buffer}, and "
                    "no family before it writes that buffer in the launch",
                )
            writers = [w for w in earlier if _writes_what(w, use, buffer)]
            if not writers:
                _refuse_rows(tasks, use, buffer, earlier[-1])
            _check_covered(tasks, use, writers)


def check_results(tasks: QueueTasks, uses_by_buffer: dict[str, list[Use]]) -> None:
    """Checks that tasks write all of each output, on every rank.

    Of rows whose number is known at run time only, those of the launch. Raises RefusedError naming
    the output and what is missing.
    """
    for name, buffer in buffers_of(tasks.program).items():
        if buffer.space.data is not MemorySpace.OUTPUT:
            continue
        writers = [use for use in uses_by_buffer[name] if use.writes]
        if not writers:
            refuse(buffer, f"verify-queues: no task writes the output @{name}")
        _check_covered(tasks, buffer, writers)


def _adds(family: TasksOp) -> bool:
    return family.find_kernel().accumulates(family.int_options)


def _writes_what(writer: Use, reader: Use, buffer: BufferOp) -> bool:
    """Returns whether the writer's part is written whenever the reader reads it."""
    if not _needs_rows(writer.family):
        return True  # it runs in every launch
    if _reads_all_rows(reader, buffer):
        return False
    # Both are of the rows of the launch, which are the same with the same route. Without a route
    # there are token rows even if the routing exceeds the capacity.
    route = writer.family.route
    selected = {a.rows for a in writer.family.write_accesses if a.rows is not None}
    # A task with rows of two kinds runs only if it has both.
    of_rows = writer.access.rows is not None or writer.access.scatter
    return len(selected) == 1 and of_rows and (route is None or route == reader.family.route)


def _needs_rows(family: TasksOp) -> bool:
    """Returns whether the tasks of a family do not run in launches in which they have no rows."""
    return any(access.rows is not None for access in family.write_accesses)


def _reads_all_rows(use: Use, buffer: BufferOp) -> bool:
    """Returns whether tasks read rows whether or not the launch has them."""
    content, access = buffer.content, use.access
    if isinstance(content, RouteType) or not content.rows.data:
        return True
    if access.rows is not None:
        return False
    operands = zip(use.family.read_accesses, use.family.find_kernel().reads, strict=True)
    listed = [operand.listed for read, operand in operands if read == access]
    return use.writes or any(kind != content.rows.data for kind in listed)


def _refuse_rows(tasks: QueueTasks, use: Use, buffer: BufferOp, writer: Use) -> NoReturn:
    """Refuses a read of rows that no task writes in some launches."""
    name = writer.family.sym_name.data
    read = f"verify-queues: {tasks.task_text(int(use.tasks[0]))} reads "
    read += use.text(int(use.tasks[0]), tasks)
    content = buffer.content
    if not isinstance(content, RouteType) and content.rows.data and _reads_all_rows(use, buffer):
        refuse(
            use.family,
            f"{read}, all {content.dims[0]} rows that the buffer holds, and @{name} writes only "
            f"the {content.rows.data} rows of the launch; expected {content.rows.data}(...)",
        )
    refuse(
        use.family,
        f"{read}, and @{name}, which writes {writer.family_text}, does not run if it has no rows, "
        "as when the routing exceeds the capacity",
    )


@dataclass(frozen=True)
class _Reads:
    """What some ranks read: by the tasks of a use, or by the caller, who reads all."""

    tasks: IntArray
    """The tasks, or the ranks of the callers."""
    owner: IntArray
    axes: Mapping[str, Axis]

    @classmethod
    def of(cls, reader: Use | BufferOp, ranks: range) -> _Reads:
        if isinstance(reader, Use):
            part = reader.part(ranks)
            return cls(part.tasks, part.owner, part.axes)
        callers = np.arange(ranks.start, ranks.stop, dtype=np.int64)
        return cls(callers, callers, {})


def _check_covered(tasks: QueueTasks, reader: Use | BufferOp, writers: Sequence[Use]) -> None:
    """Checks that all that a use reads is written, or all of an output, which the caller reads."""
    axes = _axes(reader, writers)
    classes = [(own, _own_axes(own, axes)) for own in _alike(writers)]
    # If all ranks are written alike, it is decided on one rank what is written.
    alike = all(writer.has_same_parts for writer in writers)
    first_only = isinstance(reader, BufferOp) or reader.is_uniform
    sizes = [prod(len(a.points) for a in (*axes, *extra)) for _, extra in classes]
    at_once = MOST_CELLS // (1 if alike else max(sizes))
    if isinstance(reader, Use):
        at_once = min(at_once, MOST_READERS // max(1, reader.family.task_count))
    for ranks in _batches(tasks.ranks, max(1, at_once)):
        of = ranks[:1] if alike else ranks
        written: Written = np.zeros((len(of), *(len(a.points) - 1 for a in axes)), dtype=np.bool_)
        for own, extra in classes:
            written |= _written([w.part(of) for w in own], [*axes, *extra], of, len(extra))
        if first_only and (written == written[:1]).all():
            ranks, written = ranks[:1], written[:1]  # all ranks are as the first one
        _check_readers(tasks, reader, axes, written, ranks, writers)
        if first_only and alike:
            return


def _batches(ranks: int, size: int) -> Iterator[range]:
    for first in range(0, ranks, size):
        yield range(first, min(first + size, ranks))


def _written(
    writers: Sequence[Use], axes: Sequence[_Cells], ranks: range, projected: int
) -> Written:
    """Returns which cells of each rank are written.

    The last `projected` axes are left out: a cell is one for which all of theirs are written.
    """
    # Counts the writers of each cell: differences at the corners of each box, then prefix sums.
    shape = (len(ranks), *(len(axis.points) for axis in axes))
    count = np.zeros(shape, dtype=np.int32)
    for writer in writers:
        boxes = [axis.box(writer.axes, len(writer.owner)) for axis in axes]
        for corner in product((0, 1), repeat=len(axes)):
            at = [box[c] for box, c in zip(boxes, corner, strict=True)]
            cell = np.ravel_multi_index((writer.owner - ranks.start, *at), shape)
            found = np.bincount(cell, minlength=count.size).reshape(shape)
            count += found if sum(corner) % 2 == 0 else -found
    for axis in range(1, count.ndim):
        np.cumsum(count, axis=axis, out=count)
    written = count[(slice(None), *[slice(-1)] * len(axes))] > 0
    return written.all(axis=tuple(range(written.ndim - projected, written.ndim)))


def _check_readers(
    tasks: QueueTasks,
    reader: Use | BufferOp,
    axes: Sequence[_Cells],
    written: Written,
    ranks: range,
    writers: Sequence[Use],
) -> None:
    """Checks that on some ranks all cells of each reader's box are written.

    `written` is of each of these ranks, or of one if they are all alike. The reader is the caller
    if it is an output.
    """
    reads = _Reads.of(reader, ranks)
    row = reads.owner - ranks.start if len(written) > 1 else np.zeros_like(reads.owner)
    boxes = [axis.box(reads.axes, len(reads.tasks)) for axis in axes]
    shape = (len(written), *(n + 1 for n in written.shape[1:]))
    sums = np.zeros(shape, dtype=np.int32)
    sums[(slice(None), *[slice(1, None)] * len(axes))] = written
    for axis in range(1, sums.ndim):
        np.cumsum(sums, axis=axis, out=sums)
    found = np.zeros(len(reads.tasks), dtype=np.int64)
    for corner in product((0, 1), repeat=len(axes)):
        at = [box[c] for box, c in zip(boxes, corner, strict=True)]
        sign = 1 - 2 * ((len(axes) - sum(corner)) % 2)
        cell = np.ravel_multi_index((row, *at), shape)
        found += sign * sums.ravel()[cell]
    wanted = np.ones(len(reads.tasks), dtype=np.int64)
    for low, high in boxes:
        wanted *= high - low
    missing = np.flatnonzero(found < wanted)
    if not missing.size:
        return
    first = int(missing[0])
    task, owner = int(reads.tasks[first]), int(reads.owner[first])
    here = written[int(row[first])]
    what = "and no task writes it on that rank"
    some_part = [w for w in writers if w.part(range(owner, owner + 1)).owner.size]
    if some_part:
        texts = " and ".join(dict.fromkeys(w.family_text for w in some_part))
        what = f"of which tasks write {texts}: not all parts of one of these cuts"
    if here.any():
        box = [(int(b[0, first]), int(b[1, first])) for b in boxes]
        cell = np.argwhere(~here[tuple(slice(*b) for b in box)])[0]
        places = [
            f"{_axis_text(axis.name)} {int(axis.points[low + offset])}"
            for axis, (low, _), offset in zip(axes, box, cell, strict=True)
        ]
        what = f"of which no task writes {' of '.join(reversed(places))}"
    if isinstance(reader, BufferOp):
        name = reader.sym_name.data
        refuse(reader, f"verify-queues: @{name} on rank {task} is an output, {what}")
    refuse(
        reader.family,
        f"verify-queues: {tasks.task_text(task)} reads {reader.text(task, tasks)}, {what}",
    )


def _axes(reader: Use | BufferOp, writers: Sequence[Use]) -> list[_Cells]:
    """Returns the axes on which writers are compared with a reader.

    An axis that writers cut in several ways is one only if the reader cuts it as some of them.
    """
    read: Mapping[str, AxisSpans] = reader.spans if isinstance(reader, Use) else {}
    spans = [*(writer.spans for writer in writers), read]
    found: list[_Cells] = []
    for name in sorted({n for w in writers for n in w.spans}):
        cuts = {w.spans[name].cut for w in writers if name in w.spans}
        mine = read.get(name)
        if len(cuts) == 1:
            found.append(_cells(name, cuts.pop(), spans))
        elif mine is not None and mine.cut in cuts:
            found.append(_cells(name, mine.cut, spans))
    return found


def _own_axes(writers: Sequence[Use], axes: Sequence[_Cells]) -> list[_Cells]:
    """Returns the axes that only these writers have, who cut all axes alike."""
    known = {(axis.name, axis.cut) for axis in axes}
    own = {(n, a.cut) for w in writers for n, a in w.spans.items()} - known
    return [_cells(name, cut, [w.spans for w in writers]) for name, cut in sorted(own)]


def _alike(writers: Sequence[Use]) -> list[list[Use]]:
    """Groups writers by how they cut rows."""
    found: dict[frozenset[tuple[str, Cut]], list[Use]] = defaultdict(list)
    for writer in writers:
        found[frozenset((n, a.cut) for n, a in writer.spans.items() if a.cut)].append(writer)
    return list(found.values())


def _cells(name: str, cut: Cut, spans: Sequence[Mapping[str, AxisSpans]]) -> _Cells:
    parts = [of[name] for of in spans if name in of and of[name].cut == cut]
    bounds = [part.spans.ravel() for part in parts]
    points = np.unique(np.concatenate([*bounds, [0, parts[0].extent]]))
    return _Cells(name, cut, points)


def _axis_text(name: str) -> str:
    if name.startswith("dim"):
        return f"dimension {name[3:]}, index"
    return {"source": "source rank", "chunk": "chunk"}.get(name, name)
