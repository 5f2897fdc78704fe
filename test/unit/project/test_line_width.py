"""No line of the documentation has more than 100 columns; ruff checks those of Python."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COLUMNS = 100
PAGES = sorted(
    page
    for folder in (ROOT, *(ROOT / name for name in ("docs", "examples", "test", "hpmoe_ir")))
    for page in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
)


def wide_lines(text: str) -> list[int]:
    """Numbers of the lines that are too wide. Addresses, which can't be broken, do not count."""
    return [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if len(re.sub(r"https?://\S+", "", line)) > COLUMNS
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_narrow(page: Path):
    assert wide_lines(page.read_text()) == []


def test_wide_lines_are_seen():
    wide = "x" * (COLUMNS + 1)
    assert wide_lines(f"text\n{wide}\n| {wide} |\n```\n{wide}\n```\n") == [2, 3, 5]
    assert wide_lines(f"{'x' * COLUMNS}\nsee https://example.org/{wide}\n") == []
    assert {"README.md", "checking.md"} <= {page.name for page in PAGES}


def test_ruff_checks_python():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    assert settings["line-length"] == COLUMNS
    assert "E" in settings["lint"]["select"]
    assert "E501" not in settings["lint"]["ignore"]
    assert settings["extend-exclude"] == ["*.md"]
