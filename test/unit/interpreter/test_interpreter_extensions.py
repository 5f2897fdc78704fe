"""Interpreters that other packages bring, and those that are none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.interpreter.module import run_module

VALUES = np.arange(8, dtype=np.float32).reshape(2, 4)

MODULE = """from xdsl.interpreter import InterpreterFunctions, register_impls

class Unregistered(InterpreterFunctions):
    pass

class Raising(InterpreterFunctions):
    def __init__(self):
        raise KeyError("a table")

@register_impls
class Right(InterpreterFunctions):
    pass

NUMBER = 3
"""


GRAPH = b"""func.func @f(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  func.return %x : tensor<2x4xf32>
}
"""


def run_with(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """Results of a graph where a package with an interpreter is installed."""
    module = f"some_interpreters_{name.lower()}"
    (folder / f"{module}.py").write_text(MODULE)
    info = folder / "some_interpreters-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-interpreters\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[hpmoe_ir.interpreters]\nmine = {module}:{name}\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return run_module(parse_module(make_context(), GRAPH, "f.mlir"), "f", [[VALUES]])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Unregistered", "can't register it: ValueError: Use `@register_impls` on class"),
        ("Raising", "can't register it: KeyError: 'a table'"),
        ("NUMBER", "expected a class of InterpreterFunctions, found 3"),
    ],
)
def test_what_is_no_interpreter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
):
    with pytest.raises(InputError) as e:
        run_with(tmp_path, monkeypatch, name)
    assert f"mine = some_interpreters_{name.lower()}:{name}: {problem}" in str(e.value)


def test_an_interpreter_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ((found,),) = run_with(tmp_path, monkeypatch, "Right")
    np.testing.assert_array_equal(found, VALUES)
