"""Progress display: one line that is rewritten on a terminal, no output on a pipe."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self


class Progress:
    """Shows the current step on standard error; a context manager that clears it at the end."""

    def __init__(self) -> None:
        self._width = 0
        self._on = sys.stderr.isatty()
        self._noted: set[str] = set()
        self.prefix = ""
        """Text shown before each step."""

    def __call__(self, text: str) -> None:
        """Replaces the shown text by `text`."""
        if self._on:
            line = (self.prefix + text)[:79]
            sys.stderr.write("\r" + line.ljust(self._width))
            sys.stderr.flush()
            self._width = len(line)

    def clear(self) -> None:
        """Clears the line."""
        if self._on and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0

    def note(self, text: str) -> None:
        """Prints a permanent note, once for each text."""
        if text not in self._noted:
            self._noted.add(text)
            self.clear()
            print(f"note: {text}", file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.clear()
