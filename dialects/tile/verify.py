"""Verification of a whole program: the rules that concern several ops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir.affine import AffineExpr
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    EventRange,
    RowSelector,
    TileExpert,
    WholeSelector,
    format_access,
)
from hpmoe_ir.dialects.index import dims_used, format_index, index_range
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile.buffer import BufferOp, MemorySpace
from hpmoe_ir.dialects.tile.capacity import verify_capacity
from hpmoe_ir.dialects.tile.contract import verify_contract, word_problem
from hpmoe_ir.dialects.tile.credit import route_of, verify_credit
from hpmoe_ir.dialects.tile.dependence import DependenceOp
from hpmoe_ir.dialects.tile.tasks import TasksOp
from hpmoe_ir.dialects.tile.types import BufferType


def verify_program(
    buffers: dict[str, BufferOp],
    families: dict[str, TasksOp],
    ranks: int,
    dependences: Iterable[DependenceOp] = (),
) -> None:
    """Checks every family's accesses against the buffers of the program, and the dependences.

    Raises VerifyException naming the family, the access and the rule.
    """
    if ranks <= 0:
        raise VerifyException(f"a program runs on at least one rank, found {ranks}")
    for family in families.values():
        _verify_family(family, buffers, ranks)
    for dependence in dependences:
        _verify_dependence(dependence, buffers, families, ranks)


def verify_memory(buffers: dict[str, BufferOp], families: dict[str, TasksOp], ranks: int) -> None:
    """Checks that the tasks of a verified program keep to their kernels' contracts, and that what
    they access is as large as any routing needs.

    Raises InvalidOpError at the family or the buffer at fault.
    """
    for family in families.values():
        verify_contract(family, buffers, ranks, route_of(family, buffers))
    verify_capacity(buffers, families, ranks)


def _verify_family(family: TasksOp, buffers: dict[str, BufferOp], ranks: int) -> None:
    name = family.sym_name.data
    route = None
    if family.route is not None:
        buffer = buffers.get(family.route.root_reference.data)
        if buffer is None or not isinstance(buffer.type, RouteType):
            raise VerifyException(
                f"@{name} uses @{family.route.root_reference.data}, which is no buffer of a route"
            )
        route = buffer.type
    for access in (*family.read_accesses, *family.write_accesses):
        text = format_access(access, family.dim_names)
        where = f"@{name}: {text}"
        buffer = buffers.get(access.buffer)
        if buffer is None:
            known = ", ".join(f"@{b}" for b in buffers)
            raise VerifyException(f"{where}: no such buffer, known: {known}")
        if access.peer is not None and buffer.space.data is not MemorySpace.WINDOW:
            raise VerifyException(
                f"{where}: another rank's memory is reached through a window, "
                f"@{access.buffer} is {buffer.space.data}"
            )
        if isinstance(buffer.content, RouteType):
            if access.selectors != (WholeSelector(),):
                raise VerifyException(f"{where}: a route is read and written as a whole, by [:]")
        else:
            _verify_selectors(where, access, buffer.content, ranks, route)
            _verify_ranges(where, family, access, buffer.content, ranks, route)


def _verify_selectors(
    where: str, access: Access, type: BufferType, ranks: int, route: RouteType | None
) -> None:
    """Checks that an access has a selector of the right kind for each dimension."""
    if len(access.selectors) != len(type.dims):
        raise VerifyException(
            f"{where}: {len(access.selectors)} selectors for a buffer of "
            f"{len(type.dims)} dimensions"
        )
    for i, selector in enumerate(access.selectors):
        if (
            i == 0
            and type.rows.data
            and (selector.drops_dimension or isinstance(selector, BlockSelector))
        ):
            raise VerifyException(
                f"{where}: dimension 0 has {type.rows.data} rows, select them by "
                f"{type.rows.data}(...) or :"
            )
        if isinstance(selector, TileExpert):
            _verify_tile_expert(where, i, selector, type, route)
        if not isinstance(selector, RowSelector):
            continue
        if i or selector.kind != type.rows.data:
            raise VerifyException(
                f"{where}: dimension {i} of {type} does not have rows of that kind"
            )
        if problem := selector.problem(ranks, 0 if route is None else route.local_experts):
            raise VerifyException(f"{where}: {problem}")
        if selector.needs_route and route is None:
            raise VerifyException(f"{where}: rows of the route need `using` a route")


def _verify_tile_expert(
    where: str, dim: int, selector: TileExpert, type: BufferType, route: RouteType | None
) -> None:
    """Checks that a selector of a tile's expert is of a dimension of local experts."""
    if route is None:
        raise VerifyException(f"{where}: the expert of a tile needs `using` a route")
    if type.dims[dim] != route.local_experts:
        raise VerifyException(
            f"{where}: dimension {dim} of {type}: expected the {route.local_experts} experts of a "
            "rank"
        )
    if problem := selector.cut.problem(route.local_experts):
        raise VerifyException(f"{where}: {problem}")


