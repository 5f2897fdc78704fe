"""Rules that follow from the contract of a kernel and from the space of a buffer.

A kernel assumes that the tiles that it reads stay as they are while it writes others, unless its
description says otherwise (`TileOperand`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NoReturn

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.diagnostics import InvalidOpError
from hpmoe_ir.dialects.access import Access, AxisRange, RowKind, format_access
from hpmoe_ir.dialects.index import (
    MOST_POINTS,
    RANK,
    BoolArray,
    IntArray,
    evaluate_index,
    format_index,
    index_range,
    largest_part,
    uses_rank,
)
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile.buffer import BufferOp, MemorySpace
from hpmoe_ir.dialects.tile.tasks import TasksOp
from hpmoe_ir.dialects.tile.types import BufferType
from hpmoe_ir.kernels.kernel import TileOperand
from hpmoe_ir.kernels.route_layout import WORDS_PER_LINE


@dataclass(frozen=True)
class _Operand:
    """Another operand of a family in the buffer of a written one."""

    access: Access
    use: str
    """What a task does with it: `reads as 'h'`."""
    in_place: bool = False
    """Whether it may be the written tile."""


def verify_contract(
    family: TasksOp, buffers: Mapping[str, BufferOp], ranks: int, route: RouteType | None
) -> None:
    """Checks what a family writes: where it may write, and that it keeps off what it reads.

    `family` has valid accesses and uses `route`. Raises InvalidOpError at the family, naming the
    access and, for an overlap, the task and its rank.
    """
    kernel = family.find_kernel()
    for access, operand in zip(family.read_accesses, kernel.reads, strict=True):
        if access.scatter:
            _refuse(family, access, "reads", "`scatter` is of what a task writes")
        if _is_past_tokens(access, buffers[access.buffer]) and operand.listed != RowKind.TOKENS:
            _refuse(family, access, "reads", _PAST_TOKENS)
    for access, operand in zip(family.write_accesses, kernel.writes, strict=True):
        buffer = buffers[access.buffer]
        if problem := _problem(access, operand, buffer, kernel.name):
            _refuse(family, access, "writes", problem)
        _check_sender(family, access, ranks, route)
        if isinstance(buffer.content, RouteType):
            _check_built(family, access, buffer.content, buffers, ranks)
        elif kernel.accumulates(family.int_options) and buffer.content.element_type != f32:
            _refuse(family, access, "writes", f"sums are of f32 elements, found {buffer.content}")
    exprs = [scalar.data for scalar in family.scalars]
    for access in (*family.read_accesses, *family.write_accesses):
        exprs += access.exprs
    for expr in exprs:
        if problem := word_problem(expr, family.dim_names, family.extents, ranks):
            raise InvalidOpError(family, f"@{family.sym_name.data}: {problem}")
    for access, other in _same_buffer(family):
        _check_apart(family, access, other, buffers[access.buffer], ranks, route)


def word_problem(expr: AffineExpr, names: Sequence[str], extents: Sequence[int], ranks: int) -> str:
    """Returns why the device cannot compute an index expression, "" if it can.

    Generated code computes with 32 bits without a sign, also what is then divided.
    """
    largest = largest_part(expr, extents, ranks)
    if largest < 1 << 32:
        return ""
    return (
        f"{format_index(expr, names)}: expected values and intermediate values below 2^32, as "
        f"tasks compute with 32 bits, found up to {largest}"
    )


def _problem(access: Access, operand: TileOperand, buffer: BufferOp, kernel: str) -> str:
    """Returns why a kernel may not write an access, "" if it may."""
    if buffer.space.data is MemorySpace.INPUT:
        return (
            f"@{access.buffer} is an input, which tasks only read; expected an inout, output, "
            "workspace or window buffer"
        )
    if _is_past_tokens(access, buffer):
        return _PAST_TOKENS
    if isinstance(buffer.content, RouteType) and not operand.builds_route:
        return f"'{operand.name}' of kernel '{kernel}' is no route, @{access.buffer} is one"
    if access.scatter and not operand.scatter:
        return (
            f"kernel '{kernel}' writes the whole of '{operand.name}', so tasks of one family "
            "must write different parts, without `scatter`"
        )
    return ""


def _check_sender(family: TasksOp, access: Access, ranks: int, route: RouteType | None) -> None:
    """Raises InvalidOpError for a put of rows that are not those of the rank that runs it.

    Only the sender of rows and their receiver know the same rows by the same part of a buffer.
    """
    if access.peer is None or access.rows is None:
        return
    sender = access.rows.sender(ranks, 1 if route is None else route.local_experts)
    if sender is None:
        rule = access.rows.put_rule or "its receiver may have another number of rows"
        _refuse(family, access, "writes", rule)
    if sender == RANK:
        return
    if ranks * family.task_count > MOST_POINTS:
        _refuse(family, access, "writes", f"too many tasks to see their rows on {ranks} ranks")
    rank = np.arange(ranks, dtype=np.int64)[:, None]
    values = evaluate_index(sender, [c[None, :] for c in family.coordinates()], rank)
    if (np.asarray(values) != rank).any():
        _refuse(family, access, "writes", access.rows.put_rule)


def _check_built(
    family: TasksOp,
    access: Access,
    route: RouteType,
    buffers: Mapping[str, BufferOp],
    ranks: int,
) -> None:
    """Raises InvalidOpError unless a family builds its route from the counts of all ranks, for the
    rank that runs it and a capacity for which there is memory."""
    for other in family.write_accesses:
        status = buffers[other.buffer].content
        if isinstance(status, BufferType) and prod(status.dims) > WORDS_PER_LINE:
            _refuse(
                family,
                other,
                "writes",
                f"the status of a route has at most {WORDS_PER_LINE} words, found {status}",
            )
    counts = next((buffers[a.buffer].content for a in family.read_accesses), None)
    expected = (ranks, 2 * route.experts.data)
    if isinstance(counts, BufferType) and counts.dims != expected:
        text = "x".join(str(n) for n in expected)
        _refuse(
            family,
            access,
            "writes",
            f"expected counts of {text} words, two for each of {ranks} ranks and "
            f"{route.experts.data} experts, found {counts}",
        )
    scalars = zip(family.find_kernel().scalars, family.scalars, strict=True)
    given = {name: scalar.data for name, scalar in scalars}
    rank, capacity = given.get("rank", RANK), given.get("capacity", AffineExpr.constant(0))
    if rank != RANK:
        found = format_index(rank, family.dim_names)
        _refuse(family, access, "writes", f"rank: expected that of the task, found {found}")
    if index_range(capacity, family.extents, ranks)[1] > route.rows.data:
        found = format_index(capacity, family.dim_names)
        _refuse(
            family,
            access,
            "writes",
            f"capacity: expected at most {route.rows.data} rows, for which there is memory, found "
            f"{found}",
        )


_PAST_TOKENS = (
    "the caller's array has only the tokens of the launch, `:` is as many rows as it may have; "
    "expected tokens(...)"
)


def _is_past_tokens(access: Access, buffer: BufferOp) -> bool:
    """Returns whether an access is of rows that the caller's array may not have."""
    content = buffer.content
    return (
        buffer.space.data.is_of_caller
        and isinstance(content, BufferType)
        and content.rows.data == RowKind.TOKENS
        and access.rows is None
    )


