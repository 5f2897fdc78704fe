"""Compiled layers in directories, right ones and broken ones, for tests that run them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hpmoe_ir.tools.hpmoe import main

PRESET = ["--preset", "deepseek-v3-tiny"]


def hpmoe(*words: str) -> int:
    """Exit status of a command."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert isinstance(stop.value.code, int)
    return stop.value.code


def compile_both(directory: Path, *sizes: str) -> Path:
    """A compiled layer with its gradients."""
    assert hpmoe("compile", *PRESET, *sizes, "--direction", "both", "-o", str(directory)) == 0
    return directory


def broken(right: Path, directory: Path, name: str, function: str, old: str, new: str) -> Path:
    """The layer with one text for another in one function of a device source."""
    shutil.copytree(right, directory)
    path = directory / name / "device.cpp"
    source = path.read_text()
    start = source.index(f" {function}(")
    end = source.index("\n}\n", start)
    body = source[start:end]
    assert old in body, body
    path.write_text(source[:start] + body.replace(old, new) + source[end:])
    return directory
