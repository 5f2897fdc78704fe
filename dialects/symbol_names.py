"""Names of buffers and families of tasks, which become names in C++.

They are made from what readers call a value in the graph. Whatever that is, the name can be one in
C++ and is used once; nothing else depends on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

CPP_KEYWORDS = frozenset(
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

KERNEL_NAMES = frozenset({"table", "workspace", "windows", "tokens", "launch", "env", "args"})
"""Parameters and variables of a generated kernel, beside the caller's buffers."""

TAKEN = CPP_KEYWORDS | KERNEL_NAMES
"""Names that no buffer can have."""


@dataclass
class SymbolNames:
    """Names that have been given in one program."""

    used: set[str] = field(default_factory=set[str])
    """In the form in which constants of generated code have them: `dw_acc` as `DwAcc`."""

    def fresh(self, stem: str, taken: frozenset[str] = frozenset()) -> str:
        """A name that begins with `stem` and is not in `taken`: h, h_1, h_2."""
        stem = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_") or "value"
        if stem[0].isdigit():
            stem = f"v{stem}"
        name, count = stem, 0
        while _camel(name) in self.used or name in taken:
            count += 1
            name = f"{stem}_{count}"
        self.used.add(_camel(name))
        return name


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
