"""What both commands say of repeated options, of a pass that crashes, and of a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from hpmoe_ir.passes.convert_moe_to_comm import ConvertMoeToCommPass
from hpmoe_ir.tools import hpmoe, hpmoe_opt

IMPORT = ["import", "--preset", "deepseek-v3-tiny", "--ranks", "2", "-o"]


def message(
    main: Callable[[Sequence[str]], None], words: list[str], capsys: pytest.CaptureFixture[str]
) -> str:
    """Standard error of a command that fails with status 1 and writes nothing else."""
    with pytest.raises(SystemExit) as exit:
        main(words)
    assert exit.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize(
    ("main", "words", "option"),
    [
        (hpmoe_opt.main, ["-p", "lower-moe", "-p", "verify-queues", "x.mlir"], "-p/--passes"),
        (hpmoe_opt.main, ["-t", "mlir", "--target=mlir", "x.mlir"], "-t/--target"),
        (hpmoe_opt.main, ["-o", "a", "-o", "a", "x.mlir"], "-o/--output-file"),
        (hpmoe.main, ["run", "--ranks", "2", "--ranks", "4"], "--ranks"),
        (hpmoe.main, ["run", "--preset=a", "--tokens", "1", "--preset", "b"], "--preset"),
        (hpmoe.main, ["simulate", "--ranks", "2", "--ranks", "2"], "--ranks"),
    ],
)
def test_an_option_given_twice(
    capsys: pytest.CaptureFixture[str],
    main: Callable[[Sequence[str]], None],
    words: list[str],
    option: str,
) -> None:
    found = message(main, words, capsys)
    assert found == f"error: argument {option}: given twice, expected it once\n"


def test_commands_take_the_same_option_in_the_next_call(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with pytest.raises(SystemExit) as exit:
            hpmoe.main([*IMPORT, str(tmp_path / name)])
        assert exit.value.code == 0
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.parametrize("tool", ["hpmoe-opt", "hpmoe"])
def test_a_crash_names_the_pass(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tool: str
) -> None:
    graph = tmp_path / "graph.mlir"
    with pytest.raises(SystemExit):
        hpmoe.main([*IMPORT, str(graph)])
    capsys.readouterr()

    def crash(self: ConvertMoeToCommPass, ctx: Context, op: ModuleOp) -> NoReturn:
        raise IndexError("planted")

    monkeypatch.setattr(ConvertMoeToCommPass, "apply", crash)
    if tool == "hpmoe-opt":
        found = message(hpmoe_opt.main, ["-p", "lower-moe", str(graph)], capsys)
    else:
        found = message(hpmoe.main, ["compile", str(graph), "-o", str(tmp_path / "out")], capsys)
    assert found == (
        "error: unexpected IndexError in pass convert-moe-to-comm: planted; "
        "--traceback shows where it is from\n"
    )


@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "words",
    [
        ["hpmoe", "run", "GRAPH", "--level", "moe"],
        ["hpmoe", "compile", "GRAPH", "-o", "OUT"],
        ["hpmoe", "simulate", "GRAPH", "--no-serial"],
        ["hpmoe", "import", "--preset", "deepseek-v3-tiny", "-o", "/dev/stdout"],
        ["hpmoe_opt", "GRAPH"],
        ["hpmoe_opt", "GRAPH", "-p", "lower-moe"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_full_disk(words: list[str], buffered: str, tmp_path: Path) -> None:
    graph = tmp_path / "graph.mlir"
    with pytest.raises(SystemExit):
        hpmoe.main([*IMPORT, str(graph)])
    places = {"GRAPH": str(graph), "OUT": str(tmp_path / "out")}
    module, *rest = (places.get(word, word) for word in words)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", f"hpmoe_ir.tools.{module}", *rest],
            env={**os.environ, "PYTHONUNBUFFERED": buffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    place = "/dev/stdout" if "/dev/stdout" in words else "<stdout>"
    assert done.stderr.splitlines()[-1].startswith(f"{place}: error: can't write")
    assert done.stderr.endswith(": No space left on device\n")


@pytest.mark.parametrize("module", ["hpmoe", "hpmoe_opt"])
def test_a_reader_that_has_gone(module: str, tmp_path: Path) -> None:
    graph = tmp_path / "graph.mlir"
    with pytest.raises(SystemExit):
        hpmoe.main([*IMPORT, str(graph)])
    words = [str(graph)] if module == "hpmoe_opt" else ["run", str(graph), "--level", "moe"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", f"hpmoe_ir.tools.{module}", *words],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
