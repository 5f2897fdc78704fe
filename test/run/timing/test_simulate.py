"""`hpmoe simulate`: tables of timed runs, and the wrong options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulate_command import TINY, printed, refused, rows_of

from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.tools.hpmoe import main


def test_the_schedule_that_is_chosen_is_a_row_like_others(capsys: pytest.CaptureFixture[str]):
    out = printed(capsys, *TINY, "--schedule", "depth-first,auto", "--no-serial")
    assert "schedule  auto, for any routing: lower-moe" in out
    rows = rows_of(out)
    assert [row[3] for row in rows] == ["depth-first", "auto"]
    times = [float(row[4]) for row in rows]
    assert times[1] <= 1.05 * times[0], "chosen for another routing"


def test_noise_on_every_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A task takes as much more or less of its time as its number and the seed say."""
    words = [*TINY, "--schedule", "serial,depth-first", "--all-ranks", "--routing", "balanced"]
    found: dict[str, list[float]] = {}
    for name, noise in (
        ("none", ["--task-noise", "0"]),
        ("some", ["--task-noise", "0.2"]),
        ("again", ["--task-noise", "0.2"]),
        ("other", ["--task-noise", "0.2", "--seed", "1"]),
    ):
        rows = rows_of(printed(capsys, *words, *noise))
        found[name] = [float(row[4]) for row in rows]
    assert found["some"] == found["again"]
    for none, *noisy in zip(found["none"], found["some"], found["other"], strict=True):
        assert noisy[0] != noisy[1]
        assert all(0.8 * none < us < 1.2 * none and us != none for us in noisy)
    for part in ("1", "-0.1", "nan"):
        message = refused(capsys, *TINY, "--task-noise", part)
        assert message.startswith("error: --task-noise: expected a part from 0 to below 1, found ")


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
        own = content["program_bounds"]
        assert content["program_bound_us"] == own[content["program_bound"] + "_us"]
        assert content["program_bound_us"] == max(own.values()) <= content["time_us"]
        parts = content["overlap"]
        assert parts["measured_us"] == content["time_us"]
        assert parts["matrix_us"] == own["matrix_tasks_us"]
        total = sum(content["losses"].values())
        assert total == pytest.approx(content["time_us"] - content["bound_us"], abs=1e-4)
        assert all(0 <= part <= 1 for part in content["utilisation"].values())
        assert 0 < content["exposed_communication_us"] < content["time_us"]
        assert 0 < content["remote_signals"] < content["signals"]
        assert content["machine"] == {
            "name": "ascend-a3",
            "sha256": load_machine("ascend-a3").digest,
        }
        lengths = {name: len(column) for name, column in content["tasks"].items()}
        assert len(set(lengths.values())) == 1
    serial, waves = found[0], found[1]
    assert serial["bounds"] == waves["bounds"], "no schedule moves them"
    assert serial["overlap"]["reached"] < waves["overlap"]["reached"] <= 1
    first = out.splitlines().index(
        "what the program's own order can still gain, and how its parts overlap, us"
    )
    head, *lines = out.splitlines()[first + 1 : first + 2 + len(rows)]
    assert head.split()[-5:] == ["T_comm", "T_matrix", "T_vector", "T_measured", "overlap"]
    for line, content in zip(lines, found, strict=True):
        cells = line.split()
        assert float(cells[4]) == pytest.approx(content["program_bound_us"], abs=0.06)
        assert cells[5] == content["program_bound"]
        ratio = content["time_us"] / content["program_bound_us"]
        assert float(cells[6]) == pytest.approx(ratio, abs=6e-4)
        assert float(cells[10]) == pytest.approx(content["time_us"], abs=0.06)
        reached = float(cells[11].rstrip("%")) / 100
        assert reached == pytest.approx(content["overlap"]["reached"], abs=6e-4)
    assert serial["losses"]["stages_us"] > 0
    assert waves["losses"]["stages_us"] == 0
    assert serial["time_us"] > waves["time_us"]


def test_all_ranks_where_asked_for(capsys: pytest.CaptureFixture[str]):
    words = [*TINY, "--all-ranks", "--no-serial"]
    row = rows_of(printed(capsys, *words))[0]
    assert row[-3:] == ["2", "of", "2"]
    assert row[5] == "-"


