"""`credit-empty-puts`: empty puts send no signal; the receiving rank counts them itself."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.passes import ModulePass

from hpmoe_ir.dialects.tile import (
    BufferOp,
    DependenceOp,
    ProgramOp,
    TasksOp,
    buffers_of,
    families_of,
)
from hpmoe_ir.dialects.tile.credit import CreditError, credited_puts, gives_credit, route_of
from hpmoe_ir.passes.analysis.level import programs_at


@dataclass(frozen=True)
class CreditEmptyPutsPass(ModulePass):
    """Makes the task that builds the route signal on behalf of the empty puts to its rank.

    All ranks exchange their counts before they put rows, so a rank knows from its route which puts
    to it are empty. With `credited by`, empty puts send no signal; the task that builds the route
    adds their number to each event, once. Tasks that wait only for empty puts can start as soon as
    their rank has its route, and the links carry no signals of empty puts.

    Needs dependences (`insert-dependencies`), before `elide-dependencies` and `assign-queues`: the
    elision must know that an empty put orders nothing that it has itself waited for. Changes the
    dependences that are signalled on the rank that a put writes to, if one task on a vector core
    builds the route, each put writes rows of one source and one expert, and a rank has at most 4096
    events of the dependence. Leaves other dependences, and programs on one rank, unchanged.
    Promises the same results, with the same thresholds.

    ```
    tile.dependence @dispatch (p, e, c) -> @matmul (e, g, c, n) on @recv
      events (2, 2) from (e, rank) on p to (e, g) count 1
    ```
    becomes
    ```
    tile.dependence @dispatch (p, e, c) -> @matmul (e, g, c, n) on @recv
      events (2, 2) from (e, rank) on p to (e, g) count 1
      credited by @build_route
    ```
    """

    name = "credit-empty-puts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in programs_at(op, ProgramOp, self.name):
            families, buffers = families_of(program), buffers_of(program)
            if program.ranks.value.data == 1:
                continue
            for d in program.body.block.ops:
                if isinstance(d, DependenceOp) and (by := _crediting_family(d, families, buffers)):
                    d.credit = SymbolRefAttr(by)


def _crediting_family(
    d: DependenceOp, families: dict[str, TasksOp], buffers: dict[str, BufferOp]
) -> str | None:
    """Returns the family that can credit the empty puts of `d`; None if there is none."""
    producer = families[d.producer.root_reference.data]
    try:
        credited_puts(producer, route_of(producer, buffers), d.peer_expr, d.source_exprs, d.extents)
    except CreditError:
        return None
    assert producer.route is not None
    route = producer.route.root_reference.data
    return next((name for name, f in families.items() if gives_credit(f, route)), None)
