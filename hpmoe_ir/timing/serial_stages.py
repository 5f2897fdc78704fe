"""Stages of a queue program that is timed as a sequence of operators launched by the host."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.passes import ModulePass

from hpmoe_ir.dialects import queue
from hpmoe_ir.passes.analysis.pass_kinds import expanded
from hpmoe_ir.passes.analysis.task_roles import FamilyGraph
from hpmoe_ir.passes.assign_queues import QueueOptions
from hpmoe_ir.passes.policies.serial import Serial, stages_of
from hpmoe_ir.timing.timed_run import Stages


def launched_stages(program: queue.ProgramOp, passes: Iterable[ModulePass]) -> Stages | None:
    """Returns the stages of a program whose pipeline has made operators that are launched one by
    one; None for a persistent kernel."""
    policies = [p.policy for p in expanded(passes) if isinstance(p, QueueOptions)]
    serial = next((policy for policy in policies if policy.serial), None)
    if serial is None:
        return None
    return serial_stages(program, isinstance(serial, Serial) and serial.counts_to_host)


def serial_stages(program: queue.ProgramOp, counts_to_host: bool = False) -> Stages:
    """Returns the stage of each family of `program`, which stages all ranks end together, and after
    which the host reads counts (none unless `counts_to_host`).

    The policy `serial` orders queues by these stages.
    """
    graph = FamilyGraph.of_queues(program)
    stages = stages_of(graph)
    numbers = {
        graph.families[i].sym_name.data: number
        for number, stage in enumerate(stages)
        for i in stage.families
    }
    return Stages(
        numbers,
        tuple(stage.communicates for stage in stages),
        tuple(counts_to_host and stage.counts for stage in stages),
    )
