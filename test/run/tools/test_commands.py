"""`hpmoe`: the same bytes for the same input, and one message for input that can't be used."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from hpmoe_ir.tools.hpmoe import main

TINY = ["--preset", "deepseek-v3-tiny", "--ranks", "2"]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message of a command that fails, which writes nothing to standard output."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    captured = capsys.readouterr()
    assert stop.value.code == 1
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err.strip()


def test_two_compilations_give_the_same_bytes(tmp_path: Path) -> None:
    """In two processes whose hashes of strings differ."""
    contents: list[dict[str, bytes]] = []
    for seed in ("1", "2"):
        directory = tmp_path / seed
        command = [sys.executable, "-m", "hpmoe_ir.tools.hpmoe", "compile", *TINY]
        command += ["--direction", "both", "-o", str(directory)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, env=environment, check=True, capture_output=True)
        contents.append(
            {
                str(path.relative_to(directory)): path.read_bytes()
                for path in sorted(directory.rglob("*"))
                if path.is_file()
            }
        )
    assert contents[0] == contents[1]
    assert {"graph.mlir", "moe.mlir", "comm.mlir", "tile.mlir", "queue.mlir"} < set(contents[0])
    assert {"moe_layer/device.cpp", "moe_layer_backward/table.bin", "manifest.json"} < set(
        contents[0]
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["run", "--preset", "deepseek-v2"],
            "error: unknown preset 'deepseek-v2'; did you mean 'deepseek-v3'",
        ),
        (
            ["run", *TINY[:2], "--ranks", "3"],
            "error: layer 'deepseek-v3-tiny': experts: expected a multiple of the 3 ranks, found",
        ),
        (
            ["run", *TINY, "--top-k", "65"],
            "error: layer 'deepseek-v3-tiny': top_k: expected at most the 64 experts, found 65",
        ),
        (
            ["run", *TINY, "--hidden", "100"],
            "error: layer 'deepseek-v3-tiny': hidden: expected a multiple of 16, found 100",
        ),
        (["run", *TINY, "--dtype", "f8"], "error: unknown element type 'f8', expected one of"),
        (
            ["run", *TINY, "--tokens", "1,x"],
            "error: --tokens: expected numbers separated by commas, found '1,x'",
        ),
        (
            ["run", *TINY, "--tokens", "1,2,3"],
            "error: tokens: expected 2 counts, one for each rank, found 3",
        ),
        (
            ["run", *TINY, "--routing", "zip:1"],
            "error: unknown routing 'zip:1'; known: balanced, uniform, zipf:S, imbalance:X, ",
        ),
        (
            ["run", *TINY, "--routing", "one-expert", "--capacity", "90"],
            "error: rank 0 would receive 256 rows, its capacity is 90 rows; every rank stopped",
        ),
        (["run"], "error: expected either a graph file or --preset NAME"),
        (["run", "no-such.mlir"], "no-such.mlir: error: can't read the file: No such file"),
        (
            ["run", *TINY, "--interleavings", "0"],
            "error: --interleavings: expected 1 to 1000000, found 0",
        ),
        (
            ["run", *TINY, "-p", "lower-mow"],
            "error: unknown pass 'lower-mow'; did you mean 'lower-moe'",
        ),
        (
            ["run", *TINY, "-p", "lower-moe{tile-m=256 tile-n=256}"],
            "error: convert-comm-to-tile: tile 256x256x64 needs 262144 bytes of L0C",
        ),
        (
            ["run", *TINY, "-p", "lower-moe{policy=depth}"],
            "error: pass 'lower-moe': option 'policy': unknown policy 'depth'",
        ),
        (
            ["run", *TINY, "--recompute", "swiglu"],
            "error: --recompute: there is no backward direction, see --direction",
        ),
        (
            ["run", *TINY, "--direction", "both", "--recompute", "gate"],
            "error: derive-backward: ",
        ),
        (["rum"], "error: argument COMMAND: invalid choice: 'rum'"),
        (["compile", *TINY, "-o", "/dev/null/x"], "/dev/null: error: can't write: Not a directory"),
        (["import", "--mindspore", "x.txt", "-o", "y"], "error: expected FILE.py:Class or FILE"),
        (["import", "--config", "x.json", "-o", "y"], "x.json: error: "),
    ],
    ids=str,
)
def test_bad_input(
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    if "one-expert" in words:
        # The device finds it out: the lines of the stages before are there already.
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 1
        assert capsys.readouterr().err.startswith(message)
    else:
        assert message in refused(capsys, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_routing_file_with_a_repeated_expert(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ids = np.array([[0, 1], [5, 5]], np.int32)
    path = tmp_path / "routing.npz"
    np.savez(path, **{"ids.0": ids, "ids.1": ids[:1]})
    message = refused(capsys, "run", *TINY, "--routing", str(path))
    assert "rank 0" in message
    assert "token 1" in message
    assert "5" in message


def test_a_missing_compiler(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HPMOE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(SystemExit) as stop:
        main(["run", *TINY])
    assert stop.value.code == 1
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert "g++" in message


@pytest.mark.parametrize("words", [["compile", "--schedule", "auto"], ["simulate"]])
def test_candidates_without_a_compiler(
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HPMOE_CACHE", str(tmp_path / "cache"))
    output = [] if words == ["simulate"] else ["-o", str(tmp_path / "out")]
    message = refused(capsys, *words, *TINY, *output)
    assert message.endswith("the CPU model needs g++ (C++17), and there is none on the PATH")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob("cache/schedule-*"))


def test_a_cache_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HPMOE_CACHE", str(tmp_path / "file"))
    message = refused(capsys, "simulate", *TINY, "--no-serial")
    assert message == (
        f"{tmp_path / 'file'}: error: can't keep built files here, see $HPMOE_CACHE: "
        "Not a directory"
    )


def test_no_place_for_the_files_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk looks the same."""
    words = ["simulate", *TINY, "--no-serial"]
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0
    capsys.readouterr()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    message = refused(capsys, *words)
    assert "error: can't run the CPU model: No such file or directory" in message

    def none(prefix: str) -> NoReturn:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", none)
    message = refused(capsys, *words)
    assert message == (
        "error: can't run the CPU model: No usable temporary directory found in ['/tmp']"
    )


