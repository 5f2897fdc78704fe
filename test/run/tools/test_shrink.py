"""`hpmoe run --shrink`: a fault comes down to a few tokens, a right layer has nothing to shrink."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from compiled_layers import hpmoe

from hpmoe_ir.frontends.build_layer import FUNCTION

LAYER = (
    "run --preset deepseek-v3-tiny --ranks 4 --tokens 12 --routing zipf:1.2 --launches 2".split()
)
PASSES = "lower-moe{source-groups=2 put-chunks=2}"


def shrunk(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    """The words of the smallest command, after `hpmoe`, and what fails there."""
    assert hpmoe(*words, "--shrink") == 1
    captured = capsys.readouterr()
    assert "nothing smaller fails so" in captured.out, captured.out
    smallest, failure = captured.out.split("smallest  ")[1].split("\n", 1)
    command = shlex.split(smallest)
    assert command[0] == "hpmoe"
    assert "--shrink" not in command
    return command[1:], failure.removeprefix("fails     ")


def sizes(words: list[str]) -> dict[str, str]:
    """Values of the options of a command."""
    return dict(zip(words[1::2], words[2::2], strict=True))


@pytest.mark.usefixtures("planted_faults")
@pytest.mark.parametrize("level", ["queue", "code"])
def test_a_pass_that_raises_a_threshold(level: str, capsys: pytest.CaptureFixture[str]):
    passes = f"{PASSES},change-threshold{{event=return_done by=1}}"
    words, failure = shrunk(
        capsys, *LAYER, "--check", "--level", level, "-p", passes, "--interleavings", "3"
    )
    found = sizes(words)
    if level != "code":
        assert found.pop("--level") == level
    assert found == {
        "--preset": "deepseek-v3-tiny",
        "--passes": "lower-moe,change-threshold{event=return_done by=1}",
        "--ranks": "1",
        "--experts": "1",
        "--tokens": "1",
        "--top-k": "1",
        "--hidden": "16",
        "--width": "16",
    }
    assert failure.startswith(f"deadlock: @{FUNCTION}: order with seed 0: ")
    assert "@weighted_sum (0) on rank 0" in failure
    assert hpmoe(*words) == 1
    assert "deadlock" in capsys.readouterr().err


@pytest.mark.usefixtures("planted_faults")
def test_a_pass_that_lowers_a_threshold(capsys: pytest.CaptureFixture[str]):
    """A signal more than the event takes, which needs two producers: two experts or two ranks."""
    passes = "lower-moe,change-threshold{event=return_done by=-1}"
    words, failure = shrunk(capsys, *LAYER, "--level", "queue", "-p", passes)
    found = sizes(words)
    assert int(found["--experts"]) == 2
    assert (found["--tokens"], found["--hidden"], found["--width"]) == ("1", "16", "16")
    assert failure.startswith(f"interpreter: @{FUNCTION}: order with seed 0: @return (")
    assert "once more than its threshold 1" in failure


@pytest.mark.usefixtures("planted_faults")
def test_a_kernel_that_forgets_a_row(capsys: pytest.CaptureFixture[str]):
    passes = f"{PASSES},substitute-kernel{{kernel=swiglu by=forgetful_swiglu}}"
    words, failure = shrunk(capsys, *LAYER, "--check", "-p", passes)
    # The row that it leaves out is read next: no result is needed to see that.
    assert "--check" not in words
    found = sizes(words)
    assert found["--tokens"] == "4"
    assert found["--passes"] == "lower-moe,substitute-kernel{kernel=swiglu by=forgetful_swiglu}"
    assert (found["--ranks"], found["--experts"], found["--top-k"]) == ("1", "1", "1")
    assert failure.startswith("uninitialised: @moe_layer: order with seed 0: ")
    assert "in @matmul_1 (0, 0, 0, 0) on rank 0" in failure
    assert "at @a + 96 of rank 0" in failure


def test_a_compiled_layer_keeps_its_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    directory = tmp_path / "layer"
    words = ["--preset", "deepseek-v3-tiny", "--ranks", "2", "--tokens", "9", "-o", str(directory)]
    assert hpmoe("compile", *words, "--direction", "both") == 0
    source = directory / FUNCTION / "device.cpp"
    text = source.read_text()
    start = text.index("inline void Matmul1(")
    source.write_text(text[:start] + text[start:].replace("env.Signal(", "(void)(", 1))
    capsys.readouterr()
    run = [
        "run",
        str(directory),
        "--edited-code",
        "--launches",
        "3",
        "--routing",
        "one-expert",
        "--check",
    ]
    assert hpmoe(*run, "--direction", "both", "--interleavings", "2", "--shrink") == 1
    captured = capsys.readouterr()
    assert "compiled already: only launches, tokens and routing become smaller" in captured.out
    assert captured.err == f"note: {FUNCTION}/device.cpp was edited since it was compiled\n"
    smallest = captured.out.split("smallest  hpmoe ")[1].split("\n", 1)[0]
    assert smallest == f"run {shlex.quote(str(directory))} --edited-code --tokens 0,1"


@pytest.mark.usefixtures("planted_faults")
def test_a_budget(capsys: pytest.CaptureFixture[str]):
    passes = f"{PASSES},change-threshold{{event=return_done by=1}}"
    words = [*LAYER, "--level", "queue", "-p", passes, "--shrink", "--shrink-runs", "3"]
    assert hpmoe(*words) == 1
    out = capsys.readouterr().out
    assert "3 of at most 3 smaller runs tried; --shrink-runs N allows more" in out
    assert "smallest  hpmoe run " in out


@pytest.mark.usefixtures("planted_faults")
def test_the_page_about_it(capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).parents[3] / "docs" / "finding-faults.md").read_text()
    command, end = (page.split(f"```{kind} shrink\n")[1].split("```")[0] for kind in ("sh", "text"))
    assert hpmoe(*shlex.split(command.replace("\\\n", ""))[1:]) == 1
    # The page breaks lines that are too wide for it.
    assert " ".join(capsys.readouterr().out.split()).endswith(" ".join(end.split()))


def test_nothing_fails(capsys: pytest.CaptureFixture[str]):
    assert hpmoe(*LAYER, "--level", "queue", "-p", PASSES, "--shrink") == 0
    captured = capsys.readouterr()
    assert "nothing fails, so there is nothing to make smaller" in captured.out
    assert "smallest" not in captured.out


def test_what_can_not_be_run(capsys: pytest.CaptureFixture[str]):
    assert hpmoe(*LAYER, "--hidden", "100", "--shrink") == 1
    assert "hidden: expected a multiple of 16, found 100" in capsys.readouterr().err
