"""IR of each level is an input of run, simulate and compile, from its level downwards."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from hpmoe_ir.tools.hpmoe import main

TINY = ["--preset", "mixtral-8x7b-tiny", "--ranks", "2", "--hidden", "32", "--width", "16"]
LEVELS = ("moe", "comm", "tile", "queue")
CODE = ("device.cpp", "table.bin")


def succeeds(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints that ends with status 0."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    captured = capsys.readouterr()
    assert stop.value.code == 0, captured.err
    return captured.out


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message of a command that ends with status 1."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 1
    return capsys.readouterr().err.strip()


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled layer with its gradients."""
    directory = tmp_path_factory.mktemp("any") / "layer"
    with pytest.raises(SystemExit) as stop:
        main(["compile", *TINY, "--direction", "both", "-o", str(directory)])
    assert stop.value.code == 0
    return directory


def elsewhere(layer: Path, level: str, tmp_path: Path) -> str:
    """A copy of the file of a level, without what else its directory says of it."""
    path = tmp_path / "alone.mlir"
    path.write_bytes((layer / f"{level}.mlir").read_bytes())
    return str(path)


@pytest.mark.parametrize("level", LEVELS)
def test_both_directions_run_right(
    level: str, layer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is known as one of its directory, so that its graph is the reference."""
    found = succeeds(capsys, "run", str(layer / f"{level}.mlir"), "--check", "--direction", "both")
    assert "check     passed against MindSpore" in found
    assert "gradients passed against MindSpore" in found


@pytest.mark.parametrize("level", LEVELS)
def test_the_code_is_the_same_from_each_level(
    level: str, layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "again"
    succeeds(capsys, "compile", str(layer / f"{level}.mlir"), "-o", str(again))
    for function in ("moe_layer", "moe_layer_backward"):
        for name in CODE:
            found = (again / function / name).read_bytes()
            assert found == (layer / function / name).read_bytes()
    # What lies above the input isn't known; nothing of it is written.
    above = LEVELS[: LEVELS.index(level)]
    assert not any((again / f"{name}.mlir").exists() for name in above)


@pytest.mark.parametrize("level", LEVELS)
def test_the_time_is_the_same_from_each_level(
    level: str, layer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--routing", "uniform", "--direction", "both", "--no-serial"]
    from_file = succeeds(capsys, "simulate", str(layer / f"{level}.mlir"), *words)
    whole = succeeds(capsys, "simulate", str(layer), *words)
    assert times(from_file) == times(whole)


def times(report: str) -> list[str]:
    """The columns of time of each row of the first table."""
    rows = [line.split() for line in report.splitlines() if " @moe_layer" in line]
    assert len(rows) >= 2
    return [row[4] for row in rows[:2]]


@pytest.mark.parametrize("level", ["comm", "tile", "queue"])
def test_a_file_without_its_graph_is_judged_by_its_data_flow(
    level: str, layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is that of the plain layer, which MindSpore computes."""
    words = [elsewhere(layer, level, tmp_path), "--check", "--direction", "both"]
    found = succeeds(capsys, "run", *words)
    assert "check     passed against MindSpore" in found
    assert "gradients passed against MindSpore" in found


@pytest.mark.parametrize("level", ["comm", "tile", "queue"])
def test_another_data_flow_is_not_judged_by_that_of_the_plain_layer(
    level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here the second product is left out: without a graph there is nothing to judge it by."""
    graph = tmp_path / "graph.mlir"
    succeeds(capsys, "import", *TINY[:-1], "32", "-o", str(graph))
    lines = graph.read_text().splitlines()
    second = next(i for i, line in enumerate(lines) if "%w2 by" in line)
    y, a = re.findall(r"(%\w+) = moe.grouped_matmul (%\w+),", lines.pop(second))[0]
    graph.write_text(re.sub(rf"{y}\b", a, "\n".join(lines)))
    out = tmp_path / "out"
    succeeds(capsys, "compile", str(graph), "-o", str(out))
    found = fails(capsys, "run", elsewhere(out, level, tmp_path), "--check")
    assert found.startswith(f"error: --check: there is no reference: the input is at the {level} ")


@pytest.mark.parametrize("command", ["run", "simulate", "compile"])
def test_a_removed_wait_is_refused_at_its_place(
    command: str, layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited = without_a_wait(layer, tmp_path)
    output = ["-o", str(tmp_path / "out")] if command == "compile" else []
    found = fails(capsys, command, str(edited), *output)
    assert found.startswith(f"{edited}:")
    assert "error: verify-queues: @dispatch" in found
    assert "missing is its wait for @place_done" in found


def without_a_wait(layer: Path, tmp_path: Path) -> Path:
    """The queue level of the layer, where dispatch doesn't wait for the list of its rows."""
    text = (layer / "queue.mlir").read_text().splitlines(keepends=True)
    line = next(
        i for i, op in enumerate(text) if "queue.wait @dispatch " in op and "for @place_done " in op
    )
    path = tmp_path / "edited.mlir"
    path.write_text("".join(text[:line] + text[line + 1 :]))
    return path


def test_an_edited_program_is_what_runs(
    layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (layer / "tile.mlir").read_text()
    path = tmp_path / "tile.mlir"
    path.write_text(text.replace("@moe_layer ", "@renamed ").replace("@moe_layer_", "@renamed_"))
    found = succeeds(capsys, "run", str(path))
    assert "run       @renamed at the level code" in found


@pytest.mark.parametrize("level", LEVELS)
def test_standard_input(
    level: str,
    layer: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = (layer / f"{level}.mlir").read_bytes()
    for words in (["run", "-"], ["simulate", "-"], ["compile", "-", "-o", str(tmp_path / "out")]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        succeeds(capsys, *words)
    assert (tmp_path / "out" / "moe_layer" / "table.bin").is_file()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data + b"\n  abc")))
    assert fails(capsys, "run", "-").startswith("<stdin>:")


def test_a_level_above_the_input(layer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fails(capsys, "run", str(layer / "tile.mlir"), "--level", "comm") == (
        "error: --level comm: the input is at the tile level, which can be run at tile, queue, code"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tile.mlir", "--schedule", "waves"], "--schedule: it decides how tasks are cut"),
        (["queue.mlir", "--machine", "ascend-a2"], "--machine: queues are made for a machine"),
        (["tile.mlir", "--recompute", "swiglu"], "--recompute: it is an option of derive-backward"),
        (["comm.mlir", "--hidden", "64"], "--hidden: the sizes of a graph are in its types"),
    ],
)
def test_options_that_come_too_late(
    words: list[str], message: str, layer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, *options = words
    assert message in fails(capsys, "run", str(layer / file), *options)


def test_no_level_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.mlir"
    path.write_text("func.func @f() {\n  func.return\n}\n")
    assert "expected IR of one of the levels moe, comm, tile, queue, found no operation" in fails(
        capsys, "run", str(path)
    )
