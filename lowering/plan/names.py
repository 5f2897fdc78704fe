"""Names of the IR that become names in C++."""

from __future__ import annotations

import re

from xdsl.ir import Operation

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.symbol_names import CPP_KEYWORDS

TYPES = frozenset({"SizeIndex", "Arguments", "AicTasks", "AivTasks"})
"""Names of types that generated code defines, other than functions of families and credits."""

TASK_LOCALS = frozenset({"env", "args", "point", "peer", "route"})
"""Variables of a family's function, other than coordinates, row ranges and tiles."""

CREDIT_LOCALS = frozenset({"env", "source", "rows", "chunks", "align", "empty", "credit"})
"""Variables of a credit's function, other than coordinates and their ends."""


def check_cpp_name(
    op: Operation, name: str, target: str, taken: frozenset[str] = frozenset()
) -> None:
    """Raises RefusedError if the name of `op` is not valid in C++ or is in `taken`."""
    if name in taken:
        refuse(op, f"target {target}: the generated code has a '{name}' of its own, rename it")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in CPP_KEYWORDS:
        refuse(
            op,
            f"target {target}: the name becomes one in C++: expected an identifier that is no "
            f"keyword, found '{name}'",
        )
