"""Packages of tests as an installer leaves them."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    folder: Path,
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Makes the package in `folder` importable, with its entry points, and `more` of them."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines: list[str] = []
    groups: dict[str, dict[str, str]] = project["entry-points"]
    for group in {*groups, *(more or {})}:
        points = {**groups.get(group, {}), **(more or {}).get(group, {})}
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(sys, "path", [str(site), str(folder), *sys.path])
