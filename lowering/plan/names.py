"""Names of the IR that become names in C++."""

from __future__ import annotations

import re

from xdsl.ir import Operation

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.symbol_names import CPP_KEYWORDS, GENERATED_TYPES, is_reserved
from hpmoe_ir.lowering.plan.c_names import is_c_name

TASK_LOCALS = frozenset({"env", "args", "point", "peer", "route"})
"""Variables of a family's function, other than coordinates, row ranges and tiles."""

CREDIT_LOCALS = frozenset({"env", "source", "rows", "chunks", "align", "empty", "credit"})
"""Variables of a credit's function, other than coordinates and their ends."""

MOST_CHARACTERS = 128
"""Longest name of a kernel, which is part of file names."""


def check_cpp_name(
    op: Operation, name: str, target: str, taken: frozenset[str] = frozenset()
) -> None:
    """Raises RefusedError if the name of `op` is not valid in C++ or is in `taken`."""
    if name in taken or name in GENERATED_TYPES:
        refuse(op, f"target {target}: the generated code has a '{name}' of its own, rename it")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in CPP_KEYWORDS:
        refuse(
            op,
            f"target {target}: the name becomes one in C++: expected an identifier that is no "
            f"keyword, found '{name}'",
        )
    if is_reserved(name):
        refuse(
            op,
            f"target {target}: the name becomes one in C++, where '{name}' is taken or reserved; "
            "rename it",
        )


def check_kernel_name(op: Operation, name: str, target: str) -> None:
    """Raises RefusedError if `name` cannot be that of a kernel, a global C function."""
    check_cpp_name(op, name, target)
    if is_c_name(name):
        refuse(
            op,
            f"target {target}: the name becomes that of a C function, as '{name}' of a library "
            "is one already; rename it",
        )
    if len(name) > MOST_CHARACTERS:
        refuse(
            op,
            f"target {target}: the name of a kernel has at most {MOST_CHARACTERS} characters, "
            f"found {len(name)}",
        )
