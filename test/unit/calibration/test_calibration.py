"""Rates from profiles that the model wrote, and profiles whose columns contradict each other."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from hpmoe_ir.calibration.consistency import check_rows
from hpmoe_ir.calibration.fit import Calibration, calibrate
from hpmoe_ir.calibration.linear import robust_fit
from hpmoe_ir.calibration.machine_file import machine_file
from hpmoe_ir.calibration.op_summary import Column, Pipe, read_op_summary
from hpmoe_ir.calibration.sample_trace import SampleTrace, sample_trace
from hpmoe_ir.calibration.trace_view import read_trace_view
from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.machines.machine import Machine, load_machine
from hpmoe_ir.tools import hpmoe

BASE = load_machine("ascend-a3")
TOLERANCE = 0.02

IDENTIFIED = {
    "clock.frequency",
    "core_bandwidth.gm_to_ub",
    "core_bandwidth.gm_to_l1",
    "core_bandwidth.ub_to_gm",
    "core_bandwidth.l0c_to_gm",
    "core_bandwidth.link",
    "shared_bandwidth.hbm",
    "shared_bandwidth.link_out",
    "shared_bandwidth.link_in",
    "vector.slow_elements",
    "latency.launch",
    "latency.collective",
}
"""Rates that every profile of the sample's operators identifies."""

UNSEEN = {"latency.poll", "latency.signal", "scalar.call", "shared_bandwidth.l2", "l2.line"}
"""Some of the rates that no profile of operators identifies."""


def random_machine(seed: int) -> Machine:
    """A machine with rates drawn from their ranges, from 20% around them where they have none."""
    rng = random.Random(seed)
    machine = BASE
    for name, number in BASE.numbers.items():
        drawn = name.startswith(("core_", "shared_", "dma.", "latency.", "vector.", "matrix."))
        if number.unit in ("bytes", "instructions") or not (drawn or name == "clock.frequency"):
            continue
        low, high = (number.low, number.high) if number.uncertain else (0.8, 1.2)
        scale = 1 if number.uncertain else number.value
        machine = machine.with_rate(name, rng.uniform(low, high) * scale)
    return machine


def fitted(trace: SampleTrace) -> Calibration:
    rows = read_op_summary(trace.op_summary.decode(), "op_summary.csv")
    check_rows(rows, "op_summary.csv")
    return calibrate(rows, read_trace_view(trace.trace_view.decode(), "msprof.json"), BASE)


@pytest.mark.parametrize("seed", range(20))
def test_rates_of_a_random_machine(seed: int):
    machine = random_machine(seed)
    found = fitted(sample_trace(machine, seed))
    for estimate in found.estimates:
        true = machine.numbers[estimate.name].value
        assert estimate.value == pytest.approx(true, rel=TOLERANCE), estimate
    names = {estimate.name for estimate in found.estimates}
    rates = machine.rates
    bounded = rates.shared_bandwidth_link_out < 3 * rates.core_bandwidth_link
    if bounded:
        # The collectives of the sample are on more cores than the links have room for.
        assert "the links bound" in found.unknown.get("core_bandwidth.link", "the links bound")
    assert names >= IDENTIFIED - ({"core_bandwidth.link"} if bounded else set())
    assert found.unknown.keys() >= UNSEEN
    assert names | found.unknown.keys() == all_rates()
    assert not names & found.unknown.keys()


def all_rates() -> set[str]:
    """All rates of a machine: the numbers that are neither sizes nor factors of a variant."""
    others = ("cores.", "memory.", "limits.", "same_address.")
    return {name for name in BASE.numbers if not name.startswith(others)}


@pytest.mark.parametrize("seed", range(5))
def test_noise_and_disturbed_tasks(seed: int):
    """One time in thirty is three times as long; what is still identified is right."""
    machine = random_machine(seed)
    found = fitted(sample_trace(machine, seed, noise=0.002))
    for estimate in found.estimates:
        true = machine.numbers[estimate.name].value
        assert estimate.value == pytest.approx(true, rel=TOLERANCE), estimate
    assert len(found.estimates) > 10


def test_a_profile_without_operators_of_a_kind():
    """What only they identify is named, with how many there were."""
    trace = sample_trace(BASE, 0)
    rows = read_op_summary(trace.op_summary.decode(), "op_summary.csv")
    found = calibrate([row for row in rows if row.op_type != "MatMulV3"], None, BASE)
    assert found.unknown["core_bandwidth.gm_to_l1"].startswith("found 0 rows")
    assert found.unknown["shared_bandwidth.link_out"] == (
        "no timeline gives the bytes of collectives"
    )
    assert "core_bandwidth.gm_to_ub" in {e.name for e in found.estimates}


