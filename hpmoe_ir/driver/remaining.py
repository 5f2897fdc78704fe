"""The passes of a pipeline that a module of a lower level still needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hpmoe_ir.dialects import queue, tile
from hpmoe_ir.dialects.queue import events_of
from hpmoe_ir.dialects.tile import DependenceOp, buffers_of
from hpmoe_ir.passes.allocate_events import AllocateEventsPass
from hpmoe_ir.passes.analysis.level import LEVELS, level_of
from hpmoe_ir.passes.analysis.pass_kinds import expanded, level_left
from hpmoe_ir.passes.credit_empty_puts import CreditEmptyPutsPass
from hpmoe_ir.passes.elide_dependencies import ElideDependenciesPass
from hpmoe_ir.passes.insert_dependencies import InsertDependenciesPass
from hpmoe_ir.passes.plan_memory import PlanMemoryPass

DEPENDENCE_PASSES = (InsertDependenciesPass, CreditEmptyPutsPass, ElideDependenciesPass)
"""Passes that make or change dependences."""


def remaining_passes(passes: Sequence[ModulePass], module: ModuleOp) -> tuple[ModulePass, ...]:
    """Returns the passes, expanded, that `module` has not been through yet.

    Left out are the passes above its level and, so that what it says stays as it is: those that
    make dependences if a tile program has some, `plan-memory` if all its buffers have offsets, and
    `allocate-events` if all counters of a queue program have their lines. Checks always remain.
    """
    found = level_of(module)
    level = "moe" if found is None else found[0]
    done: tuple[type[ModulePass], ...] = ()
    if level == "tile" and any(isinstance(op, DependenceOp) for op in module.walk()):
        done += DEPENDENCE_PASSES
    if level == "tile" and all(map(_is_planned, _programs(module))):
        done += (PlanMemoryPass,)
    if level == "queue" and all(map(_has_lines, _programs(module))):
        done += (AllocateEventsPass,)
    below = _below(list(expanded(passes)), level)
    return tuple(module_pass for module_pass in below if not isinstance(module_pass, done))


def _below(passes: Sequence[ModulePass], level: str) -> Sequence[ModulePass]:
    """Returns the passes after the last one that lowers from a level above `level`."""
    above = LEVELS[: LEVELS.index(level)]
    last = max((i for i, p in enumerate(passes) if level_left(p) in above), default=-1)
    return passes[last + 1 :]


def _programs(module: ModuleOp) -> Iterator[Operation]:
    return (op for op in module.ops if isinstance(op, tile.ProgramOp | queue.ProgramOp))


def _is_planned(program: Operation) -> bool:
    buffers = buffers_of(program).values()
    return all(b.space.data.is_of_caller or b.offset is not None for b in buffers)


def _has_lines(program: Operation) -> bool:
    assert isinstance(program, queue.ProgramOp)
    return program.counters is not None and all(
        event.line is not None for event in events_of(program).values()
    )
