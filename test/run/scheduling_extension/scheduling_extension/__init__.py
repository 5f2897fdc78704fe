"""A schedule with its policy and its machine, and a pipeline that consists of other passes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xdsl.passes import ModulePass
from xdsl.universe import Universe

from hpmoe_ir.passes.analysis.pass_kinds import ComposedPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.set_waits import SetWaitsPass
from hpmoe_ir.schedule.named import Schedule
from scheduling_extension.strided import Strided

TWO_CORES = Path(__file__).parent / "two-cores.toml"

STRIDES_OF_THREE = Schedule(lambda machine: (LowerMoePass(policy=Strided(stride=3)),))


@dataclass(frozen=True)
class LowerWithBudgetPass(ComposedPass):
    """`lower-moe`, and waits that give up."""

    name = "lower-with-budget"

    budget: int = 1 << 20
    """Ticks after which a wait gives up."""

    def passes(self) -> tuple[ModulePass, ...]:
        return LowerMoePass(), SetWaitsPass(budget=self.budget)


UNIVERSE = Universe(all_passes={"lower-with-budget": lambda: LowerWithBudgetPass})
