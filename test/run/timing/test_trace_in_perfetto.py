"""The trace of `hpmoe simulate` in Perfetto's own trace processor."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from perfetto_engine import TraceProcessorException, opened

from hpmoe_ir.tools.hpmoe import main

ERRORS = "select name, value from stats where severity != 'info' and value != 0"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A trace and what --json says of the same run: all ranks, and skew for long waits."""
    folder = tmp_path_factory.mktemp("run")
    trace, numbers = folder / "trace.json", folder / "run.json"
    words = ["simulate", "--preset", "deepseek-v3-tiny", "--ranks", "2", "--tokens", "64"]
    words += ["--routing", "zipf:1.2", "--no-serial", "--trace", str(trace), "--json", str(numbers)]
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0
    return trace, json.loads(numbers.read_text())[0]


def times_ns(run: dict[str, Any], name: str) -> npt.NDArray[np.int64]:
    """A column of times as a trace has them: whole ns. A duration is a difference of two."""
    return np.rint(np.array(run["tasks"][f"{name}_us"]) * 1000).astype(np.int64)


def core_name(core: int) -> str:
    """Of a core of ascend-a3, which has 24 AICs."""
    return f"AIC {core}" if core < 24 else f"AIV {core - 24}"


def test_the_longest_wait(run: tuple[Path, dict[str, Any]]):
    """Its time, its core, the task that it waits for, and the flow from there: the same, to the ns,
    as in the JSON of the run."""
    trace, found = run
    turn, ready = times_ns(found, "turn"), times_ns(found, "ready")
    tasks = found["tasks"]
    with opened(trace) as query:
        rows = query(
            "select wait.dur, wait.ts, process.name as rank, thread.name as core,"
            " task.name as task, extract_arg(wait.arg_set_id, 'args.for') as wait_for,"
            " extract_arg(wait.arg_set_id, 'args.rank') as of_rank,"
            " signaller.name as family, peer.name as peer,"
            " extract_arg(signaller.arg_set_id, 'args.task') as signaller "
            "from slice wait join thread_track lane on wait.track_id = lane.id "
            "join thread using (utid) join process using (upid) "
            "join slice task on task.track_id = lane.id and task.ts = wait.ts + wait.dur "
            "join flow on slice_in = task.id join slice signaller on slice_out = signaller.id "
            "join thread_track peer_lane on signaller.track_id = peer_lane.id "
            "join thread peer_core on peer_core.utid = peer_lane.utid "
            "join process peer on peer.upid = peer_core.upid "
            "where wait.name = 'wait'"
            " and wait.dur = (select max(dur) from slice where name = 'wait')"
        )
    longest = (ready - turn).max()
    assert longest > 0
    expected: Counter[tuple[object, ...]] = Counter()
    for i in np.flatnonzero(ready - turn == longest):
        sender = tasks["sender"][i]
        expected[
            longest,
            turn[i],
            f"rank {tasks['rank'][i]}",
            core_name(tasks["core"][i]),
            found["families"][tasks["family"][i]],
            found["families"][tasks["family"][sender]],
            f"rank {tasks['rank'][sender]}",
        ] += 1
    # A task that waits for several events has a flow for each; one is from the last signal.
    last = [
        (*wait, family, peer)
        for *wait, wait_for, of_rank, family, peer, signaller in rows
        if (wait_for, f"rank {of_rank}") == (signaller, peer)
    ]
    assert Counter(last) == expected


def test_the_query_of_the_page(run: tuple[Path, dict[str, Any]]):
    """docs/reports.md has one for the longest waits."""
    trace, found = run
    page = (Path(__file__).parents[3] / "docs" / "reports.md").read_text()
    sql = page.split("```sql\n")[1].split("```")[0]
    with opened(trace) as query:
        rows = query(sql)
    waits = np.sort(times_ns(found, "ready") - times_ns(found, "turn"))[::-1]
    assert [row[0] for row in rows] == waits[:10].tolist()


def test_all_slices_and_flows(run: tuple[Path, dict[str, Any]]):
    """Nothing is left out, moved or bound elsewhere on the way in."""
    trace, found = run
    events = json.loads(trace.read_text())["traceEvents"]
    turn, ready, end = (times_ns(found, name) for name in ("turn", "ready", "end"))
    expected: Counter[tuple[object, ...]] = Counter()
    for i, (rank, core) in enumerate(
        zip(found["tasks"]["rank"], found["tasks"]["core"], strict=True)
    ):
        lane = (f"rank {rank}", core_name(core))
        family = found["families"][found["tasks"]["family"][i]]
        expected[*lane, family, ready[i], end[i] - ready[i]] += 1
        if ready[i] > turn[i]:
            expected[*lane, "wait", turn[i], ready[i] - turn[i]] += 1
    with opened(trace) as query:
        assert query(ERRORS) == []
        slices = query(
            "select process.name as rank, thread.name as core, slice.name, ts, slice.dur "
            "from slice join thread_track track on track_id = track.id "
            "join thread using (utid) join process using (upid)"
        )
        assert Counter(slices) == expected
        flows = sum(event["ph"] == "s" for event in events)
        assert flows > 0
        assert query("select count() from flow") == [(flows,)]
        # A signal is never from or to a wait, and never from the future.
        assert query(
            "select count() from flow join slice a on slice_out = a.id "
            "join slice b on slice_in = b.id "
            "where a.name != 'wait' and b.name != 'wait' and a.ts < b.ts"
        ) == [(flows,)]


def cut(text: str) -> str:
    """The first half."""
    return text[: len(text) // 2]


def one_thread(text: str) -> str:
    """All cores of a rank are one thread."""
    trace = json.loads(text)
    for event in trace["traceEvents"]:
        event["tid"] = 1000 + event["pid"]
    return json.dumps(trace)


def flow_from_nowhere(text: str) -> str:
    """The signals that begin flows come before any slice."""
    trace = json.loads(text)
    for event in trace["traceEvents"]:
        if event["ph"] == "s":
            event["ts"] = 0
    return json.dumps(trace)


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (one_thread, "slice_drop_overlapping_complete_event"),
        (flow_from_nowhere, "flow_no_enclosing_slice"),
    ],
)
def test_damage_is_an_error_of_the_import(
    run: tuple[Path, dict[str, Any]], damage: Callable[[str], str], error: str, tmp_path: Path
):
    path = tmp_path / "trace.json"
    path.write_text(damage(run[0].read_text()))
    with opened(path) as query:
        assert error in {name for name, _ in query(ERRORS)}


def test_half_a_trace_does_not_open(run: tuple[Path, dict[str, Any]], tmp_path: Path):
    path = tmp_path / "trace.json"
    path.write_text(cut(run[0].read_text()))
    with opened(path) as query, pytest.raises(TraceProcessorException):
        query("select count() from slice")
