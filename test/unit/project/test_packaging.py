"""What is installed: every package below `hpmoe_ir`, and nothing else at the top."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
LINKED = ("dialects", "lowering", "passes")


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def packages_on_disk() -> set[str]:
    """Packages of `hpmoe_ir` by the folders that hold an `__init__.py`."""
    found: set[str] = set()
    for folder, name in [("hpmoe_ir", "hpmoe_ir"), *((f, f"hpmoe_ir.{f}") for f in LINKED)]:
        for file in (ROOT / folder).rglob("__init__.py"):
            inside = file.parent.relative_to(ROOT / folder)
            if folder != "hpmoe_ir" or not (inside.parts and inside.parts[0] in LINKED):
                found.add(".".join([name, *inside.parts]))
    return found


def test_every_package_is_listed():
    assert set(settings()["packages"]) == packages_on_disk()


def test_every_folder_with_python_is_a_package():
    for folder in ("hpmoe_ir", *LINKED):
        for file in (ROOT / folder).rglob("*.py"):
            assert (file.parent / "__init__.py").exists(), file


@pytest.mark.parametrize("folder", LINKED)
def test_links_are_relative(folder: str):
    link = ROOT / "hpmoe_ir" / folder
    assert link.is_symlink()
    assert str(link.readlink()) == f"../{folder}"


def test_wheel_holds_every_file_and_nothing_else(tmp_path: Path):
    # A copy without links, as some platforms and archives give: the wheel must be complete even so.
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", *LINKED)
    shutil.copytree(ROOT, source, ignore=ignored)
    for folder in LINKED:
        shutil.copytree(
            ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        + ["--wheel-dir", str(tmp_path), str(source)],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "hpmoe_ir").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for folder in LINKED:
        expected |= {
            f"hpmoe_ir/{path.relative_to(ROOT)}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
    assert names == expected
