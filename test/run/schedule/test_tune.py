"""The search of a schedule: seeded, within its budget, and what it writes is a pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.schedule.auto import Candidate, evaluate
from hpmoe_ir.schedule.candidates import Layer, auto_lowerings
from hpmoe_ir.schedule.conditions import USUAL
from hpmoe_ir.schedule.tune import Budget, option_values, tune
from hpmoe_ir.tools.hpmoe import main

SIZES = ["--preset", "deepseek-v3-tiny", "--ranks", "2", "--tokens", "64"]


def layer() -> Layer:
    config = preset_layer("deepseek-v3-tiny").with_sizes(ranks=2, tokens=64)
    graph, machine = layer_module(config), load_machine("ascend-a3")
    return Layer(make_context(), graph, None, machine, USUAL[1:3])


def test_the_same_seed_finds_the_same_and_nothing_slower_than_auto():
    found: list[list[Candidate]] = [[], []]
    tried = len(auto_lowerings(layer())) + 6
    for reports in found:
        best, count = tune(layer(), Budget(1000, tried), 3, reports.append)
        assert count == tried
        assert reports[-1] == best
    assert found[0] == found[1]
    times = [c.time_us for c in found[0]]
    assert times == sorted(times, reverse=True)
    assert times[0] <= 1.05 * min(evaluate(layer(), (p,)).time_us for p in auto_lowerings(layer()))


def test_the_search_ends_with_its_time():
    """A budget that is spent by the candidates of `auto` leaves none for others."""
    best, count = tune(layer(), Budget(1e-9), 0)
    assert count == len(auto_lowerings(layer()))
    assert best.kernels


def test_values_are_within_the_layer():
    values = option_values(layer())
    assert list(values["source_groups"]) == [1, 2]
    assert max(n for n in values["return_cols"] if isinstance(n, int)) <= layer().config.hidden


def test_what_is_written_compiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    written = tmp_path / "passes.txt"
    words = ["tune", *SIZES, "--trials", "8", "--direction", "both", "-o", str(written)]
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("seed      0\n")
    assert "us of 8 pipelines tried" in out
    passes = written.read_text().strip()
    with pytest.raises(SystemExit) as stop:
        main(["compile", *SIZES, "-p", passes, "-o", str(tmp_path / "layer")])
    assert stop.value.code == 0
    assert (tmp_path / "layer" / "moe_layer_backward").is_dir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seconds", "0"], "--seconds: expected a positive number, found 0"),
        (["--seconds", "nan"], "--seconds: expected a positive number, found nan"),
        (
            ["--schedule-for", "imbalance:9"],
            "--schedule-for: imbalance: expected at most 2 times the mean, when every token "
            "chooses 2 experts of one rank, found 9",
        ),
        (["--trials", "0"], "--trials: expected at least 1, found 0"),
        (
            ["--recompute", "swiglu"],
            "--recompute: there is no backward direction, see --direction",
        ),
    ],
)
def test_what_is_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as stop:
        main(["tune", *SIZES, *words, "-o", str(tmp_path / "passes.txt")])
    assert stop.value.code == 1
    assert capsys.readouterr().err.strip() == f"error: {message}"
    assert not (tmp_path / "passes.txt").exists()


def test_the_place_is_refused_before_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("hpmoe_ir.schedule.tune.tune", None)
    path = tmp_path / "none" / "passes.txt"
    with pytest.raises(SystemExit) as stop:
        main(["tune", *SIZES, "-o", str(path)])
    assert stop.value.code == 1
    message = f"{path}: error: can't write the file: No such file or directory"
    assert capsys.readouterr().err.strip() == message


def test_without_a_compiler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as stop:
        main(["tune", *SIZES, "-o", str(tmp_path / "passes.txt")])
    assert stop.value.code == 1
    message = "error: the CPU model needs g++ (C++17), and there is none on the PATH"
    assert capsys.readouterr().err.strip() == message
    assert list(tmp_path.iterdir()) == []
