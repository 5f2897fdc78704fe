"""The code on the pages of the documentation does what the pages say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from xdsl.universe import Universe

from hpmoe_ir.source import make_context, parse_module

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, kind: str) -> list[str]:
    """Contents of the fenced blocks that begin with exactly `kind`."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_writing_a_pass():
    page = (DOCS / "writing-a-pass.md").read_text()
    (types,) = blocks(page, "mlir types")
    (before,) = blocks(page, "mlir before")
    (after,) = blocks(page, "mlir after")
    names: dict[str, Any] = {"before": types + before, "__name__": "docs"}
    code = blocks(page, "python")
    assert len(code) == 3
    for block in code:
        exec(compile(block, "writing-a-pass.md", "exec"), names)
    expected = parse_module(make_context(), (types + after).encode(), "after.mlir")
    assert names["module"].is_structurally_equivalent(expected)
    universe = names["MY_UNIVERSE"]
    assert isinstance(universe, Universe)
    assert universe.all_passes["share-routes"]().name == "share-routes"


def test_links_of_the_readme_lead_somewhere():
    readme = DOCS.parent / "README.md"
    for target in re.findall(r"\]\(([^)#:]+)\)", readme.read_text()):
        assert (readme.parent / target).exists(), target
