"""`hpmoe simulate` on a small layer, for the tests of its tables and files."""

from __future__ import annotations

import pytest

from hpmoe_ir.tools.hpmoe import main

TINY = ["--preset", "deepseek-v3-tiny", "--ranks", "2", "--tokens", "64"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints that succeeds."""
    with pytest.raises(SystemExit) as stop:
        main(["simulate", *words])
    captured = capsys.readouterr()
    assert stop.value.code == 0, captured.err
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message of a command that fails and prints nothing else."""
    with pytest.raises(SystemExit) as stop:
        main(["simulate", *words])
    captured = capsys.readouterr()
    assert stop.value.code == 1
    assert captured.out == ""
    return captured.err.strip()


def rows_of(out: str) -> list[list[str]]:
    """The rows of the table of times."""
    lines = out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("ranks "))
    last = lines.index("", first)
    return [line.split() for line in lines[first + 1 : last]]
