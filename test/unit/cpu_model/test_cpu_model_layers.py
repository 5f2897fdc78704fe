"""Includes between the layers of the engine, and the layers' sizes, against docs/cpu-model.md."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from hpmoe_ir.runtime.cpu_build import ENGINE_DIR

DOC = Path(__file__).parents[3] / "docs" / "cpu-model.md"

MOST_FILES = 25
"""Files that one folder of sources may have."""

INTERFACE = "cpu_model"
"""Folder of the headers that kernels include; every layer may include it."""


def documented_layers() -> dict[str, frozenset[str]]:
    """The layers that each layer may include, from the table of the documentation."""
    section = DOC.read_text().split("## The engine\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", section, re.M)
    return {layer: frozenset(re.findall(r"`(\w+)`", includes)) for layer, includes in rows}


def violations(engine: Path, layers: dict[str, frozenset[str]]) -> list[str]:
    """Includes that the layers do not allow, and folders that are not as they should be."""
    found: list[str] = []
    folders = {path.name for path in engine.iterdir()}
    if folders != set(layers):
        found.append(f"folders {sorted(folders)}, expected {sorted(layers)}")
    for folder in sorted(folders & set(layers)):
        files = sorted((engine / folder).iterdir())
        if len(files) > MOST_FILES:
            found.append(f"{folder}: {len(files)} files, expected at most {MOST_FILES}")
        allowed = {folder, INTERFACE, *layers[folder]}
        for file in files:
            for include in re.findall(r'^ *# *include *"([^"]+)"', file.read_text(), re.M):
                if include.split("/")[0] not in allowed:
                    found.append(f"{folder}/{file.name} includes {include}")
    return found


def test_layers_include_what_is_below_them():
    assert violations(ENGINE_DIR, documented_layers()) == []


def test_the_documented_layers_are_acyclic():
    order: list[str] = []
    layers = documented_layers()
    while rest := {
        layer: below - set(order) for layer, below in layers.items() if layer not in order
    }:
        ready = sorted(layer for layer, below in rest.items() if not below)
        assert ready, f"a cycle among {sorted(rest)}"
        order += ready
    assert order[0] == "model"
    assert order[-1] == "run"


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ENGINE_DIR, tmp_path / "engine"))


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("model/copy.cpp", "clocks/timed_mode.h"),
        ("model/model.h", "detectors/order.h"),
        ("model/sync.cpp", "functional/functional_mode.h"),
        ("detectors/race.cpp", "clocks/rates.h"),
        ("clocks/timed_calls.cpp", "detectors/shadow.h"),
        ("functional/tick_clock.h", "run/job.h"),
        ("clocks/fluid.h", "rates.h"),
    ],
)
def test_an_include_against_the_layers_is_found(engine: Path, file: str, include: str):
    with (engine / file).open("a") as source:
        source.write(f'#include "{include}"\n')
    assert violations(engine, documented_layers()) == [f"{file} includes {include}"]


def test_a_crowded_folder_is_found(engine: Path):
    for number in range(MOST_FILES):
        (engine / "run" / f"more_{number}.h").write_text("")
    (found,) = violations(engine, documented_layers())
    assert re.fullmatch(r"run: \d+ files, expected at most 25", found)


def test_an_unknown_layer_is_found(engine: Path):
    (engine / "profiler").mkdir()
    (found,) = violations(engine, documented_layers())
    assert "'profiler'" in found