def _verify_ranges(
    where: str,
    family: TasksOp,
    access: Access,
    type: BufferType,
    ranks: int,
    route: RouteType | None,
) -> None:
    """Checks that every index is in its range, on all ranks and at all grid points."""

    experts = 0 if route is None else route.experts.data
    limits = [(axis.index, axis.count) for axis in access.axes(type.dims, ranks, experts)]
    limits += [(s.index, s.cut.count) for s in access.selectors if isinstance(s, TileExpert)]
    if access.peer is not None:
        limits.append((access.peer, ranks))
    for expr, count in limits:
        low, high = index_range(expr, family.extents, ranks)
        if low < 0 or high >= count:
            raise VerifyException(
                f"{where}: {format_index(expr, family.dim_names)} is {low} to {high}, expected 0 "
                f"to {count - 1}"
            )


def _verify_dependence(
    d: DependenceOp, buffers: dict[str, BufferOp], families: dict[str, TasksOp], ranks: int
) -> None:
    producer, consumer = d.producer.root_reference.data, d.consumer.root_reference.data
    where = f"@{producer} -> @{consumer}"
    for buffer in d.buffers:
        if buffer.root_reference.data not in buffers:
            raise VerifyException(f"{where}: no such buffer @{buffer.root_reference.data}")
    for name, dims, exprs, extents in (
        (producer, d.producer_dims, d.source_exprs, d.extents),
        (consumer, d.consumer_dims, d.target_exprs, d.joined_extents),
    ):
        family = families.get(name)
        if family is None:
            raise VerifyException(f"{where}: no family of tasks @{name}")
        if len(dims) != len(family.dims):
            raise VerifyException(
                f"{where}: @{name} has {len(family.dims)} coordinates, found {len(dims)}"
            )
        verify_event_index(f"{where}: @{name}", exprs, extents, family, dims, ranks)
    if d.event_range is not None:
        route = route_of(families[consumer], buffers)
        verify_event_range(
            f"{where}: @{consumer}", d.event_range, d.extents, families[consumer], route, ranks
        )
    if d.peer_expr is not None:
        verify_peer(f"{where}: @{producer}", d.peer_expr, families[producer], ranks)
    if d.credit_name is not None:
        verify_credit(
            d.credit_name,
            families[producer],
            families,
            buffers,
            d.peer_expr,
            d.source_exprs,
            d.extents,
        )


def verify_event_index(
    where: str,
    exprs: Sequence[AffineExpr],
    extents: Sequence[int],
    family: TasksOp,
    dims: ArrayAttr[StringAttr],
    ranks: int,
) -> None:
    """Checks that each coordinate of an event is in its extent; raises VerifyException."""
    names = [n.data for n in dims]
    for expr, extent in zip(exprs, extents, strict=True):
        low, high = index_range(expr, family.extents, ranks)
        if low < 0 or high >= extent:
            raise VerifyException(
                f"{where}: event coordinate {format_index(expr, names)} is {low} to {high}, "
                f"expected 0 to {extent - 1}"
            )
        if problem := word_problem(expr, names, family.extents, ranks):
            raise VerifyException(f"{where}: {problem}")


def verify_event_range(
    where: str,
    range: EventRange,
    extents: Sequence[int],
    family: TasksOp,
    route: RouteType | None,
    ranks: int,
) -> None:
    """Checks that a family that uses `route` can wait for a range of events of `extents`.

    Raises VerifyException.
    """
    names = family.dim_names
    text = range.text(names)
    if route is None:
        raise VerifyException(f"{where}: {text}: a range of events needs `using` a route")
    if problem := range.cut.problem(route.local_experts):
        raise VerifyException(f"{where}: {text}: {problem}")
    found, expected = tuple(extents[: range.dims]), range.extents(route)
    if found != expected:
        raise VerifyException(f"{where}: {text}: expected events {expected}, found {found}")
    for expr, count in range.limits:
        count = route.local_experts if count is None else count
        verify_event_index(where, (expr,), (count,), family, family.dims, ranks)


def verify_peer(where: str, peer: AffineExpr, family: TasksOp, ranks: int) -> None:
    """Checks that a peer is one of the ranks; raises VerifyException."""
    used = dims_used(peer)
    if used and max(used) >= len(family.dims):
        raise VerifyException(f"{where}: the rank uses a coordinate the family does not have")
    low, high = index_range(peer, family.extents, ranks)
    if low < 0 or high >= ranks:
        raise VerifyException(
            f"{where}: rank {format_index(peer, family.dim_names)} is {low} to {high}, expected 0 "
            f"to {ranks - 1}"
        )
    if problem := word_problem(peer, family.dim_names, family.extents, ranks):
        raise VerifyException(f"{where}: {problem}")
