"""Names of buffers and families of tasks, which become names in C++.

They derive from name hints of SSA values, made unique and valid in C++; nothing else depends on
them.
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
"""Keywords of C++17, and `main`."""

KERNEL_NAMES = frozenset({"table", "workspace", "windows", "tokens", "launch", "env", "args"})
"""Names of parameters and variables of a generated kernel, other than the caller's buffers."""

TAKEN = CPP_KEYWORDS | KERNEL_NAMES
"""Reserved names, which no buffer may have."""


@dataclass
class SymbolNames:
    """The names in use in one program."""

    used: set[str] = field(default_factory=set[str])
    """The names in use in camel case, as in constants of generated code: `dw_acc` as `DwAcc`."""

    def fresh(self, stem: str, taken: frozenset[str] = frozenset()) -> str:
        """Returns an unused name that begins with `stem` and is not in `taken`: h, h_1, h_2."""
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
