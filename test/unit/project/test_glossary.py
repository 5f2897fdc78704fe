"""Every word of the printed IR that is not MLIR's own is a term of the glossary."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpmoe_ir.driver.compiler import Compiled, compile_module, module_text
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.expand_tasks import ExpandTasksPass
from hpmoe_ir.passes.pipeline import LowerMoePass

GLOSSARY = Path(__file__).parents[3] / "docs" / "glossary.md"
MLIR = {"attributes", "builtin", "false", "floordiv", "func", "mod", "module", "tensor", "true"}
"""Words of MLIR's own syntax, dialects and types."""


def words(text: str) -> set[str]:
    """Words of IR but for names that a program chooses, strings and element types."""
    text = re.sub(r'"[^"]*"', " ", text)
    text = re.sub(r"[@%][\w.$-]+(?: \([^)]*\))?", " ", text)  # symbols, with their coordinates
    text = re.sub(r"(?:(?:\d+|\?)x)*\b(?:i|f|bf)\d+\b|(?:(?:\d+|\?)x)+(?:i|f|bf)\d+\b", " ", text)
    return {w for w in re.findall(r"[a-zA-Z_]\w+", text)} - MLIR


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    config = preset_layer("deepseek-v3-tiny").with_sizes(ranks=2, experts=4)
    return compile_module(
        make_context(), layer_module(config), LowerMoePass(), backward=DeriveBackwardPass()
    )


def unknown(text: str) -> set[str]:
    known = set(re.findall(r"\w+", GLOSSARY.read_text()))
    return words(text) - known


@pytest.mark.parametrize("level", ["moe", "comm", "tile", "queue"])
def test_terms_of_a_level(compiled: Compiled, level: str):
    assert unknown(module_text(compiled.modules[level])) == set()


def test_terms_of_single_tasks(compiled: Compiled):
    module = compiled.modules["queue"].clone()
    ExpandTasksPass().apply(make_context(), module)
    assert unknown(module_text(module)) == set()


def test_a_word_that_is_not_there_is_found():
    assert unknown("tile.tasks @f (e) in (2) on frobnicator") == {"frobnicator"}
