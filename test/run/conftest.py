"""Fixtures of the runs."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

PLANTED = Path(__file__).parent / "planted_faults"


@pytest.fixture
def planted_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of faults as an installer leaves it: importable, with its entry points."""
    project = tomllib.loads((PLANTED / "pyproject.toml").read_text())["project"]
    site = tmp_path / "site"
    info = site / "planted_faults-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted-faults\nVersion: 0.1.0\n")
    lines: list[str] = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(sys, "path", [str(site), str(PLANTED), *sys.path])
