"""Schedules by name, from the command line to a checked result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpmoe_ir.driver.specs import pipeline_text
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.schedule.named import NAMED, SCHEDULE_NAMES
from hpmoe_ir.tools.hpmoe import main

TINY = ["--preset", "deepseek-v3-tiny", "--ranks", "2"]
RIGHT_MESSAGES = (
    (
        ["--schedule", "publishd"],
        "--schedule: expected one of " + ", ".join(SCHEDULE_NAMES) + ", found 'publishd'; did you "
        "mean 'published'?",
    ),
    (
        ["--machine", "ascend-a9"],
        "--machine: unknown machine 'ascend-a9'; known: ascend-a2, ascend-a3; did you mean "
        "'ascend-a3'?",
    ),
    (
        ["--schedule", "serial", "-p", "lower-moe"],
        "--schedule: it is among the options of --passes; give one of them",
    ),
    (
        ["--machine", "ascend-a3", "-p", "lower-moe"],
        "--machine: it is among the options of --passes; give one of them",
    ),
)


@pytest.mark.parametrize("name", SCHEDULE_NAMES)
def test_a_schedule_computes_what_mindspore_does(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both directions of generated code, in two orders of the cores."""
    words = ["run", *TINY, "--tokens", "40", "--schedule", name, "--direction", "both", "--check"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--interleavings", "2"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "check     passed against MindSpore 2.10" in out
    assert "gradients passed against MindSpore 2.10" in out


def test_an_end_cut_finely_computes_what_mindspore_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The last expert's way back by columns, with sums that begin before all has come."""
    passes = "lower-moe{policy=overlap rotate-sources=true return-cols=16 last-experts=1}"
    words = ["run", *TINY, "--tokens", "40", "-p", passes, "--direction", "both", "--check"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--interleavings", "2"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "check     passed against MindSpore 2.10" in out
    assert "gradients passed against MindSpore 2.10" in out


def test_a_schedule_is_its_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What --schedule compiles is what its pipeline compiles, byte by byte."""
    passes = pipeline_text(NAMED["published"].passes(load_machine("ascend-a2")))
    for folder, words in (
        ("schedule", ["--schedule", "published", "--machine", "ascend-a2"]),
        ("passes", ["-p", passes]),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["compile", *TINY, *words, "-o", str(tmp_path / folder)])
        assert stop.value.code == 0
    files = [
        {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        for root in (tmp_path / "schedule", tmp_path / "passes")
    ]
    assert files[0] == files[1]
    manifest = json.loads((tmp_path / "schedule" / "manifest.json").read_text())
    assert "policy=published" in manifest["pipeline"]
    assert manifest["kernels"]["moe_layer"]["machine"] == "ascend-a2"


def test_the_chosen_schedule_is_printed_and_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`auto`, the default, says what it took, and the manifest has just that."""
    words = [
        "compile",
        *TINY,
        "--tokens",
        "64",
        "-o",
        str(tmp_path / "layer"),
    ]
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0
    chosen, *others = capsys.readouterr().out.splitlines()
    passes = chosen.removeprefix("schedule  auto, for any routing: ")
    assert next(line for line in others if " us  " in line and "lower-moe" in line).endswith(passes)
    with pytest.raises(SystemExit) as stop:
        main(["compile", *TINY, "--tokens", "64", "-p", passes, "-o", str(tmp_path / "passes")])
    manifests = [(tmp_path / d / "manifest.json").read_bytes() for d in ("layer", "passes")]
    assert manifests[0] == manifests[1]


@pytest.mark.parametrize(("words", "message"), RIGHT_MESSAGES)
def test_what_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compile", *TINY, *words, "-o", str(tmp_path / "layer")])
    assert stop.value.code == 1
    assert capsys.readouterr().err.strip() == f"error: {message}"
    assert not (tmp_path / "layer").exists()