@pytest.mark.parametrize("tokens", ["0,0", "0"])
@pytest.mark.parametrize("level", ["moe", "comm", "tile", "queue", "code"])
def test_no_tokens_at_all(tokens: str, level: str, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to do, and the gradients of the weights are zeros."""
    words = ["run", *TINY, "--tokens", tokens, "--level", level, "--check", "--direction", "both"]
    with pytest.raises(SystemExit) as stop:
        main(words)
    captured = capsys.readouterr()
    assert (stop.value.code, captured.err) == (0, "")
    assert "check     passed: there are no values to compare" in captured.out
    assert "gradients passed against MindSpore: largest error 0, 0.00 of the " in captured.out


def test_a_routing_file_without_tokens(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "routing.npz"
    ids, weights = np.zeros((0, 2), np.int32), np.zeros((0, 2), np.float32)
    np.savez(path, **{"ids.0": ids, "ids.1": ids, "gate.0": weights, "gate.1": weights})
    for more in ([], ["--tokens", "0,0"]):
        with pytest.raises(SystemExit) as stop:
            main(["run", *TINY, "--routing", str(path), "--check", *more])
        assert stop.value.code == 0
        assert "passed: there are no values to compare" in capsys.readouterr().out


@pytest.mark.parametrize("launches", ["1000000000", "100000000000000000000"])
@pytest.mark.parametrize("level", ["moe", "code"])
def test_launches_that_do_not_fit_into_memory(
    launches: str, level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = refused(capsys, "run", *TINY, "--launches", launches, "--level", level)
    assert found.startswith(f"error: values of {launches} launches of the layer 'deepseek-v3-tiny'")
    assert "expected to fit into the available memory" in found


def test_a_damaged_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A table whose checksum is wrong is refused before anything runs."""
    with pytest.raises(SystemExit):
        main(["compile", *TINY, "-o", str(tmp_path / "layer")])
    path = tmp_path / "layer" / "moe_layer" / "table.bin"
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(bytes(data))
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(["run", str(tmp_path / "layer"), "--edited-code"])
    assert stop.value.code == 1
    assert "checksum: expected 0x" in capsys.readouterr().err


def test_sizes_that_would_change_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A graph and a compiled layer have their sizes; other ones are not ignored but refused."""
    graph, layer = str(tmp_path / "graph.mlir"), str(tmp_path / "layer")
    for words in (["import", *TINY, "-o", graph], ["compile", graph, "-o", layer]):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 0
    capsys.readouterr()
    again = str(tmp_path / "again")
    in_types = "the sizes of a graph are in its types; use it with --preset"
    compiled = "the layer is compiled already"
    assert refused(capsys, "compile", graph, "--tokens", "5", "-o", again).endswith(
        f"--tokens: {in_types}"
    )
    assert refused(capsys, "run", graph, "--dtype", "f16").endswith(f"--dtype: {in_types}")
    assert refused(capsys, "run", layer, "--ranks", "4").endswith(f"--ranks: {compiled}")
    assert refused(capsys, "run", layer, "-p", "lower-moe{rotate=false}").endswith(compiled)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[" * 100_000, "maximum recursion depth exceeded"),
        ('{"files": {}}', "'manifest'"),
    ],
)
def test_a_damaged_manifest(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifest.json").write_text(text)
    found = refused(capsys, "run", str(tmp_path))
    assert f"error: expected the manifest of a compiled layer: {message}" in found


@pytest.mark.parametrize("command", ["run", "simulate", "tune"])
def test_a_name_that_no_file_can_have(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, graph = "a" * 300, str(tmp_path / "graph.mlir")
    output = ["-o", str(tmp_path / "out")] if command == "tune" else []
    found = refused(capsys, command, name, *output)
    assert found == f"{name}: error: can't read the file: File name too long"
    with pytest.raises(SystemExit):
        main(["import", *TINY, "-o", graph])
    capsys.readouterr()
    found = refused(capsys, command, graph, "--machine", f"{name}.toml", *output)
    assert found.endswith(f"unknown machine '{name}.toml'; known: ascend-a2, ascend-a3")
