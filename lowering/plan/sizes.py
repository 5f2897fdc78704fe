"""Sizes: numbers that generated code reads from the task table instead of containing them.

Two layers with the same structure have the same code: the numbers in which they differ are words of
the table's section `sizes`, which the code reads by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hpmoe_ir.lowering.program import LoweringError


@dataclass(frozen=True)
class Size:
    """One 32-bit word of the task table, by name."""

    name: str
    value: int


@dataclass(frozen=True)
class Offset:
    """A byte offset of 64 bits: two words of the task table, `name` and `nameHigh`."""

    name: str
    value: int


@dataclass
class SizeTable:
    """Collects the named words of one program, in order of first use."""

    where: str
    """Prefix of error messages: the target and the program."""
    words: dict[str, int] = field(default_factory=dict[str, int])
    """Value of each word by name."""

    def size(self, name: str, value: int) -> Size:
        """Returns the word `name`, which holds `value`, a number below 2^32.

        Raises LoweringError if the value does not fit, or if the name has a different value.
        """
        if not 0 <= value < 1 << 32:
            raise LoweringError(f"{self.where}: expected {name} below 2^32, found {value}")
        known = self.words.setdefault(name, value)
        if known != value:
            raise LoweringError(
                f"{self.where}: two numbers of the task table have the name {name}, {known} and "
                f"{value}: rename one of the families, buffers or events that it is made of"
            )
        return Size(name, value)

    def offset(self, name: str, value: int) -> Offset:
        """Returns the two words of a byte offset below 2^64."""
        self.size(name, value & 0xFFFFFFFF)
        self.size(f"{name}High", value >> 32)
        return Offset(name, value)

    def sizes(self) -> tuple[Size, ...]:
        """Returns all words, in the order of the table."""
        return tuple(Size(name, value) for name, value in self.words.items())


def camel(name: str) -> str:
    """Returns a name in camel case: `grouped_matmul_1` becomes `GroupedMatmul1`."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^0-9A-Za-z]+", name) if part)