def test_links_of_collectives_with_as_many_bytes_out_as_in():
    trace = sample_trace(BASE, 0)
    rows = read_op_summary(trace.op_summary.decode(), "op_summary.csv")
    timeline = read_trace_view(trace.trace_view.decode(), "msprof.json")
    sums: dict[float, int] = {}
    for t in timeline.transfers:
        sums[t.start] = sums.get(t.start, 0) + (t.bytes if t.source == 0 else -t.bytes)
    even = [r for r in rows if not r.communicates or abs(sums[r.start]) < 100]
    found = calibrate(even, timeline, BASE)
    assert found.unknown["shared_bandwidth.link_out"] == (
        "collectives of 8 ranks have as many bytes out as in"
    )


def test_a_fit_leaves_outliers_out():
    x = np.arange(1.0, 31)
    us = 2 * x + 5
    us[::10] *= 3
    fit = robust_fit(np.stack([x, np.ones(30)], axis=1), us)
    assert fit is not None
    assert fit.values == pytest.approx([2, 5])
    assert fit.rows == 27
    assert robust_fit(np.ones((30, 2)), us) is None


@cache
def records() -> list[list[str]]:
    text = sample_trace(BASE, 0).op_summary.decode()
    return list(csv.reader(io.StringIO(text, newline="")))


def changed(column: str, change: Callable[[list[str]], list[str]]) -> str:
    """The sample with other cells of a column."""
    head, *rows = [list(record) for record in records()]
    at = head.index(column)
    for row, cell in zip(rows, change([row[at] for row in rows]), strict=True):
        row[at] = cell
    out = io.StringIO(newline="")
    csv.writer(out).writerows([head, *rows])
    return out.getvalue()


def refused(text: str) -> str:
    with pytest.raises(InputError) as error:
        check_rows(read_op_summary(text, "op_summary.csv"), "op_summary.csv")
    assert "\n" not in str(error.value)
    return str(error.value)


CHECKED = [
    *(c.value for c in Column if c not in (Column.STREAM, Column.NAME)),
    *(name for pipe in Pipe for name in (pipe.time_column, pipe.ratio_column)),
]
"""Columns that are read; the sample has one stream, and no rate depends on a name."""


@pytest.mark.parametrize("column", CHECKED)
@pytest.mark.parametrize("seed", range(3))
def test_a_shuffled_column(column: str, seed: int):
    def shuffled(cells: list[str]) -> list[str]:
        return random.Random(seed).sample(cells, len(cells))

    assert f"'{column}'" in refused(changed(column, shuffled))


@pytest.mark.parametrize("column", CHECKED)
def test_a_column_shuffled_among_the_rows_that_have_it(column: str):
    """No cell is missing where there should be one, or there where there should be none."""

    def shuffled(cells: list[str]) -> list[str]:
        full = [i for i, cell in enumerate(cells) if cell not in ("N/A", "0", "0.000")]
        moved = random.Random(1).sample(full, len(full))
        return [cells[dict(zip(full, moved, strict=True)).get(i, i)] for i in range(len(cells))]

    assert "column" in refused(changed(column, shuffled))


def test_the_sample_itself_is_accepted():
    check_rows(read_op_summary(changed("Op Name", list), "op_summary.csv"), "op_summary.csv")


def test_cells_that_are_no_numbers():
    text = changed(Column.DURATION.value, lambda cells: ["long", *cells[1:]])
    assert refused(text) == (
        "op_summary.csv:2: error: column 'Task Duration(us)': expected a number of at least 0, "
        "found 'long'"
    )


def test_a_missing_column():
    head, *rows = records()
    out = io.StringIO(newline="")
    csv.writer(out).writerows([row[:5] + row[6:] for row in [head, *rows]])
    assert refused(out.getvalue()) == (
        "op_summary.csv: error: no column 'Task Duration(us)', as op_summary_*.csv of msprof has it"
    )


def test_the_machine_file_is_one(tmp_path: Path):
    machine = random_machine(3)
    found = fitted(sample_trace(machine, 3))
    path = tmp_path / "mine.toml"
    path.write_bytes(machine_file("mine", "ascend-a3", "profile", found))
    loaded = load_machine(str(path))
    assert loaded.name == "mine"
    for estimate in found.estimates:
        assert loaded.numbers[estimate.name].value == pytest.approx(estimate.value)
    for name in found.unknown:
        assert loaded.numbers[name] == BASE.numbers[name]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    trace, output = tmp_path / "profile", tmp_path / "mine.toml"
    words = ["calibrate", str(trace), "-o", str(output)]
    with pytest.raises(SystemExit) as exit:
        hpmoe.main([*words, "--sample"])
    assert exit.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("core_bandwidth.gm_to_ub") for line in lines)
    assert "not identified, left as in ascend-a3:" in lines
    first = output.read_bytes()
    with pytest.raises(SystemExit) as exit:
        hpmoe.main(words)
    assert exit.value.code == 0
    assert output.read_bytes() == first
    capsys.readouterr()
    table = trace / "op_summary_sample.csv"
    table.write_text(changed(Column.WAIT.value, lambda cells: cells[::-1]))
    output.unlink()
    with pytest.raises(SystemExit) as exit:
        hpmoe.main(words)
    assert exit.value.code == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "column 'Task Wait Time(us)' does not belong to the others" in message
    assert not output.exists()
