"""`hpmoe simulate`: tables and files of timed runs, and the wrong options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.machine import load_machine
from hpmoe_ir.tools.hpmoe import main

TINY = ["--preset", "deepseek-v3-tiny", "--ranks", "2", "--tokens", "64"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints that succeeds."""
    with pytest.raises(SystemExit) as stop:
        main(["simulate", *words])
    captured = capsys.readouterr()
    assert stop.value.code == 0, captured.err
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message of a command that fails and prints nothing else."""
    with pytest.raises(SystemExit) as stop:
        main(["simulate", *words])
    captured = capsys.readouterr()
    assert stop.value.code == 1
    assert captured.out == ""
    return captured.err.strip()


def rows_of(out: str) -> list[list[str]]:
    """The rows of the table of times."""
    lines = out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("ranks "))
    last = lines.index("", first)
    return [line.split() for line in lines[first + 1 : last]]


def test_schedules_ranks_and_routings_make_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "out.json"
    words = [*TINY[:2], "--ranks", "2,4", "--tokens", "64", "--schedule", "serial,waves"]
    words += ["--routing", "balanced,zipf:1.2"]
    out = printed(capsys, *words, "--json", str(path))
    rows = rows_of(out)
    assert [row[:4] for row in rows] == [
        [ranks, routing, "@moe_layer", schedule]
        for ranks in ("2", "4")
        for routing in ("balanced", "zipf:1.2")
        for schedule in ("serial", "waves")
    ]
    found: list[dict[str, Any]] = json.loads(path.read_text())
    assert len(found) == len(rows)
    for row, content in zip(rows, found, strict=True):
        # One rank stands for all where the routing is the same for each.
        simulated = 1 if row[1] == "balanced" else int(row[0])
        assert row[-3:] == [str(simulated), "of", row[0]]
        assert content["simulated_ranks"] == simulated
        assert float(row[4]) == pytest.approx(content["time_us"], abs=0.06)
        assert float(row[5]) == pytest.approx(content["serial_us"] / content["time_us"], abs=0.006)
        assert content["bound_us"] == max(content["bounds"].values())
        assert content["bounds"][content["bound"] + "_us"] == content["bound_us"]
        total = sum(content["losses"].values())
        assert total == pytest.approx(content["time_us"] - content["bound_us"], abs=1e-4)
        assert all(0 <= part <= 1 for part in content["utilisation"].values())
        assert 0 < content["exposed_communication_us"] < content["time_us"]
        assert content["machine"] == {
            "name": "ascend-a3",
            "sha256": load_machine("ascend-a3").digest,
        }
        lengths = {name: len(column) for name, column in content["tasks"].items()}
        assert len(set(lengths.values())) == 1
    serial, waves = found[0], found[1]
    assert serial["losses"]["stages_us"] > 0
    assert waves["losses"]["stages_us"] == 0
    assert serial["time_us"] > waves["time_us"]


def test_all_ranks_where_asked_for(capsys: pytest.CaptureFixture[str]):
    words = [*TINY, "--all-ranks", "--no-serial"]
    row = rows_of(printed(capsys, *words))[0]
    assert row[-3:] == ["2", "of", "2"]
    assert row[5] == "-"


def test_no_task_may_be_later_than_its_slack(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "out.json"
    printed(capsys, *TINY, "--routing", "zipf:1.2", "--no-serial", "--json", str(path))
    found = json.loads(path.read_text())[0]
    tasks = {name: np.array(column) for name, column in found["tasks"].items()}
    assert tasks["slack_us"].min() == 0
    last = tasks["end_us"].argmax()
    assert tasks["slack_us"][last] == 0
    assert (tasks["end_us"] + tasks["slack_us"] <= found["time_us"] + 1e-5).all()
    # Whoever is waited for has no more slack than the wait allows.
    for waiter in np.flatnonzero(tasks["sender"] >= 0):
        sender = tasks["sender"][waiter]
        allowed = tasks["slack_us"][waiter] + max(
            0, tasks["ready_us"][waiter] - tasks["end_us"][sender]
        )
        assert tasks["slack_us"][sender] <= allowed + 1e-5


def test_the_same_bytes_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    outputs: list[tuple[str, bytes]] = []
    for name in ("1", "2"):
        out = printed(capsys, *TINY, "--json", str(tmp_path / name))
        outputs.append((out, (tmp_path / name).read_bytes()))
    assert outputs[0] == outputs[1]


def test_a_compiled_layer_is_timed_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """As the preset is, with a serial schedule made from its graph; also on another machine."""
    folder = str(tmp_path / "layer")
    with pytest.raises(SystemExit):
        main(["compile", *TINY, "--direction", "both", "-o", folder])
    capsys.readouterr()
    compiled = rows_of(printed(capsys, folder, "--direction", "both"))
    preset = rows_of(printed(capsys, *TINY, "--direction", "both"))
    assert [row[3] for row in compiled] == ["compiled", "compiled"]
    assert [row[4:] for row in compiled] == [row[4:] for row in preset]
    slow = tmp_path / "slow.toml"
    slow.write_text(
        'name = "slow"\nbase = "ascend-a3"\n[latency]\n'
        'poll = { value = 1e-5, unit = "s", source = "a question" }\n'
    )
    slower = rows_of(printed(capsys, folder, "--machine", str(slow)))
    assert float(slower[0][4]) > float(compiled[0][4])
    less = tmp_path / "less.toml"
    less.write_text(
        'name = "less"\nbase = "ascend-a3"\n[cores]\n'
        'aic = { value = 8, unit = "cores", source = "a question" }\n'
    )
    message = refused(capsys, folder, "--machine", str(less))
    assert message == (
        "error: --machine: cores.aic: expected 24 cores, as the layer is compiled for ascend-a3, "
        "found 8"
    )
    message = refused(capsys, folder, "--schedule", "waves")
    assert message == "error: --schedule: the layer is compiled already"


def test_passes_instead_of_a_schedule(capsys: pytest.CaptureFixture[str]):
    passes = printed(capsys, *TINY, "-p", "lower-moe{policy=waves}")
    name = printed(capsys, *TINY, "--schedule", "waves")
    assert rows_of(passes)[0][4:] == rows_of(name)[0][4:]
    assert rows_of(passes)[0][3] == "passes"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "error: expected either a graph file or --preset NAME"),
        ([*TINY, "--schedule", "wave"], "error: --schedule: expected one of "),
        ([*TINY, "--schedule", "waves,"], "error: --schedule: expected names separated by commas"),
        ([*TINY[:2], "--ranks", "2,x"], "error: --ranks: expected numbers separated by commas"),
        ([*TINY[:2], "--ranks", "2,3"], "error: layer 'deepseek-v3-tiny': experts: expected a mu"),
        ([*TINY, "--routing", "balanced,zipf"], "error: routing 'zipf': expected zipf:S with a"),
        ([*TINY, "--tokens", "65,1,1"], "error: tokens: expected 2 counts, one for each rank"),
        ([*TINY, "--machine", "ascend-a9"], "error: --machine: unknown machine 'ascend-a9'"),
        ([*TINY, "--capacity", "8"], "error: rank 0: expected at most 8 rows to receive"),
        ([*TINY, "--schedule", "waves", "-p", "lower-moe"], "error: --schedule: it is among the"),
        ([*TINY, "--json", "no/such/folder/x.json"], "no/such/folder/x.json: error: can't write"),
    ],
)
def test_what_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert refused(capsys, *words).startswith(message)
