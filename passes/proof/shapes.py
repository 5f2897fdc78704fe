"""Refuses tasks whose tiles do not have the shapes that their kernel expects.

A kernel stops the core if its operands are inconsistent. The number of rows of a tile is known at
run time only, but two tiles have equally many if they are looked up by the same query of the same
route, which is decided from the accesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.access import (
    Access,
    IndexSelector,
    RowSegment,
    RowSelector,
    StaticSelector,
    TileExpert,
    WholeSelector,
    format_access,
)
from hpmoe_ir.dialects.index import RANK, IntArray, format_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import TasksOp, buffers_of
from hpmoe_ir.dialects.tile.credit import route_of
from hpmoe_ir.kernels.kernel import TileOperand
from hpmoe_ir.passes.analysis.task_numbers import distinct_values
from hpmoe_ir.passes.proof.tasks import QueueTasks

DIMENSION = re.compile(r"(?P<factor>\d*)(?P<name>[a-z]\w*)(%(?P<multiple>\d+))?")
"""One extent of `TileOperand.shape`."""


@dataclass(frozen=True)
class _Rows:
    """A number of rows that the route has."""

    query: tuple[str | int, ...]
    """Kind of rows, source groups, number of chunks and alignment; of tiles, how they are cut."""
    operands: tuple[AffineExpr, ...]


@dataclass(frozen=True)
class _Columns:
    """A static number of elements of each task."""

    selector: StaticSelector
    extent: int
    """Length of the whole dimension."""


_Extent: TypeAlias = _Rows | _Columns


@dataclass(frozen=True)
class _Known:
    """Where the extent of a name was found first, and by which factor it is larger there."""

    extent: _Extent
    factor: int
    text: str


def check_shapes(tasks: QueueTasks) -> None:
    """Checks the tiles of all families against the shapes of their kernels' operands.

    Raises RefusedError naming the family, two operands and their extents.
    """
    for family in tasks.families:
        _check_top(tasks, family)
        known: dict[str, _Known] = {}
        for access, operand in _operands(family):
            if operand.listed:
                _check_listed(tasks, family, access, operand)
            extents = _extents(tasks, family, access)
            names = operand.shape.split()
            if not names or extents is None:
                continue
            if operand.transposed_by and family.int_options.get(operand.transposed_by):
                names = names[::-1]
            # A tile of one dimension is one row.
            if len(extents) == len(names) - 1:
                extents.insert(0, _Columns(WholeSelector(), 1))
            text = f"'{operand.name}' {format_access(access, family.dim_names)}"
            if len(names) != len(extents):
                _refuse(
                    family,
                    f"expected {len(names)} dimensions of {text}, found {len(extents)}",
                )
            for name, extent in zip(names, extents, strict=True):
                _check(tasks, family, known, name, extent, text)


def _check_top(tasks: QueueTasks, family: TasksOp) -> None:
    """Checks the number of experts of a token, by which a kernel finds the token of a pair."""
    route = route_of(family, buffers_of(tasks.program))
    scalars = zip(family.find_kernel().scalars, family.scalars, strict=True)
    given = {name: scalar.data for name, scalar in scalars}
    if route is None or "top_k" not in given:
        return
    if given["top_k"] != AffineExpr.constant(route.top.data):
        found = format_index(given["top_k"], family.dim_names)
        _refuse(family, f"expected top_k to be {route.top.data} as in its route, found {found}")


def _check_listed(tasks: QueueTasks, family: TasksOp, access: Access, operand: TileOperand) -> None:
    """Checks that a tile has all rows that another operand may list."""
    content = buffers_of(tasks.program)[access.buffer].content
    rows = None if isinstance(content, RouteType) else content.rows.data
    if rows != operand.listed or not isinstance(access.selectors[0], WholeSelector):
        _refuse(
            family,
            f"expected all {operand.listed} rows of '{operand.name}', `:`, of which others list "
            f"some, found {format_access(access, family.dim_names)} of {content}",
        )


def _operands(family: TasksOp) -> Iterator[tuple[Access, TileOperand]]:
    kernel = family.find_kernel()
    yield from zip(family.read_accesses, kernel.reads, strict=True)
    yield from zip(family.write_accesses, kernel.writes, strict=True)


def _extents(tasks: QueueTasks, family: TasksOp, access: Access) -> list[_Extent] | None:
    """Returns the extents of a tile, without the dimensions that an index selects; None for a
    route, which has no shape."""
    buffers = buffers_of(tasks.program)
    content = buffers[access.buffer].content
    if isinstance(content, RouteType):
        return None
    route = route_of(family, buffers)
    found: list[_Extent] = []
    for selector, extent in zip(access.selectors, content.dims, strict=True):
        match selector:
            case IndexSelector() | TileExpert():
                continue
            case StaticSelector():
                found.append(_Columns(selector, extent))
            case RowSelector():
                found.append(_rows(selector, access.peer, route, tasks.ranks))
            case _:
                raise AssertionError(f"not a selector: {selector}")
    return found


def _rows(
    selector: RowSelector, peer: AffineExpr | None, route: RouteType | None, ranks: int
) -> _Rows:
    """Returns the number of rows of a selector in a form that is equal for equal numbers."""
    query = selector.query(peer)
    local = 1 if route is None else route.local_experts
    segment, operands, groups = query.segment, query.operands, query.groups
    match segment, operands:
        case RowSegment.DEST, (p, e):
            segment, operands = RowSegment.SENT, (p * local + e,)
        case RowSegment.GROUPED, (e, g):
            operands = (RANK * local + e, g)
        case RowSegment.RETURN, _:
            segment, groups = RowSegment.GROUPED, ranks
        case _:
            pass
    chunk = query.chunk
    if query.cut is not None:
        return _Rows((segment, query.cut.count, query.cut.rows), (RANK, *operands))
    return _Rows((segment, groups, chunk.count, chunk.align), (*operands, chunk.index))


def _check(
    tasks: QueueTasks,
    family: TasksOp,
    known: dict[str, _Known],
    name: str,
    extent: _Extent,
    text: str,
) -> None:
    dimension = DIMENSION.fullmatch(name)
    assert dimension is not None, f"no extent of a shape: {name}"
    factor, multiple = int(dimension["factor"] or 1), int(dimension["multiple"] or 1)
    if isinstance(extent, _Columns):
        sizes = _sizes(tasks, family, extent)
        wrong = sizes[sizes % (factor * multiple) != 0]
        if wrong.size:
            _refuse(
                family,
                f"expected a multiple of {factor * multiple} elements of {text}, found "
                f"{int(wrong[0])}",
            )
    first = known.setdefault(dimension["name"], _Known(extent, factor, text))
    if first.text == text:
        return
    one, other = first.extent, extent
    if isinstance(one, _Rows) and isinstance(other, _Rows):
        if not _same_rows(tasks, family, one, other):
            _refuse(family, f"expected as many rows of {text} as of {first.text}")
    elif isinstance(one, _Columns) and isinstance(other, _Columns):
        a, b = _sizes(tasks, family, one), _sizes(tasks, family, other)
        both = np.broadcast_arrays(a * factor // first.factor, b)
        expected, found = (sizes.ravel() for sizes in both)
        wrong = np.flatnonzero(expected != found)
        if wrong.size:
            at = int(wrong[0])
            _refuse(
                family,
                f"expected {int(expected[at])} elements of {text}, to fit those of {first.text}, "
                f"found {int(found[at])}",
            )
    else:
        dynamic, static = (text, first.text) if isinstance(other, _Rows) else (first.text, text)
        _refuse(
            family,
            f"expected as many rows of {static} as of {dynamic}, which are known at run time only",
        )


def _sizes(tasks: QueueTasks, family: TasksOp, columns: _Columns) -> IntArray:
    """Returns [ranks, points] the number of elements of each task; an extent is 1 if all ranks, or
    all tasks of a rank, have the same."""
    if not columns.selector.exprs:
        begin, end = columns.selector.bounds(lambda _: 0, columns.extent)
        return np.array([[end - begin]], dtype=np.int64)
    (expr,) = columns.selector.exprs
    found = distinct_values(family, expr, tasks.ranks)
    values, inverse = np.unique(found, return_inverse=True)
    spans = [columns.selector.bounds(lambda _, v=v: int(v), columns.extent) for v in values]
    return np.array([end - begin for begin, end in spans])[inverse.reshape(found.shape)]


def _same_rows(tasks: QueueTasks, family: TasksOp, one: _Rows, other: _Rows) -> bool:
    if one.query != other.query:
        return False
    pairs = zip(one.operands, other.operands, strict=True)
    return all(
        a == b
        or bool(
            (
                distinct_values(family, a, tasks.ranks) == distinct_values(family, b, tasks.ranks)
            ).all()
        )
        for a, b in pairs
    )


def _refuse(family: TasksOp, message: str) -> NoReturn:
    refuse(
        family,
        f"verify-queues: @{family.sym_name.data}, kernel '{family.kernel.data}': {message}",
    )
