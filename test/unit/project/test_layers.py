"""The layers that pyproject.toml declares, that they are checked, and where files may lie."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import grimp
import pytest

from hpmoe_ir.universe import PASSES

ROOT = Path(__file__).parents[3]
LINKED = ("dialects", "lowering", "passes")
SOURCES = ("hpmoe_ir", *LINKED, "benchmarks", "examples", "test")
CODE = {".py", ".h", ".cpp", ".toml", ".html", ".mlir", ".test"}

MOST_FILES = 25
"""Files in a folder of sources or tests, so that each list of them can be read at a glance."""
MOST_LOOSE_MODULES = 8
"""Modules directly in `hpmoe_ir`, which belong to none of its packages."""


def contracts() -> dict[str, dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return {contract["name"]: contract for contract in settings["contracts"]}


def lint_imports(checkout: Path) -> str:
    """What `lint-imports` says of the packages in a checkout, without line breaks."""
    code = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; lint_imports_command()", "--no-cache"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert ("0 broken" in done.stdout) == (done.returncode == 0), done.stdout
    return " ".join(done.stdout.split())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the packages and of the settings, to be changed."""
    ignored = shutil.ignore_patterns("__pycache__", "*.h", "*.cpp")
    for folder in LINKED:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copytree(ROOT / "hpmoe_ir", tmp_path / "hpmoe_ir", symlinks=True, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def append(path: Path, text: str) -> None:
    path.write_text(f"{path.read_text()}\n{text}\n")


def test_layers_are_kept():
    assert "0 broken" in lint_imports(ROOT)


WRONG_IMPORTS = {
    "of a layer above": (
        "dialects/index.py",
        "import hpmoe_ir.passes.expand_tasks",
        "hpmoe_ir.dialects is not allowed to import hpmoe_ir.passes",
    ),
    "of a layer above, in a function": (
        "passes/plan_memory.py",
        "def late():\n    from hpmoe_ir.run.execution import run_program\n    run_program",
        "hpmoe_ir.passes is not allowed to import hpmoe_ir.run",
    ),
    "for types only": (
        "hpmoe_ir/machines/rates.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import hpmoe_ir.kernels.kernel",
        "hpmoe_ir.machines is not allowed to import hpmoe_ir.kernels",
    ),
    "of a package beside it": (
        "lowering/task_table.py",
        "import hpmoe_ir.frontends.presets",
        "hpmoe_ir.lowering is not allowed to import hpmoe_ir.frontends",
    ),
    "of a printer by the plan": (
        "lowering/plan/names.py",
        "import hpmoe_ir.lowering.task_table",
        "hpmoe_ir.lowering.plan is not allowed to import hpmoe_ir.lowering.task_table",
    ),
    "of policies by an analysis": (
        "passes/analysis/task_uses.py",
        "import hpmoe_ir.passes.policies.serial",
        "hpmoe_ir.passes.analysis is not allowed to import hpmoe_ir.passes.policies",
    ),
    "of a pass by what it is made of": (
        "passes/proof/order.py",
        "import hpmoe_ir.passes.plan_memory",
        "hpmoe_ir.passes.proof.order is not allowed to import hpmoe_ir.passes.plan_memory",
    ),
    "in a circle": (
        "hpmoe_ir/timing/usage.py",
        "import hpmoe_ir.timing.lane_page",
        "No cycles are allowed in hpmoe_ir.timing",
    ),
}


@pytest.mark.parametrize("kind", WRONG_IMPORTS)
def test_a_wrong_import_is_seen(checkout: Path, kind: str):
    file, line, message = WRONG_IMPORTS[kind]
    append(checkout / file, line)
    assert message in lint_imports(checkout)


def test_a_package_without_a_layer_is_seen(checkout: Path):
    (checkout / "hpmoe_ir" / "backend").mkdir()
    (checkout / "hpmoe_ir" / "backend" / "__init__.py").touch()
    assert "backend" in lint_imports(checkout)


def test_every_folder_of_passes_has_a_layer():
    layers = contracts()["Layers of the passes"]["layers"]
    placed = {name.strip() for layer in layers for name in layer.split("|")}
    assert placed == {path.parent.name for path in (ROOT / "passes").glob("*/__init__.py")}


def import_circle(modules: dict[str, set[str]]) -> list[str]:
    """A circle in what each module imports, empty where there is none."""
    try:
        TopologicalSorter(modules).prepare()
    except CycleError as e:
        return e.args[1]
    return []


def test_no_module_is_in_a_circle():
    # The contract compares siblings; this sees modules that import the package they are in as well.
    graph = grimp.build_graph("hpmoe_ir", cache_dir=None)
    assert len(graph.modules) > 100
    modules = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    assert import_circle(modules) == []
    modules["hpmoe_ir.dialects.queue.order"].add("hpmoe_ir.dialects.queue")
    assert import_circle(modules)


def loose_modules(package: Path) -> list[str]:
    return sorted(path.stem for path in package.glob("*.py"))


def test_few_modules_are_loose():
    assert len(loose_modules(ROOT / "hpmoe_ir")) <= MOST_LOOSE_MODULES


def test_only_passes_lie_at_the_top_of_passes():
    passes = {load().__module__.split(".")[-1] for load in PASSES.values()}
    top = set(loose_modules(ROOT / "passes"))
    assert top - passes <= {"__init__", "pipeline"}


def crowded(root: Path, folders: tuple[str, ...]) -> dict[str, int]:
    """Folders with more files than `MOST_FILES`, links left out."""
    count = Counter(
        str(path.parent.relative_to(root))
        for folder in folders
        for path in (root / folder).rglob("*")
        if path.suffix in CODE and path.is_file() and "__pycache__" not in path.parts
    )
    return {folder: files for folder, files in count.items() if files > MOST_FILES}


def test_no_folder_is_crowded(tmp_path: Path):
    assert crowded(ROOT, SOURCES) == {}
    for i in range(MOST_FILES + 1):
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / f"part{i}.py").touch()
    assert crowded(tmp_path, ("run",)) == {"run": MOST_FILES + 1}
