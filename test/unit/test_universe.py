"""What xDSL finds of this package by name."""

from __future__ import annotations

import subprocess
import sys

import pytest
from xdsl.universe import Universe

from hpmoe_ir.universe import DIALECTS, PASSES, TARGETS


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects_have_the_name_they_are_known_by(name: str):
    assert DIALECTS[name]().name == name


@pytest.mark.parametrize("name", PASSES)
def test_passes_have_the_name_they_are_known_by(name: str):
    module_pass = PASSES[name]()
    assert module_pass.name == name
    stem = "pipeline" if name == "lower-moe" else name.replace("-", "_")
    assert module_pass.__module__ == f"hpmoe_ir.passes.{stem}"
    assert module_pass.__name__ == "".join(w.capitalize() for w in name.split("-")) + "Pass"


@pytest.mark.parametrize("name", TARGETS)
def test_targets_have_the_name_they_are_known_by(name: str):
    assert TARGETS[name]().name == name


def test_names_are_sorted():
    for names in (DIALECTS, PASSES, TARGETS):
        assert list(names) == sorted(names)


def test_entry_point_is_published():
    universe = Universe.get_multiverse()
    assert set(DIALECTS) <= set(universe.all_dialects)
    assert set(PASSES) <= set(universe.all_passes)
    assert set(TARGETS) <= set(universe.all_targets)


def test_the_registry_imports_nothing_until_it_is_asked():
    code = (
        "import sys, hpmoe_ir.tools.hpmoe_opt\n"
        "names = ['numpy', 'mindspore', 'hpmoe_ir.dialects.moe', 'hpmoe_ir.passes.pipeline']\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
