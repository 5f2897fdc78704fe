"""Stages of a queue program that is timed as a sequence of operators launched by the host."""

from __future__ import annotations

from hpmoe_ir.dialects import queue
from hpmoe_ir.passes.analysis.task_roles import FamilyGraph
from hpmoe_ir.passes.policies.serial import stages_of
from hpmoe_ir.timing.timed_run import Stages


def serial_stages(program: queue.ProgramOp) -> Stages:
    """Returns the stage of each family of `program`, and which stages all ranks end together.

    The policy `serial` orders queues by these stages.
    """
    graph = FamilyGraph.of_queues(program)
    stages = stages_of(graph)
    numbers = {
        graph.families[i].sym_name.data: number
        for number, stage in enumerate(stages)
        for i in stage.families
    }
    return Stages(numbers, tuple(stage.communicates for stage in stages))
