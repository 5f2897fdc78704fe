"""Capacity of buffers: every launch's rows must fit, whatever the routing.

How many rows a launch has is known at run time only, but not more than the route can deliver:
`tokens` rows as many as a launch may bring, `sent` rows K for each token, `grouped` rows up to the
capacity in the route's type, above which no rows are moved at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpmoe_ir.diagnostics import InvalidOpError
from hpmoe_ir.dialects.access import Access, RowKind, format_access
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile.buffer import BufferOp, element_bytes
from hpmoe_ir.dialects.tile.tasks import TasksOp
from hpmoe_ir.dialects.tile.types import BufferType


def verify_capacity(
    buffers: Mapping[str, BufferOp], families: Mapping[str, TasksOp], ranks: int
) -> None:
    """Checks that each buffer holds the rows that tasks access in it, for every routing.

    Raises InvalidOpError at the buffer, naming the family, the access and the bytes.
    """
    routes = {n: b.type for n, b in buffers.items() if isinstance(b.type, RouteType)}
    only = next(iter(routes.values())) if len(routes) == 1 else None
    most = _most_tokens(buffers)
    for name, route in routes.items():
        if route.ranks.data != ranks:
            raise InvalidOpError(
                buffers[name],
                f"@{name} is a route over {route.ranks.data} ranks, the program runs on {ranks}",
            )
        if most is not None and _rows(most) > route.tokens.data:
            raise InvalidOpError(
                most,
                f"@{most.sym_name.data} lets a launch bring {_rows(most)} tokens of a rank, a "
                f"route of the program holds {route.tokens.data}",
            )
    for family in families.values():
        route = only
        if family.route is not None:
            route = routes[family.route.root_reference.data]
        for access in (*family.read_accesses, *family.write_accesses):
            _verify_access(family, access, buffers[access.buffer], most, route, ranks)


def _verify_access(
    family: TasksOp,
    access: Access,
    buffer: BufferOp,
    most: BufferOp | None,
    route: RouteType | None,
    ranks: int,
) -> None:
    type = buffer.content
    if isinstance(type, RouteType) or not type.rows.data:
        return
    kind = RowKind(type.rows.data)
    needed = _needed(kind, most, route)
    if type.dims[0] >= needed:
        return
    name, text = family.sym_name.data, format_access(access, family.dim_names)
    use = "reads" if access in family.read_accesses else "writes"
    raise InvalidOpError(
        buffer,
        f"@{access.buffer} holds {type.dims[0]} {kind} rows, {_bytes(type, type.dims[0])} bytes, "
        f"and @{name} {use} {text}: up to {needed} rows, {_bytes(type, needed)} bytes, on each of "
        f"{ranks} ranks",
    )


def _most_tokens(buffers: Mapping[str, BufferOp]) -> BufferOp | None:
    """Returns the caller's buffer that limits the tokens of a launch: the one of fewest rows."""
    found = [
        b
        for b in buffers.values()
        if b.space.data.is_of_caller
        and isinstance(b.type, BufferType)
        and b.type.rows.data == RowKind.TOKENS
    ]
    return min(found, key=_rows, default=None)


def _rows(buffer: BufferOp) -> int:
    assert isinstance(buffer.type, BufferType)
    return buffer.type.dims[0]


def _needed(kind: RowKind, most: BufferOp | None, route: RouteType | None) -> int:
    """Returns the most rows of a kind that a rank can have in a launch; 0 where it is unknown."""
    match kind:
        case RowKind.TOKENS if most is not None:
            return _rows(most)
        case RowKind.TOKENS:
            return 0 if route is None else route.tokens.data
        case RowKind.SENT:
            return 0 if route is None else route.sent_rows.rows.data
        case RowKind.GROUPED:
            return 0 if route is None else route.rows.data


def _bytes(type: BufferType, rows: int) -> int:
    """Returns the bytes of a buffer of `type` with another number of rows."""
    of_row = element_bytes(type.element_type)
    for n in type.dims[1:]:
        of_row *= n
    return rows * of_row
