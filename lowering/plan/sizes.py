"""Numbers that generated code looks up in the task table rather than having them in its text.

The device source of two layers of the same structure is the same: what differs by shape is in the
table's sizes. Source and table number the sizes in the same way, since both are made by the same
walk over the program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass
class Sizes:
    """Named 32-bit words, in the order in which they were asked for first."""

    values: dict[str, int] = field(default_factory=dict[str, int])

    def word(self, name: str, value: int) -> str:
        """C++ expression for a number below 2^32."""
        assert 0 <= value < 1 << 32, f"{name} = {value} does not fit a word"
        assert self.values.setdefault(name, value) == value, f"{name} has two values"
        return f"env.Size({name})"

    def offset(self, name: str, value: int) -> str:
        """Enumerator of a 64-bit number, which takes two words."""
        assert 0 <= value < 1 << 64, f"{name} = {value} does not fit two words"
        if name not in self.values:
            self.values[name] = value & 0xFFFFFFFF
            self.values[f"{name}High"] = value >> 32
        return name


def camel(name: str) -> str:
    """`grouped_matmul_1` as `GroupedMatmul1`."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^0-9A-Za-z]+", name) if part)
