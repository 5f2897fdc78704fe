"""Queues of random programs: they run to the end on few cores and on many, in a right order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from hpmoe_ir.dialects import queue
from hpmoe_ir.dialects.tile import families_of
from hpmoe_ir.interpreter.tasks import ProgramRun
from hpmoe_ir.passes.assign_queues import AssignQueuesPass
from hpmoe_ir.passes.elide_dependencies import ElideDependenciesPass
from hpmoe_ir.passes.insert_dependencies import InsertDependenciesPass
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.policies.published import Published


class Trace(ProgramRun):
    """Runs no kernel, but keeps the order in which tasks were run."""

    tasks: list[tuple[int, str, int]]

    def run_task(self, rank: int, family: str, point: int) -> None:
        self.tasks.append((rank, family, point))


@pytest.fixture(scope="module")
def one_core(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A machine with one matrix core."""
    path: Path = tmp_path_factory.mktemp("machine") / "one-core.toml"
    path.write_text(
        'name = "one-core"\nbase = "ascend-a3"\n'
        '[cores]\naic = { value = 1, unit = "cores", source = "the test" }\n'
    )
    return str(path)


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize(
    "policy", [OperatorOrder(), DepthFirst(), DepthFirst(0), Published()], ids=str
)
@pytest.mark.parametrize("seed", range(30))
def test_queues_run_to_the_end_in_a_right_order(
    programs: Any, one_core: str, seed: int, policy: Policy, rotate: bool
):
    module = ModuleOp([programs.random(seed)])
    draw = random.Random(seed)
    for module_pass in (
        InsertDependenciesPass(granularity=draw.choice(["part", "expert"])),
        ElideDependenciesPass(),
        AssignQueuesPass(
            policy=policy,
            rotate=rotate,
            vector_cores=draw.choice(["both", "one"]),
            machine=draw.choice([one_core, "ascend-a3"]),
        ),
    ):
        module_pass.apply(Context(), module)
    (program,) = module.ops
    assert isinstance(program, queue.ProgramOp)
    total = program.ranks.value.data * sum(f.task_count for f in families_of(program).values())
    pairs = programs.must_be_ordered(program, seed)
    for order in range(3):
        run = Trace(program, order)
        run.tasks = []
        no_inputs: list[dict[str, Any]] = [{} for _ in range(run.ranks)]
        run.launch(no_inputs)
        place = {task: i for i, task in enumerate(run.tasks)}
        assert len(place) == len(run.tasks) == total
        for first, second in pairs:
            assert place[first] < place[second]
