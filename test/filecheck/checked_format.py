"""The lit format of the textual tests: a shell test that must compare something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lit.formats
import lit.Test

CHECKERS = ("filecheck", "diff", "cmp", "HPMOE_")
UNCHECKED = "UNCHECKED-TEST:"
"""Marks a file that is meant to check an exit status only; the reason follows."""


class CheckedShTest(lit.formats.ShTest):
    """A RUN line without `filecheck` or `diff` passes whatever is printed, so a file without either
    is refused unless it is marked.
    """

    def execute(self, test: Any, litConfig: Any) -> Any:
        text = Path(test.getSourcePath()).read_text()
        runs = [line for line in text.splitlines() if "RUN:" in line]
        checked = any(checker in line for line in runs for checker in CHECKERS)
        if not checked and UNCHECKED not in text:
            return lit.Test.UNRESOLVED, (
                "no RUN line compares output: pipe into filecheck or diff, "
                f"or say '{UNCHECKED} reason'"
            )
        shell_test: Any = super()
        return shell_test.execute(test, litConfig)
