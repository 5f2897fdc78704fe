"""The code on the pages of the documentation does what the pages say."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from xdsl.universe import Universe

from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.registry import built_in_policies
from hpmoe_ir.schedule.named import SCHEDULE_NAMES
from hpmoe_ir.tools import hpmoe, hpmoe_opt

DOCS = Path(__file__).parents[3] / "docs"


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


def operations(text: str) -> list[str]:
    """The operations of printed IR, each as one line, however the text breaks it."""
    parts = re.split(r"^\s*(?=\w+\.\w+ |[})])", text, flags=re.MULTILINE)
    return [" ".join(part.split()) for part in parts if part.strip() and part[0] not in "})"]


SMALL = ["--preset", "deepseek-v3-tiny", "--ranks", "2", "--experts", "4"]
"""The layer that the page about dependences speaks of."""


def test_dependences(tmp_path: Path) -> None:
    """Each step of the page gives the operations that are shown, word by word."""
    page = (DOCS / "dependences.md").read_text()
    graph = tmp_path / "graph.mlir"
    with pytest.raises(SystemExit):
        hpmoe.main(["import", *SMALL, "-o", str(graph)])
    to_tile = "convert-moe-to-comm,convert-comm-to-tile{row-chunks=2}"
    to_tiles = to_tile.replace("row-chunks=2", "row-cut=tiles row-tiles=12 tile-m=16")
    passes = {
        "tile": to_tile,
        "part": f"{to_tile},insert-dependencies",
        "expert": f"{to_tile},insert-dependencies{{granularity=expert}}",
        "credit": f"{to_tile},insert-dependencies,credit-empty-puts",
        "tiles": to_tiles,
        "ranges": f"{to_tiles},insert-dependencies",
        "tasks": "lower-moe{row-chunks=2},expand-tasks",
    }
    for kind, pipeline in passes.items():
        output = tmp_path / f"{kind}.mlir"
        hpmoe_opt.main([str(graph), "-p", pipeline, "-o", str(output)])
        found = operations(output.read_text())
        (block,) = blocks(page, f"mlir {kind}")
        for op in operations(block):
            assert op in found, f"{kind}: {op} is not there as shown"


def test_schedules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy of the page gives queues that are right."""
    page = (DOCS / "schedules.md").read_text()
    (code,) = blocks(page, "python")
    page_module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page_module)
    exec(compile(code, "schedules.md", "exec"), vars(page_module))
    graph = tmp_path / "graph.mlir"
    with pytest.raises(SystemExit):
        hpmoe.main(["import", *SMALL, "-o", str(graph)])
    for options, first in (({}, 2), ({"after": 1}, 0)):
        module = parse_module(make_context(), graph.read_bytes(), "graph.mlir")
        policy = vars(page_module)["LastExpertFirst"](**options)
        LowerMoePass(policy=policy).apply(make_context(), module)
        text = str(module)
        assert text.index(f"@matmul[{first}]") < text.index(f"@matmul[{2 - first}]")


def test_all_schedules_are_on_their_page() -> None:
    page = (DOCS / "schedules.md").read_text()
    for name in {*SCHEDULE_NAMES, *built_in_policies()}:
        assert f"**{name}.**" in page
