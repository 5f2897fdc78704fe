"""Refuses programs whose rows are not those of one route, built once in a launch."""

from __future__ import annotations

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import buffers_of
from hpmoe_ir.passes.proof.tasks import QueueTasks


def check_routes(tasks: QueueTasks) -> None:
    """Checks that all rows of a program are of one route, which one task builds in a launch.

    Accesses are compared by expert, source rank and chunk, not by rows: that two parts of a buffer
    are apart follows only if both are looked up in the same route. Raises RefusedError.
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