def _same_buffer(family: TasksOp) -> Iterator[tuple[Access, _Operand]]:
    """Yields each write access with each other operand in its buffer."""
    kernel = family.find_kernel()
    others = [
        _Operand(access, f"reads as '{operand.name}'", operand.in_place)
        for access, operand in zip(family.read_accesses, kernel.reads, strict=True)
    ]
    if family.route is not None:
        others.append(_Operand(Access(family.route.root_reference.data, ()), "uses as its route"))
    for access, operand in zip(family.write_accesses, kernel.writes, strict=True):
        yield from ((access, other) for other in others if other.access.buffer == access.buffer)
        others.append(_Operand(access, f"writes as '{operand.name}'"))


def _check_apart(
    family: TasksOp,
    access: Access,
    other: _Operand,
    buffer: BufferOp,
    ranks: int,
    route: RouteType | None,
) -> None:
    """Raises InvalidOpError if a task can have an element in both accesses of a buffer."""
    if other.in_place and access == other.access:
        return
    different = ranks if any(map(uses_rank, (*access.exprs, *other.access.exprs))) else 1
    if different * family.task_count > MOST_POINTS:
        _refuse(
            family,
            access,
            "writes",
            f"{different * family.task_count} tasks are too many to see whether operands "
            f"overlap; expected at most {MOST_POINTS} tasks, or another buffer",
        )
    for rank in range(different):
        meet = np.flatnonzero(_meet(family, access, other.access, buffer, ranks, rank, route))
        if not meet.size:
            continue
        coordinates = ", ".join(str(int(c[meet[0]])) for c in family.coordinates())
        expected = "operands that do not overlap"
        if other.in_place:
            expected += ", or the same part for both"
        _refuse(
            family,
            access,
            "writes",
            f"task ({coordinates}) on rank {rank} {other.use} elements of {_text(family, other)} "
            f"that it writes; kernel '{family.kernel.data}' expects {expected}",
        )


def _text(family: TasksOp, operand: _Operand) -> str:
    access = operand.access
    return format_access(access, family.dim_names) if access.selectors else f"@{access.buffer}"


def _meet(
    family: TasksOp,
    access: Access,
    other: Access,
    buffer: BufferOp,
    ranks: int,
    rank: int,
    route: RouteType | None,
) -> BoolArray:
    """Returns for each task of a rank, `[tasks]`, whether its two accesses can overlap."""
    points = family.coordinates()

    def values(expr: AffineExpr) -> IntArray:
        found = np.asarray(evaluate_index(expr, points, rank), dtype=np.int64)
        return np.broadcast_to(found, (family.task_count,))

    own = AffineExpr.constant(rank)
    meet: BoolArray = values(access.peer or own) == values(other.peer or own)
    if isinstance(buffer.content, RouteType):
        return meet
    experts = 0 if route is None else route.experts.data
    dims = buffer.content.dims
    ours = {axis.name: axis for axis in access.axes(dims, ranks, experts)}
    for theirs in other.axes(dims, ranks, experts):
        mine = ours.get(theirs.name)
        if mine is None or mine.cut != theirs.cut:
            continue  # rows that are cut differently may overlap
        low, high = _spans(mine, values(mine.index))
        begin, end = _spans(theirs, values(theirs.index))
        meet = meet & (np.maximum(low, begin) < np.minimum(high, end))
    return meet


def _spans(axis: AxisRange, values: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the first element and one past the last of the range of each value, `[tasks]`."""
    distinct, inverse = np.unique(values, return_inverse=True)
    bounds = np.array([axis.bounds(int(v)) for v in distinct], dtype=np.int64)
    return bounds[inverse, 0], bounds[inverse, 1]


def _refuse(family: TasksOp, access: Access, use: str, message: str) -> NoReturn:
    text = format_access(access, family.dim_names)
    raise InvalidOpError(family, f"@{family.sym_name.data} {use} {text}: {message}")
