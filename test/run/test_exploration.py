"""`hpmoe run --interleavings`: a failing order is told with the command that repeats it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from hpmoe_ir.frontends.build_layer import FUNCTION
from hpmoe_ir.tools.hpmoe import main
from hpmoe_ir.tools.run_orders import order_seeds

SMALL = "--preset deepseek-v3-tiny --ranks 2 --experts 4 --tokens 6 --hidden 32 --width 16".split()


def hpmoe(*words: str) -> int:
    """Exit status of a command."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.fixture(scope="module")
def racy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer whose generated code does not wait before SwiGLU: right in some orders only."""
    directory = tmp_path_factory.mktemp("racy") / "layer"
    assert hpmoe("compile", *SMALL, "--direction", "both", "-o", str(directory)) == 0
    source = directory / FUNCTION / "device.cpp"
    text = source.read_text()
    start = text.index("inline void Swiglu(")
    body = text[start:].replace("env.Wait(env.Size(kMatmulDone)", "(void)(env.Size(kMatmulDone)", 1)
    source.write_text(text[:start] + body)
    return directory


def test_seeds_are_drawn_from_the_seed():
    assert order_seeds(7, 3) == order_seeds(7, 5)[:3]
    assert order_seeds(7, 1) == [7]
    assert len(set(order_seeds(7, 500) + order_seeds(8, 500))) == 1000


def test_a_failing_order_is_repeated_alone(racy: Path, capsys: pytest.CaptureFixture[str]):
    assert hpmoe("run", str(racy), "--edited-code", "--interleavings", "40", "--launches", "2") == 1
    captured = capsys.readouterr()
    assert "orders    40 from --seed 0: 0, " in captured.out
    message, command = captured.err.rsplit("run it alone: ", 1)
    assert f"@{FUNCTION}: order with seed " in message
    words = shlex.split(command)
    assert words[:2] == ["hpmoe", "run"]
    assert "--order-seed" in words
    assert "--interleavings" not in words
    assert hpmoe(*words[1:]) == 1
    again = capsys.readouterr().err
    assert again.splitlines() == message.rstrip().splitlines()


def test_an_unbroken_layer_has_one_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for level in ("tile", "queue", "code"):
        words = ["--level", level, "--direction", "both", "--launches", "2", "--check"]
        assert hpmoe("run", *SMALL, *words, "--interleavings", "6", "--seed", "3") == 0
        out = capsys.readouterr().out
        assert out.count("2 launches, 6 orders, the same bits in each") == 2
        assert "gradients passed against MindSpore" in out


def test_a_late_rank_changes_nothing(capsys: pytest.CaptureFixture[str]):
    words = ["--direction", "both", "--launches", "3", "--check", "--late", "1"]
    assert hpmoe("run", *SMALL, *words, "--interleavings", "4") == 0
    assert capsys.readouterr().out.count("3 launches, 4 orders, the same bits in each") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--order-seed", "1,x"], "--order-seed: expected seeds separated by commas, found '1,x'"),
        (["--order-seed", "-1"], "--seed, --order-seed: expected 0 or more, found -1"),
        (["--order-seed", "1", "--interleavings", "2"], "--order-seed names the orders already"),
        (["--level", "comm", "--interleavings", "2"], "--interleavings: the level comm is run"),
        (["--late", "2"], "--late: expected ranks 0 to 1, found 2"),
        (["--late", "a"], "--late: expected ranks separated by commas, found 'a'"),
        (["--late", "1", "--level", "queue"], "--late: only the level code has late ranks"),
        (["--level", "moe", "--order-seed", "2"], "--order-seed: the level moe is run operation"),
    ],
)
def test_orders_that_are_none(words: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert hpmoe("run", *SMALL, *words) == 1
    assert message in capsys.readouterr().err
