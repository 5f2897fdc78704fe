"""What a wait for a range of events orders: the tasks of the parts or tiles with rows of its own.

Which parts have rows of a tile, and which tiles have rows of a part, the route says, and a range is
computed from the same route as the rows (`hpmoe_ir.dialects.access.event_range`). So of two
accesses by a part and by a tile that have a row in common, the event of the first is in the range
of the second. If they have none, nothing needs to be ordered.
"""

from __future__ import annotations

import numpy as np

from hpmoe_ir.dialects.access import join_rows
from hpmoe_ir.dialects.index import BoolArray, IntArray
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import buffers_of
from hpmoe_ir.dialects.tile.credit import route_of
from hpmoe_ir.passes.analysis.task_numbers import task_values
from hpmoe_ir.passes.analysis.task_uses import Meeting, Use
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks, RangeWait


def ordered_by_range(tasks: QueueTasks, met: Meeting) -> BoolArray:
    """Returns [groups]: whether a range orders the second tasks of a group after the first ones.

    The first tasks are those of the family that comes first in the program, which write or read
    the rows by a part and signal events on the second tasks' rank, or the other way round.
    """
    groups = np.zeros(met.groups, dtype=bool)
    first, second = met.first, met.second
    route = route_of(second.family, buffers_of(tasks.program))
    if met.whole or second.access.peer is not None or route is None:
        return groups
    for wait in tasks.ranges:
        if wait.op.family_name == second.family.sym_name.data:
            groups |= _ordered(tasks, met, first, second, wait, route)
    return groups


def _ordered(
    tasks: QueueTasks, met: Meeting, first: Use, second: Use, wait: RangeWait, route: RouteType
) -> BoolArray:
    join = join_rows(first.access.rows, second.access.rows, tasks.ranks, route.local_experts)
    none = np.zeros(met.groups, dtype=bool)
    if join is None or join.range != wait.op.event_range:
        return none
    # Each of the first tasks must signal the event of its own rows, on the rank of these rows.
    size = int(np.prod(wait.event.extents[join.range.dims :], dtype=np.int64))
    leading = np.zeros((tasks.ranks, first.family.task_count), dtype=np.int64)
    for expr, extent in zip(join.source, join.extents, strict=True):
        leading = leading * extent + task_values(first.family, expr, tasks.ranks)
    begin = tasks.first_event[wait.op.event_name]
    at = _place(tasks, first)
    base = first.owner * tasks.events_per_rank + begin + leading[at] * size
    signals = tasks.signals[first.tasks]
    own = (signals != NONE) & (signals >= base[:, None]) & (signals < base[:, None] + size)
    last = np.where(own, signals - base[:, None], NONE).max(axis=1, initial=NONE)
    # Those that meet differ from each other in the rows only: they agree in the last coordinates.
    lowest, highest = _limits(met.first_group, last, met.groups)
    other = _limits(met.second_group, wait.last[_place(tasks, second)], met.groups)
    return (lowest == highest) & (lowest == other[0]) & (lowest == other[1]) & (lowest != NONE)


def _place(tasks: QueueTasks, use: Use) -> tuple[IntArray, IntArray]:
    """Returns the rank and the grid point of each task of a use."""
    point = use.tasks % tasks.per_rank - tasks.first[use.family.sym_name.data]
    return use.tasks // tasks.per_rank, point


def _limits(groups: IntArray, values: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Returns the lowest and the highest value of each group."""
    lowest = np.full(count, np.iinfo(np.int64).max)
    highest = np.full(count, NONE)
    np.minimum.at(lowest, groups, values)
    np.maximum.at(highest, groups, values)
    return lowest, highest
