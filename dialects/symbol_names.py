"""Names of buffers and families of tasks, which become names in C++.

They derive from name hints of SSA values, made unique and valid in C++; nothing else depends on
them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

CPP_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
    constinit continue decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires return
    short signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t
    while xor xor_eq
    main
    """.split()
)
"""Keywords of C++20 and of GNU C++, and `main`."""

LIBRARY_NAMES = frozenset(
    """
    std hpmoe hpmoe_host AscendC shmem cpu_model
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t ptrdiff_t max_align_t
    intptr_t uintptr_t intmax_t uintmax_t half bfloat16_t float16_t
    linux unix i386 errno assert offsetof stdin stdout stderr
    NoQuant F322F16 F322BF16 DEQF16 VDEQF16 REQ8 VREQ8
    """.split()
)
"""Namespaces, types and macros of the headers that generated code includes, which mean the same in
every scope. Macros in capitals are known by `MACRO`."""

MACRO = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]*|[A-Z]{3,}")
"""The form of a macro's name, as `GM_ADDR`, `NULL` or `INT32_MAX`: the preprocessor replaces it
whatever its scope."""

RESERVED = re.compile(r"_[A-Z].*|.*__.*")
"""Identifiers that C++ reserves for its implementation."""

KERNEL_NAMES = frozenset({"table", "workspace", "windows", "tokens", "launch", "env", "args"})
"""Names of parameters and variables of a generated kernel, other than the caller's buffers."""

GENERATED_TYPES = frozenset({"SizeIndex", "Arguments", "AicTasks", "AivTasks"})
"""Names of types that generated code defines."""


def is_reserved(name: str) -> bool:
    """Returns whether an identifier cannot be defined in generated C++, in any scope."""
    return (
        name in CPP_KEYWORDS
        or name in LIBRARY_NAMES
        or MACRO.fullmatch(name) is not None
        or RESERVED.fullmatch(name) is not None
    )


@dataclass
class SymbolNames:
    """The names in use in one program."""

    used: set[str] = field(default_factory=set[str])
    """The names in use in camel case, as in constants of generated code: `dw_acc` as `DwAcc`."""

    def fresh(self, stem: str, *, as_written: bool = False) -> str:
        """Returns an unused name that begins with `stem`: h, h_1, h_2.

        `as_written`: it is to be a name in C++ as it is, not only in camel case.
        """
        stem = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_") or "value"
        if stem[0].isdigit():
            stem = f"v{stem}"
        if as_written and MACRO.fullmatch(stem):
            stem = stem.lower()
        taken = KERNEL_NAMES | GENERATED_TYPES
        name, count = stem, 0
        while _camel(name) in self.used or (as_written and (name in taken or is_reserved(name))):
            count += 1
            name = f"{stem}_{count}"
        self.used.add(_camel(name))
        return name


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
