"""Names of the IR that become names in C++."""

from __future__ import annotations

import re

from xdsl.ir import Operation

from hpmoe_ir.diagnostics import refuse

KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
    class compl const const_cast constexpr continue decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual
    void volatile wchar_t while xor xor_eq
    main
    """.split()
)
"""Keywords of C++17, and the one function that a program must have."""

PARAMETERS = frozenset({"table", "workspace", "windows", "tokens", "launch", "env", "args"})
"""Parameters and variables of the kernel, beside the caller's buffers."""

TYPES = frozenset({"SizeIndex", "Arguments", "AicTasks", "AivTasks"})
"""Types that the code defines beside the functions of families and credits."""

TASK_LOCALS = frozenset({"env", "args", "point", "peer", "route"})
"""Variables of a family's function, beside coordinates, row ranges and tiles."""

CREDIT_LOCALS = frozenset({"env", "source", "rows", "chunks", "align", "empty", "credit"})
"""Variables of a credit's function, beside coordinates and their ends."""


def check_cpp_name(
    op: Operation, name: str, target: str, taken: frozenset[str] = frozenset()
) -> None:
    """Refuses `op` where C++ can't have its name, or the generated code has `taken` it."""
    if name in taken:
        refuse(op, f"target {target}: the generated code has a '{name}' of its own, rename it")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in KEYWORDS:
        refuse(
            op,
            f"target {target}: the name becomes one in C++: expected an identifier that is no "
            f"keyword, found '{name}'",
        )
