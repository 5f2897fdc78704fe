"""What policies take matrix tasks to last, beside what they last in timed runs."""

from __future__ import annotations

import numpy as np
import pytest

from hpmoe_ir.driver.compiler import compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.routing import generate_routing, parse_routing
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.scheduling.order import SchedulingInput
from hpmoe_ir.passes.scheduling.task_times import task_times
from hpmoe_ir.run.execution import build_program
from hpmoe_ir.timing.timed_run import RankIntegers, ids_of, simulate

TOLERANCE = 0.08
"""Pipes fill and drain at other moments than the counts say; of a CANN-like gradient over few rows,
where each block is stored by itself, that is most."""

CUTS: dict[str, dict[str, object]] = {
    "columns": {"return_cols": 1024, "last_experts": 1, "gradient_cols": 1024, "last_gradients": 1},
    "wide": {},
    "shares": {"source_groups": 1, "matrix_shares": 24},
    "cann-like": {"source_groups": 1, "matrix_shares": 24, "matmul_kernels": "cann-like"},
}


# The last: no whole blocks in any direction.
@pytest.mark.parametrize(
    ("rows", "hidden", "width"),
    [*((rows, 7168, 2048) for rows in (512, 1024, 8192)), (3000, 6960, 2000)],
)
@pytest.mark.parametrize("cut", CUTS)
def test_matrix_tasks_last_as_long_as_policies_think(rows: int, hidden: int, width: int, cut: str):
    machine = load_machine("ascend-a3")
    config = preset_layer("deepseek-v3").with_sizes(
        ranks=1, experts=2, top_k=1, tokens=2 * rows, hidden=hidden, width=width
    )
    lowering = LowerMoePass(**CUTS[cut])  # pyright: ignore[reportArgumentType]
    compiled = compile_module(
        make_context(), layer_module(config), lowering, backward=DeriveBackwardPass()
    )
    routing = generate_routing(parse_routing("balanced"), config, [config.tokens], 0)
    for kernel in compiled.kernels.values():
        program = kernel.program
        ranks = [RankIntegers({ids_of(program): r.ids}, len(r.ids)) for r in routing]
        executable = build_program(program, kernel.source)
        timeline = simulate(program, executable, kernel.table, ranks, machine)
        families = {n: f for n, f in program.families.items() if f.core_kind is CoreKind.AIC}
        assert len(families) >= 2
        work = SchedulingInput(list(families.values()), [], dict(program.buffers), 1, machine, {})
        for name, family in families.items():
            alone = timeline.family(name)["alone"].sum() / 1e9
            thought = np.sum(task_times(family, work).core)
            assert thought == pytest.approx(alone, rel=TOLERANCE), name
