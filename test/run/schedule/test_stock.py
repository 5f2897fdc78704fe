"""The schedule `stock` has the operators of MindFormers' MoELayer, and computes its result."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpmoe_ir.driver.compiler import compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.mindir import read_mindir
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.schedule.named import find_schedule
from hpmoe_ir.timing.serial_stages import launched_stages
from hpmoe_ir.timing.timed_run import Stages
from hpmoe_ir.tools.hpmoe import main

EXPORTED = Path(__file__).parents[2] / "data" / "mindformers-moelayer-ep2.mindir"
"""MoELayer on two ranks, as MindSpore exports it."""

ROWS = {
    "MoeTokenPermute": ("permute", "sort"),
    "AlltoAllV": ("dispatch", "ids", "return"),
    "GroupedMatmul": ("matmul", "matmul_1"),
    "Swiglu": ("swiglu",),
    "InnerMoeTokenUnpermute": ("unsort", "weighted_sum"),
}
"""Our families of the primitives that move or compute rows, in the order of their uses; the
all-to-all of the rows' expert ids has none, the counts of all ranks decide where rows go."""

COUNTS = {"OneHotExt": "count", "AlltoAll": "exchange"}
"""Our families of the primitives for counts."""


def stages_of(schedule: str) -> Stages:
    """The operators of the forward direction on two ranks."""
    ctx, machine = make_context(), load_machine("ascend-a3")
    graph = layer_module(preset_layer("deepseek-v3-tiny", ranks=2))
    passes = find_schedule(schedule).passes(machine)
    compiled = compile_module(ctx, graph, passes)
    stages = launched_stages(compiled.forward.program.op, passes)
    assert stages is not None
    return stages


def test_operators_are_those_of_the_exported_graph() -> None:
    stages = stages_of("stock").stage
    kinds = [op.kind for op in read_mindir(EXPORTED).ops]
    turn = dict.fromkeys(ROWS, 0)
    rows: list[str] = []
    for kind in kinds:
        if kind in ROWS:
            rows.append(ROWS[kind][turn[kind]])
            turn[kind] += 1
    assert turn == {kind: len(names) for kind, names in ROWS.items()}
    rows.remove("ids")
    counts = [COUNTS[kind] for kind in kinds if kind in COUNTS]
    assert sorted(rows, key=stages.__getitem__) == rows
    assert sorted(counts, key=stages.__getitem__) == counts
    # What is left builds the route, which stands for sorting ids.
    assert {*stages} - {*rows, *counts} == {"place", "build_route"}
    assert len({stages[name] for name in rows}) == len(rows), "each is launched by itself"
    others = stages_of("serial").stage
    assert [name for name in rows if name not in others] == ["permute", "sort", "unsort"]


def test_the_host_reads_the_counts_after_their_exchange() -> None:
    """As the two copies to the host say that follow it in the graph."""
    kinds = [op.kind for op in read_mindir(EXPORTED).ops]
    assert "AlltoAll" in kinds[: kinds.index("MoveTo")]
    assert kinds.index("MoveTo") < kinds.index("AlltoAllV")
    stages = stages_of("stock")
    read = [n for n, synchronises in enumerate(stages.synchronises) if synchronises]
    assert read == [stages.stage["exchange"]]
    assert not any(stages_of("serial").synchronises)


@pytest.mark.parametrize("ranks", ["2", "4"])
def test_the_result_is_right(ranks: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--preset", "deepseek-v3-tiny", "--ranks", ranks, "--schedule", "stock"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--routing", "zipf:1.2", "--direction", "both", "--check"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "check     passed against MindSpore" in out
    assert "gradients passed against MindSpore" in out


def test_copies_and_the_host_take_time(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The host takes 50 us, or what the machine says; the copies what is left over `serial`."""
    slow = tmp_path / "slow.toml"
    slow.write_text(
        'name = "slow"\nbase = "ascend-a3"\n[latency]\nhost_sync = { value = 1.5e-04, unit = "s", '
        'low = 2e-05, high = 2e-04, source = "three times as long" }\n'
    )
    times: list[float] = []
    for machine in ("ascend-a3", str(slow)):
        words = ["simulate", "--preset", "deepseek-v3-tiny", "--schedule", "serial,stock"]
        with pytest.raises(SystemExit) as stop:
            main([*words, "--machine", machine, "--routing", "balanced"])
        assert stop.value.code == 0
        lines = capsys.readouterr().out.splitlines()
        rows = [line.split() for line in lines if " @moe_layer" in line][:2]
        times += [float(row[4]) for row in rows]
    serial, stock, serial_again, later = times
    assert serial_again == serial
    assert stock > serial + 50
    assert later == pytest.approx(stock + 100, abs=0.2)
