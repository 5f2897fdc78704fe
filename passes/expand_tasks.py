"""`expand-tasks`: expands task families into single tasks, for reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineExpr,
)
from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.index import RANK, evaluate_index, flat_events
from hpmoe_ir.dialects.queue import (
    POINT_BITS,
    POINT_MASK,
    OrderOp,
    ProgramOp,
    SignalOp,
    WaitOp,
    events_of,
    signals_of,
    waits_of,
)
from hpmoe_ir.dialects.queue.task import CoreOp, EventUse, TaskOp
from hpmoe_ir.dialects.tile import TasksOp, families_of
from hpmoe_ir.passes.analysis.level import programs_at


@dataclass(frozen=True)
class ExpandTasksPass(ModulePass):
    """Replaces families and queue orders by a `queue.core` for each core that has tasks.

    Each task lists the events it waits for, with the threshold of one if that is equal on all
    ranks, its accesses, and its signals. Coordinates are substituted; the rank remains a symbol.
    The result is for reading and for tests: no pass lowers it.

    Needs a `queue.program`; refuses more tasks than `limit`.

    ```
    tile.tasks @gmm1 (e, g) in (2, 2) on aic ... reads @recv[grouped(e, g of 2), :] ...
    queue.wait @gmm1 (e, g) for @dispatch_done (e, g)
    queue.order aic { [@gmm1[0, 2]], [@gmm1[1, 3]] }
    ```
    becomes
    ```
    queue.core aic 0 {
      queue.task @gmm1 (0, 0)
        waits @dispatch_done[0, 0] count 1
        reads @recv[grouped(0, 0 of 2), :]
      ...
    ```
    """

    name = "expand-tasks"

    limit: int = 20000
    """Largest number of tasks to expand."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in programs_at(op, ProgramOp, self.name):
            families = families_of(program)
            total = sum(f.task_count for f in families.values())
            if total > self.limit:
                refuse(
                    program,
                    f"{self.name}: @{program.sym_name.data} has {total} tasks, option limit "
                    f"allows {self.limit}",
                )
            cores = [
                core
                for order in program.body.block.ops
                if isinstance(order, OrderOp)
                for core in _expand(program, order, families)
            ]
            for child in list(program.body.block.ops):
                if isinstance(child, OrderOp | TasksOp | WaitOp | SignalOp):
                    child.detach()
                    child.erase()
            program.body.block.add_ops(cores)


def _expand(program: ProgramOp, order: OrderOp, families: dict[str, TasksOp]) -> list[CoreOp]:
    names, first, slots = order.family_names, order.first_slots, order.slot_values
    cores: list[CoreOp] = []
    for number in range(order.core_count):
        tasks = [
            _task(program, families[names[slot >> POINT_BITS]], slot & POINT_MASK)
            for slot in slots[first[number] : first[number + 1]].tolist()
        ]
        if tasks:
            cores.append(CoreOp(order.core_kind, number, tasks))
    return cores


def _folded(expr: AffineExpr, ranks: int) -> AffineExpr:
    """Folds constants in an expression; `simplify` would rewrite `mod` as divisions."""
    if not isinstance(expr, AffineBinaryOpExpr):
        return expr
    lhs, rhs = _folded(expr.lhs, ranks), _folded(expr.rhs, ranks)
    folded = AffineBinaryOpExpr(expr.kind, lhs, rhs)
    if isinstance(lhs, AffineConstantExpr) and isinstance(rhs, AffineConstantExpr):
        return AffineExpr.constant(int(evaluate_index(folded, (), 0)))
    zero, one = AffineExpr.constant(0), AffineExpr.constant(1)
    match expr.kind:
        case AffineBinaryOpKind.Add if zero in (lhs, rhs):
            return lhs if rhs == zero else rhs
        case AffineBinaryOpKind.Mul if rhs == zero:
            return zero
        case AffineBinaryOpKind.Mul | AffineBinaryOpKind.FloorDiv if rhs == one:
            return lhs
        case AffineBinaryOpKind.Mod if lhs == RANK and rhs == AffineExpr.constant(ranks):
            return RANK
        case _:
            return folded


def _task(program: ProgramOp, family: TasksOp, point: int) -> TaskOp:
    extents = family.extents
    coords = [int(c) for c in np.unravel_index(point, extents)] if extents else []

    def change(expr: AffineExpr) -> AffineExpr:
        constants = [AffineExpr.constant(c) for c in coords]
        return _folded(expr.replace_dims_and_symbols(constants, [RANK]), program.ranks.value.data)

    def index(exprs: Sequence[AffineExpr]) -> tuple[AffineExpr, ...]:
        return tuple(change(e) for e in exprs)

    name = family.sym_name.data
    events = events_of(program)
    waits: list[EventUse] = []
    for wait in waits_of(program):
        if wait.family_name == name:
            event = events[wait.event_name]
            if wait.event_range is not None:
                among = wait.event_range.map_exprs(change)
                use = EventUse(wait.event_name, index(wait.index_exprs), among=among)
                waits.append(use)
                continue
            counts = {
                int(
                    event.thresholds[flat_events(wait.index_exprs, event.extents, coords, rank, 1)][
                        0
                    ]
                )
                for rank in range(program.ranks.value.data)
            }
            count = counts.pop() if len(counts) == 1 else None
            waits.append(EventUse(wait.event_name, index(wait.index_exprs), count))
    signals = [
        EventUse(
            s.event_name,
            index(s.index_exprs),
            None,
            None if s.peer_expr is None else change(s.peer_expr),
            s.credit_name,
        )
        for s in signals_of(program)
        if s.family_name == name
    ]
    return TaskOp(
        name,
        coords,
        waits,
        [r.map_exprs(change) for r in family.read_accesses],
        [r.map_exprs(change) for r in family.write_accesses],
        signals,
    )
