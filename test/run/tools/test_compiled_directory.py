"""The directory of a compiled layer: what is run is what was compiled, or the command says so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hpmoe_ir.tools.hpmoe import main

TINY = ["--preset", "deepseek-v3-tiny", "--ranks", "2", "--hidden", "32", "--width", "16"]


def status(*words: str) -> int | str | None:
    """The exit status of a command."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    return stop.value.code


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled layer with its gradients."""
    directory = tmp_path_factory.mktemp("compiled") / "layer"
    assert status("compile", *TINY, "--direction", "both", "-o", str(directory)) == 0
    return directory


@pytest.fixture
def layer(compiled: Path, tmp_path: Path) -> Path:
    """A copy of the layer."""
    return shutil.copytree(compiled, tmp_path / "layer")


def append(path: Path) -> None:
    """An edit that changes nothing of the meaning."""
    path.write_bytes(path.read_bytes() + b"\n")


EDITED = {
    "graph.mlir": "graph.mlir",
    "moe.mlir": "moe.mlir",
    "comm.mlir": "comm.mlir",
    "tile.mlir": "tile.mlir",
    "queue.mlir": "queue.mlir",
    "moe_layer/device.cpp": "queue.mlir",
    "moe_layer_backward/table.bin": "queue.mlir",
    "moe_layer/host/main.cpp": "queue.mlir",
    "moe_layer/host/include/hpmoe/cache.h": "queue.mlir",
}
"""Edited files, and the file from which the layer is compiled again."""


@pytest.mark.parametrize("command", ["run", "simulate"])
@pytest.mark.parametrize(("name", "source"), EDITED.items(), ids=EDITED)
def test_an_edited_file_is_refused(
    command: str, name: str, source: str, layer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(layer / name)
    assert status(command, str(layer)) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"{layer / name}: error: the file differs from the one that was ")
    assert message.endswith(f"as by 'hpmoe compile {layer / source} -o {layer}'\n")
    # What the message says does repair it.
    assert status("compile", str(layer / source), "-o", str(layer)) == 0
    assert status(command, str(layer)) == 0


@pytest.mark.parametrize("name", EDITED)
def test_a_missing_file_is_refused(
    name: str, layer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (layer / name).unlink()
    assert status("run", str(layer)) == 1
    found = "moe.mlir" if name == "graph.mlir" else "graph.mlir"
    assert capsys.readouterr().err == (
        f"{layer / name}: error: the file is missing; compile again, as by "
        f"'hpmoe compile {layer / found} -o {layer}'\n"
    )


@pytest.mark.parametrize("name", ["other/device.cpp", "other/table.bin", "graph.mlir"])
def test_a_file_that_was_not_compiled_is_refused(
    name: str, layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "graph.mlir":
        # A layer compiled from its lowest level has no graph.
        again = tmp_path / "again"
        again.mkdir()
        (again / "alone.mlir").write_bytes((layer / "queue.mlir").read_bytes())
        assert status("compile", str(again / "alone.mlir"), "-o", str(again)) == 0
        path = again / name
        path.write_bytes((layer / name).read_bytes())
    else:
        shutil.copytree(layer / "moe_layer", layer / "other")
        for path in list((layer / "other").rglob("*")):
            if path.is_file() and path != layer / name:
                path.unlink()
        path = layer / name
    capsys.readouterr()
    assert status("run", str(path.parents[name.count("/")])) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"{path}: error: the manifest doesn't list the file, ")


def other_digest(fields: dict[str, dict[str, str]]) -> None:
    fields["files"]["moe_layer/device.cpp"] = "0" * 64


def other_pipeline(fields: dict[str, object]) -> None:
    fields["pipeline"] = "lower-moe"


def other_level(fields: dict[str, dict[str, str]]) -> None:
    fields["input"]["level"] = "queue"


def no_files(fields: dict[str, object]) -> None:
    fields["files"] = {}


def no_seal(fields: dict[str, object]) -> None:
    fields["manifest"] = ""


@pytest.mark.parametrize("edit", [other_digest, other_pipeline, other_level, no_files, no_seal])
def test_an_edited_manifest_is_refused(
    edit: Callable[..., None], layer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = layer / "manifest.json"
    fields = json.loads(path.read_text())
    edit(fields)
    path.write_text(json.dumps(fields))
    assert status("run", str(layer)) == 1
    assert capsys.readouterr().err == (
        f"{path}: error: the manifest was edited; compile again, as by "
        f"'hpmoe compile {layer / 'queue.mlir'} -o {layer}'\n"
    )


def test_edited_code_runs_on_demand(layer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A comment changes nothing; a wait that is left out is noticed by the run."""
    source = layer / "moe_layer" / "device.cpp"
    append(source)
    assert status("run", str(layer), "--edited-code", "--check") == 0
    captured = capsys.readouterr()
    assert captured.err == "note: moe_layer/device.cpp was edited since it was compiled\n"
    assert "check     passed" in captured.out
    assert status("simulate", str(layer), "--edited-code", "--no-serial") == 0
    append(layer / "queue.mlir")
    assert status("run", str(layer), "--edited-code") == 1
    assert "queue.mlir: error: the file differs" in capsys.readouterr().err


def test_another_layer_leaves_nothing_behind(
    layer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that no compilation has written stay."""
    (layer / "notes.txt").write_text("mine")
    (layer / "moe_layer_backward" / "mine.txt").write_text("mine")
    assert status("compile", *TINY, "-o", str(layer)) == 0
    names = {path.relative_to(layer).as_posix() for path in layer.rglob("*") if path.is_file()}
    assert {name for name in names if name.startswith("moe_layer_backward")} == {
        "moe_layer_backward/mine.txt"
    }
    assert "notes.txt" in names
    assert "moe_layer/device.cpp" in names
    assert status("run", str(layer), "--check") == 0
    capsys.readouterr()
    assert status("run", str(layer), "--direction", "both") == 1
    assert "there is no backward direction" in capsys.readouterr().err


def test_levels_above_the_input_are_removed(layer: Path) -> None:
    (layer / "edited.mlir").write_bytes((layer / "tile.mlir").read_bytes())
    assert status("compile", str(layer / "edited.mlir"), "-o", str(layer)) == 0
    names = {path.name for path in layer.glob("*.mlir")}
    assert names == {"tile.mlir", "queue.mlir", "edited.mlir"}
    assert status("run", str(layer)) == 0


def test_an_edited_file_that_would_be_removed_is_kept(
    layer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = layer / "moe_layer_backward" / "device.cpp"
    append(path)
    before = {p: p.read_bytes() for p in layer.rglob("*") if p.is_file()}
    capsys.readouterr()
    assert status("compile", *TINY, "-o", str(layer)) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"{path}: error: the file was edited since it was compiled, and the ")
    assert {p: p.read_bytes() for p in layer.rglob("*") if p.is_file()} == before


def test_a_link_out_of_the_directory_is_not_removed(layer: Path, tmp_path: Path) -> None:
    path = layer / "moe_layer_backward" / "table.bin"
    outside = tmp_path / "kept.bin"
    shutil.move(path, outside)
    path.symlink_to(outside)
    assert status("compile", *TINY, "-o", str(layer)) == 0
    assert outside.is_file()