def test_one_rank_does_not_communicate(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """What it puts into its own memory does not use the link, and is no communication."""
    path = tmp_path / "out.json"
    words = [*TINY[:2], "--tokens", "64", "--no-serial", "--json", str(path)]
    for ranks, communicates in (("1", False), ("2", True)):
        printed(capsys, *words, "--ranks", ranks)
        found = json.loads(path.read_text())[0]
        assert (found["exposed_communication_us"] > 0) == communicates
        assert (found["utilisation"]["link"] > 0) == communicates
        assert (found["losses"]["link_us"] > 0) <= communicates


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
        ([*TINY[:4], "--tokens", "65,1,1"], "error: tokens: expected 2 counts, one for each rank"),
        ([*TINY, "--machine", "ascend-a9"], "error: --machine: unknown machine 'ascend-a9'"),
        ([*TINY, "--machine", "ascend-a3:x"], "error: --machine: unknown variant 'x' of machine"),
        (
            [*TINY, "--machine", "ascend-a2", "--links", "measured"],
            "error: --links: machine 'ascend-a2': no measured links: [shared_bandwidth] link_in",
        ),
        (
            [*TINY, "--links", "measured", "-p", "lower-moe"],
            "error: --links: it is among the options of --passes; give one of them",
        ),
        ([*TINY, "--capacity", "8"], "error: rank 0: expected at most 8 rows to receive"),
        ([*TINY, "--schedule", "waves", "-p", "lower-moe"], "error: --schedule: it is among the"),
        (
            [*TINY, "--schedule", "waves,list", "--html", "x.html"],
            "error: --html: expected one configuration, found 2; give one schedule, routing, ",
        ),
        (
            [*TINY, "--direction", "both", "--trace", "x.json"],
            "error: --trace: expected one configuration, found 2",
        ),
        (
            [*TINY, "--json", "x", "--trace", "x"],
            "error: --json, --trace, --html, --op-summary: expected different files",
        ),
        ([*TINY, "--seed", "-1"], "error: --seed: expected 0 or more, found -1"),
        ([*TINY, "--json", "no/such/folder/x.json"], "no/such/folder/x.json: error: can't write"),
    ],
)
def test_what_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert refused(capsys, *words).startswith(message)


def test_links_as_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """One switch for passes, clocks and bounds; also of a compiled layer, and in its passes."""
    found: dict[str, dict[str, Any]] = {}
    for links, machine in (("nominal", "ascend-a3"), ("measured", "ascend-a3:measured")):
        path = tmp_path / f"{links}.json"
        words = [*TINY, "--no-serial", "--json", str(path)]
        out = printed(capsys, *words, "--links", links)
        assert f"machine   {machine}, sha256 " in out
        found[links] = json.loads(path.read_text())[0]
        assert found[links]["machine"]["name"] == machine
        same = printed(capsys, *words, "--machine", machine)
        assert same == out
        assert printed(capsys, *words, "--machine", "ascend-a3:measured", "--links", links) == out
    nominal, measured = found["nominal"], found["measured"]
    rates = [load_machine(n).for_ranks(2).rates for n in ("ascend-a3", "ascend-a3:measured")]
    slower = rates[0].shared_bandwidth_link_out / rates[1].shared_bandwidth_link_out
    assert measured["bounds"]["link_out_us"] == pytest.approx(
        slower * nominal["bounds"]["link_out_us"], rel=1e-4
    )
    assert measured["bounds"]["matrix_us"] == nominal["bounds"]["matrix_us"]
    assert 'machine="ascend-a3:measured"' in measured["pipeline"]
    # What was compiled for one is timed on the other.
    folder = str(tmp_path / "layer")
    with pytest.raises(SystemExit) as stop:
        main(["compile", *TINY, "--links", "measured", "-o", folder])
    assert stop.value.code == 0
    capsys.readouterr()
    own = rows_of(printed(capsys, folder, "--no-serial"))
    assert float(own[0][4]) == pytest.approx(measured["time_us"], abs=0.06)
    other = printed(capsys, folder, "--no-serial", "--links", "nominal")
    assert "machine   ascend-a3, sha256 " in other
    words = [*TINY, "-p", 'lower-moe{machine="ascend-a3:measured"}', "--no-serial"]
    assert rows_of(printed(capsys, *words))[0][4:] == own[0][4:]
