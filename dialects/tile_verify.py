"""Checks of a whole program that no single op of it can make."""

from __future__ import annotations

from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.region import (
    Block,
    GroupedRows,
    Point,
    SentRows,
    TokenRows,
    Whole,
    format_region,
)
from hpmoe_ir.dialects.tile_buffer import BufferOp
from hpmoe_ir.dialects.tile_tasks import TasksOp
from hpmoe_ir.dialects.tile_types import BufferType

_ROWS_OF_SELECTOR = {GroupedRows: "grouped", SentRows: "sent", TokenRows: "tokens"}
"""Kind of rows that each dynamic selector is for."""


def verify_program(buffers: dict[str, BufferOp], families: dict[str, TasksOp], ranks: int) -> None:
    """Checks every family's regions against the buffers of the program.

    Raises VerifyException naming the family, the region and the rule.
    """
    if ranks <= 0:
        raise VerifyException(f"a program runs on at least one rank, found {ranks}")
    for family in families.values():
        _verify_family(family, buffers, ranks)


def _verify_family(family: TasksOp, buffers: dict[str, BufferOp], ranks: int) -> None:
    name = family.sym_name.data
    if family.route is not None:
        route = buffers.get(family.route.root_reference.data)
        if route is None or not isinstance(route.type, RouteType):
            raise VerifyException(
                f"@{name} uses @{family.route.root_reference.data}, which is no buffer of a route"
            )
    for region in (*family.read_regions, *family.write_regions):
        text = format_region(region, family.dim_names)
        where = f"@{name}: {text}"
        buffer = buffers.get(region.buffer)
        if buffer is None:
            known = ", ".join(f"@{b}" for b in buffers)
            raise VerifyException(f"{where}: no such buffer, known: {known}")
        if region.peer is not None and buffer.space.data != "window":
            raise VerifyException(
                f"{where}: another rank's memory is reached through a window, "
                f"@{region.buffer} is {buffer.space.data}"
            )
        if isinstance(buffer.type, RouteType):
            if region.selectors != (Whole(),):
                raise VerifyException(f"{where}: a route is read and written as a whole, by [:]")
            continue
        type = buffer.type
        if not isinstance(type, BufferType):
            continue
        if len(region.selectors) != len(type.dims):
            raise VerifyException(
                f"{where}: {len(region.selectors)} selectors for a buffer of "
                f"{len(type.dims)} dimensions"
            )
        for i, selector in enumerate(region.selectors):
            dynamic = isinstance(selector, GroupedRows | SentRows | TokenRows)
            if dynamic and (i or _ROWS_OF_SELECTOR[selector.__class__] != type.rows.data):
                raise VerifyException(
                    f"{where}: dimension {i} of {type} does not have rows of that kind"
                )
            if i == 0 and type.rows.data and isinstance(selector, Point | Block):
                raise VerifyException(
                    f"{where}: dimension 0 has {type.rows.data} rows, select them by "
                    f"{type.rows.data}(...) or :"
                )
            if isinstance(selector, GroupedRows) and selector.groups > ranks:
                raise VerifyException(f"{where}: {selector.groups} source groups of {ranks} ranks")
            if dynamic and family.route is None and not isinstance(selector, TokenRows):
                raise VerifyException(f"{where}: rows of the route need `using` a route")
