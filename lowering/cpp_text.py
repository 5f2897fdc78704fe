"""Pieces of C++ text in the house style: lines of at most 100 columns, whatever the names."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

COLUMNS = 100


def comment(text: str, indent: str = "") -> str:
    """Returns a paragraph as C++ comment lines."""
    start = f"{indent}// "
    return textwrap.fill(
        " ".join(text.split()),
        COLUMNS,
        initial_indent=start,
        subsequent_indent=start,
        break_long_words=False,
        break_on_hyphens=False,
    )


def listed(head: str, items: Sequence[str], tail: str) -> str:
    """Returns `head(a, b, c)tail`, wrapped with continuation lines aligned to the first item."""
    indent = " " * len(head)
    lines = [head]
    for i, item in enumerate(items):
        piece = item + (tail if i + 1 == len(items) else ",")
        joint = " " if i else ""
        if i and len(lines[-1] + joint + piece) > COLUMNS:
            lines.append(indent)
            joint = ""
        lines[-1] += joint + piece
    return "\n".join(lines)


def commented(pairs: Sequence[tuple[str, str]], indent: str) -> str:
    """Returns lines of code with aligned trailing comments, from (code, comment) pairs."""
    width = max(len(code) for code, _ in pairs)
    return "\n".join(f"{indent}{code:<{width}}  // {note}" for code, note in pairs)


def function(head: str, statement: str) -> str:
    """Returns a function of one statement, on one line if it fits."""
    line = f"{head} {{ {statement} }}"
    indent = " " * (len(head) - len(head.lstrip()))
    return line if len(line) <= COLUMNS else f"{head} {{\n{indent}  {statement}\n{indent}}}"


def assigned(head: str, value: str) -> str:
    """Returns `head = value;`, with the value on its own line if one line is too short."""
    line = f"{head} = {value};"
    indent = " " * (len(head) - len(head.lstrip()) + 4)
    return line if len(line) <= COLUMNS else f"{head} =\n{indent}{value};"
