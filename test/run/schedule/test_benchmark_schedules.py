"""`benchmarks/schedules.py` on a tiny layer: its numbers are those of `hpmoe simulate`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.tools.hpmoe import main

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "schedules.py"
TINY = ["--preset", "deepseek-v3-tiny", "--ranks", "2"]


def printed(store: Path, *words: str) -> str:
    """What the command prints."""
    command = [sys.executable, str(SCRIPT), "--date", "2000-01-01", *TINY, "--results", str(store)]
    return subprocess.run([*command, *words], check=True, capture_output=True, text=True).stdout


def rows_of(page: str) -> list[list[str]]:
    """Cells of the rows of a page's only table."""
    table = page.rstrip().rsplit("\n\n", 1)[1]
    return [re.split(r" {2,}", line.strip()) for line in table.splitlines()[1:]]


def simulated(tmp_path: Path, *words: str) -> dict[str, Any]:
    """The object that `hpmoe simulate` writes for a configuration."""
    path = tmp_path / "out.json"
    with pytest.raises(SystemExit) as stop:
        main(["simulate", *TINY, *words, "--json", str(path)])
    assert stop.value.code == 0
    (found,) = json.loads(path.read_text())
    return found


def test_calibration_and_what_is_kept_of_it(tmp_path: Path):
    store = tmp_path / "kept" / "results.jsonl"
    page = printed(store, "--section", "calibration")
    assert page.startswith("2000-01-01, machine ascend-a3, ")
    assert load_machine("ascend-a3").digest in page
    (row,) = rows_of(page)
    expected = simulated(tmp_path, "--schedule", "published")
    assert row[0] == "2"
    assert row[1] == f"{expected['serial_us']:.1f}"
    assert sum(float(cell.rstrip("%")) for cell in row[2:6]) == pytest.approx(100, abs=0.3)
    stock = simulated(tmp_path, "--schedule", "stock")["time_us"]
    assert row[6] == f"{stock:.1f}"
    assert row[7] == f"{expected['time_us']:.1f}"
    assert row[8] == f"{expected['serial_us'] / expected['time_us']:.3f}"
    assert row[9] == f"{stock / expected['time_us']:.3f}"

    # What is kept is used again; a result of other sources is not.
    kept = store.read_text()
    assert printed(store, "--section", "calibration") == page
    assert store.read_text() == kept
    other = [json.loads(line) for line in kept.splitlines()]
    for entry in other:
        if entry["result"]["time_us"] == pytest.approx(expected["time_us"]):
            entry["result"]["time_us"] = 1.0
    store.write_text("".join(json.dumps(entry) + "\n" for entry in other))
    assert rows_of(printed(store, "--section", "calibration"))[0][7] == "1.0"
    stale = [json.loads(line) for line in kept.splitlines()]
    for entry in stale:
        entry["case"] = json.dumps({**json.loads(entry["case"]), "source": ""}, sort_keys=True)
        entry["result"]["time_us"] = 1.0
    store.write_text("".join(json.dumps(entry) + "\n" for entry in stale))
    assert printed(store, "--section", "calibration") == page


def test_skew(tmp_path: Path):
    words = ["--section", "skew", "--schedule", "waves", "--direction", "forward"]
    out = printed(tmp_path / "results.jsonl", *words)
    rows = rows_of(out)
    # Two ranks: one can't receive more than twice the mean.
    assert [row[1] for row in rows] == [f"imbalance:{x}" for x in (1, 2, 4, 7)]
    assert "expected at most 2 times the mean" in rows[2][4]
    run = ["--schedule", "waves", "--all-ranks", "--routing", "imbalance:2"]
    expected = simulated(tmp_path, *run)
    assert rows[1][4] == f"{expected['time_us']:.1f}"
    assert rows[1][5] == f"{expected['serial_us'] / expected['time_us']:.3f}"
    assert rows[1][-1] == "2 of 2"
