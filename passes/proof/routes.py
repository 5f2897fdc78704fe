"""Refuses programs whose rows are not those of one route, built once in a launch."""

from __future__ import annotations

import numpy as np

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.access import IndexSelector, WholeSelector, format_access
from hpmoe_ir.dialects.index import dims_used
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import buffers_of
from hpmoe_ir.passes.analysis.task_numbers import task_values
from hpmoe_ir.passes.proof.tasks import QueueTasks


def check_routes(tasks: QueueTasks) -> None:
    """Checks that all rows are of one route, built by one task from what all ranks have said alike.

    Accesses are compared by expert, source rank and chunk, not by rows: that two parts of a buffer
    are apart follows only if both are looked up in the same route. And ranks know where each
    other's rows are only if they count the same: each puts its own counts, the same to all ranks.
    Raises RefusedError.
    """
    routes = [b for b in buffers_of(tasks.program).values() if isinstance(b.type, RouteType)]
    if len(routes) > 1:
        names = " and ".join(f"@{b.sym_name.data}" for b in routes)
        refuse(
            routes[1],
            f"verify-queues: expected one route, found {names}: rows of two routes cannot be "
            "compared",
        )
    for route in routes:
        builders = [
            family
            for family in tasks.families
            for access in family.write_accesses
            if access.buffer == route.sym_name.data
        ]
        count = sum(family.task_count for family in builders)
        if count > 1:
            refuse(
                builders[-1],
                f"verify-queues: expected one task that builds @{route.sym_name.data} in a launch, "
                f"found {count}: rows that were looked up before are others afterwards",
            )
        for family in builders:
            for access in family.read_accesses:
                _check_counts(tasks, access.buffer)


def _check_counts(tasks: QueueTasks, counts: str) -> None:
    """Checks that each rank writes its own row of the counts, and the same for all ranks."""
    rank = np.arange(tasks.ranks, dtype=np.int64)[:, None]
    for family in tasks.families:
        for access in family.write_accesses:
            if access.buffer != counts:
                continue
            peer = set[int]() if access.peer is None else dims_used(access.peer)
            row = access.selectors[0]
            own = (
                isinstance(row, IndexSelector)
                and not (task_values(family, row.index, tasks.ranks) != rank).any()
            )
            whole = all(
                isinstance(s, WholeSelector)
                for read in family.read_accesses
                for s in read.selectors
            )
            if not own or not whole or any(peer & dims_used(s.data) for s in family.scalars):
                refuse(
                    family,
                    f"verify-queues: @{family.sym_name.data} writes "
                    f"{format_access(access, family.dim_names)}, from which a route is built: "
                    "expected row `rank`, from all of what is read, the same for all ranks",
                )
