"""Levels of the IR, and checks that a pass gets a module at its level."""

from __future__ import annotations

from typing_extensions import TypeVar
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hpmoe_ir.diagnostics import refuse

LEVELS = ("moe", "comm", "tile", "queue")
"""The levels, from highest to lowest. A module is at the lowest level of whose dialect it has an
operation; the compute operations of `moe` remain at the `comm` level."""

RUN_LEVELS = (*LEVELS, "code")
"""Levels at which a program can be run; `code` is the generated code."""

MADE_BY = {
    "moe": "a front end",
    "comm": "convert-moe-to-comm",
    "tile": "convert-comm-to-tile",
    "queue": "assign-queues",
}
"""The pass that lowers a module to each level."""

ProgramT = TypeVar("ProgramT", bound=Operation)


def level_of(module: Operation) -> tuple[str, Operation] | None:
    """Returns the level of a module or function and the first operation of that level.

    Returns None if it has no operation of any level.
    """
    first: dict[str, Operation] = {}
    for op in module.walk():
        first.setdefault(op.name.split(".")[0], op)
    for level in reversed(LEVELS):
        if level in first:
            return level, first[level]
    return None


def require_level(module: ModuleOp, level: str, pass_name: str) -> None:
    """Refuses a module that is not at `level`; names an operation and the missing pass."""
    found = level_of(module)
    if found is None:
        refuse(
            module,
            f"{pass_name}: expected IR at the {level} level, made by {MADE_BY[level]}; found no "
            f"operation of {', '.join(LEVELS)}",
        )
    if found[0] == level:
        return
    actual, op = found
    if LEVELS.index(actual) < LEVELS.index(level):
        advice = f"run {MADE_BY[level]} before it"
    elif MADE_BY[actual] == pass_name:
        advice = "it has run already"
    else:
        advice = f"{pass_name} comes before {MADE_BY[actual]}"
    refuse(
        op,
        f"{pass_name}: expected IR at the {level} level, found {op.name} of the {actual} level; "
        f"{advice}",
    )


def programs_at(module: ModuleOp, kind: type[ProgramT], pass_name: str) -> list[ProgramT]:
    """Returns the programs of a module; refuses a module that is not at their level."""
    require_level(module, kind.name.split(".")[0], pass_name)
    return [op for op in module.ops if isinstance(op, kind)]
