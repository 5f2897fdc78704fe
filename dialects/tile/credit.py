"""Credits: empty puts send no signal; the receiving rank adds the missing signals itself.

Every rank has the token counts of all ranks, so it knows from its own route which of the puts to it
are empty. `credited by @build_route` on a signal, or on the dependence that it comes from, means
that a task without rows does not signal, and that @build_route on the event's rank adds one signal
for each such task. So every event receives exactly its threshold of signals in a launch, whatever
the routing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import FlatSymbolRefAttr, SymbolRefAttr
from xdsl.ir.affine import AffineExpr
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.access import RowQuery, format_access
from hpmoe_ir.dialects.index import (
    MOST_POINTS,
    IntArray,
    dims_used,
    evaluate_index,
    format_index,
)
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile.buffer import BufferOp
from hpmoe_ir.dialects.tile.tasks import TasksOp
from hpmoe_ir.machines.core_kind import CoreKind

MOST_CREDITED_EVENTS = 4096
"""Most events of a credited family: the device keeps a data block in local memory for each."""


class CreditError(VerifyException):
    """Puts that cannot be credited; the message says why."""


@dataclass(frozen=True)
class CreditedPuts:
    """Puts that the receiving rank can recognize as empty from its own route."""

    peer_dim: int
    """The coordinate that selects the destination rank of a put, one value for each rank."""
    rows: RowQuery
    """The receiver's query of its own route for the rows of a put, over the coordinates and the
    rank of the put."""


def credited_puts(
    family: TasksOp,
    route: RouteType | None,
    peer: AffineExpr | None,
    index: Sequence[AffineExpr],
    extents: Sequence[int],
) -> CreditedPuts:
    """Returns how receivers recognize the empty puts of a family, which signal `index` on `peer`.

    `extents` are those of the family of events. Raises CreditError if receivers cannot know which
    puts are empty, or if there are too many events.
    """
    if route is None or family.route is None:
        raise CreditError("its tasks use no route, so they always have rows")
    if peer is None or family.target_peer is None:
        raise CreditError("its tasks signal their own rank; only puts are credited")
    accesses = [a for a in family.write_accesses if a.rows is not None]
    found = {a.rows for a in accesses}
    rows = accesses[0].rows if len(found) == 1 else None
    if rows is None or not rows.needs_route:
        raise CreditError("its tasks do not put rows of one expert")
    text = format_access(accesses[0], family.dim_names)
    names = family.dim_names
    if family.target_peer != peer:
        raise CreditError(
            f"its tasks put rows on {format_index(family.target_peer, names)} and signal on "
            f"{format_index(peer, names)}: the receiver counts only what it receives"
        )
    ranks = route.ranks.data
    dim = _peer_dim(family, peer, ranks)
    sender = rows.sender(ranks, route.local_experts)
    if sender is None or not _is_rank(family, sender, ranks):
        raise CreditError(f"{text}: {rows.put_rule}")
    for expr in (*index, *rows.exprs):
        if dim in dims_used(expr):
            raise CreditError(
                f"{format_index(expr, names)} depends on {names[dim]}, by which puts differ in "
                "their peer alone"
            )
    if prod(extents) > MOST_CREDITED_EVENTS:
        raise CreditError(
            f"{prod(extents)} events of one family, at most {MOST_CREDITED_EVENTS} are credited"
        )
    return CreditedPuts(dim, rows.query(None))


def _peer_dim(family: TasksOp, peer: AffineExpr, ranks: int) -> int:
    """Returns the coordinate that selects the peer, with one value for each peer on each rank."""
    names = family.dim_names
    used = sorted(dims_used(peer))
    if len(used) == 1 and family.extents[used[0]] == ranks:
        values = np.arange(ranks, dtype=np.int64)
        point: list[IntArray | int] = [0] * len(names)
        point[used[0]] = values[None, :]
        peers = np.broadcast_to(evaluate_index(peer, point, values[:, None]), (ranks, ranks))
        if (np.sort(peers, axis=1) == values).all():
            return used[0]
    raise CreditError(
        f"the peer {format_index(peer, names)} must take each rank once over one coordinate"
    )


def _is_rank(family: TasksOp, expr: AffineExpr, ranks: int) -> bool:
    """Returns whether `expr` equals the rank of the task at each grid point."""
    used = sorted(dims_used(expr))
    axes = np.indices([family.extents[d] for d in used], dtype=np.int64)
    point: list[IntArray | int] = [0] * len(family.extents)
    for d, values in zip(used, axes, strict=True):
        point[d] = values[..., None]
    step = max(1, MOST_POINTS // max(1, axes[0].size if used else 1))
    for first in range(0, ranks, step):
        rank = np.arange(first, min(first + step, ranks), dtype=np.int64)
        if np.any(np.not_equal(evaluate_index(expr, point, rank), rank)):
            return False
    return True


def verify_credit(
    credit: str,
    family: TasksOp,
    families: Mapping[str, TasksOp],
    buffers: Mapping[str, BufferOp],
    peer: AffineExpr | None,
    index: Sequence[AffineExpr],
    extents: Sequence[int],
) -> None:
    """Checks that puts can be credited, and that the named family can credit them.

    Raises VerifyException naming the family of puts and the broken rule.
    """
    name = family.sym_name.data
    where = f"@{name} credited by @{credit}"
    try:
        credited_puts(family, route_of(family, buffers), peer, index, extents)
    except CreditError as e:
        raise VerifyException(f"{where}: {e}") from e
    by = families.get(credit)
    if by is None:
        raise VerifyException(f"{where}: no family of tasks @{credit}")
    assert family.route is not None
    route = family.route.root_reference.data
    if not gives_credit(by, route):
        raise VerifyException(
            f"{where}: expected one task on aiv that writes @{route}, found {by.task_count} on "
            f"{by.core_kind} that {'writes' if writes(by, route) else 'does not write'} it"
        )


def route_of(family: TasksOp, buffers: Mapping[str, BufferOp]) -> RouteType | None:
    """Returns the type of the route that a family uses, None without one."""
    buffer = None if family.route is None else buffers.get(family.route.root_reference.data)
    type = None if buffer is None else buffer.type
    return type if isinstance(type, RouteType) else None


def writes(family: TasksOp, buffer: str) -> bool:
    """Returns whether a family writes a buffer of its own rank."""
    return any(r.buffer == buffer and r.peer is None for r in family.write_accesses)


def gives_credit(family: TasksOp, route: str) -> bool:
    """Returns whether a family can credit the empty puts of a route: one task that builds it."""
    return family.core_kind is CoreKind.AIV and family.task_count == 1 and writes(family, route)


def parse_credit(parser: AttrParser) -> FlatSymbolRefAttr | None:
    """Parses the optional `credited by @build_route`."""
    if parser.parse_optional_keyword("credited") is None:
        return None
    parser.parse_keyword("by")
    return SymbolRefAttr(parser.parse_symbol_name())


def credit_text(credit: FlatSymbolRefAttr) -> str:
    """Returns the text of a credit; `parse_credit` reads it back."""
    return f"credited by @{credit.root_reference.data}"
