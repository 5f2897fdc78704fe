"""The xDSL universe of hpmoe_ir: dialects, passes and targets by name, each imported on demand.

The entry point `xdsl.universe` makes it available to plain `xdsl-opt`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.target import Target


def _dialect(module: str, name: str) -> Callable[[], Dialect]:
    def load() -> Dialect:
        dialect = getattr(import_module(f"hpmoe_ir.dialects.{module}"), name)
        assert isinstance(dialect, Dialect), f"{module}.{name} is no dialect"
        return dialect

    return load


def _pass(module: str, name: str) -> Callable[[], type[ModulePass]]:
    def load() -> type[ModulePass]:
        module_pass = getattr(import_module(f"hpmoe_ir.passes.{module}"), name)
        assert issubclass(module_pass, ModulePass), f"{module}.{name} is no pass"
        return module_pass

    return load


def _target(module: str, name: str) -> Callable[[], type[Target]]:
    def load() -> type[Target]:
        target = getattr(import_module(f"hpmoe_ir.lowering.{module}"), name)
        assert issubclass(target, Target), f"{module}.{name} is no target"
        return target

    return load


DIALECTS: dict[str, Callable[[], Dialect]] = {
    "comm": _dialect("comm", "Comm"),
    "moe": _dialect("moe", "Moe"),
    "queue": _dialect("queue", "Queue"),
    "tile": _dialect("tile", "Tile"),
}

PASSES: dict[str, Callable[[], type[ModulePass]]] = {
    "allocate-events": _pass("allocate_events", "AllocateEventsPass"),
    "assign-queues": _pass("assign_queues", "AssignQueuesPass"),
    "convert-comm-to-tile": _pass("convert_comm_to_tile", "ConvertCommToTilePass"),
    "convert-moe-to-comm": _pass("convert_moe_to_comm", "ConvertMoeToCommPass"),
    "credit-empty-puts": _pass("credit_empty_puts", "CreditEmptyPutsPass"),
    "derive-backward": _pass("derive_backward", "DeriveBackwardPass"),
    "elide-dependencies": _pass("elide_dependencies", "ElideDependenciesPass"),
    "expand-tasks": _pass("expand_tasks", "ExpandTasksPass"),
    "insert-dependencies": _pass("insert_dependencies", "InsertDependenciesPass"),
    "lower-moe": _pass("pipeline", "LowerMoePass"),
    "plan-memory": _pass("plan_memory", "PlanMemoryPass"),
    "set-waits": _pass("set_waits", "SetWaitsPass"),
    "substitute-kernel": _pass("substitute_kernel", "SubstituteKernelPass"),
    "verify-queues": _pass("verify_queues", "VerifyQueuesPass"),
}

TARGETS: dict[str, Callable[[], type[Target]]] = {
    "ascendc": _target("ascendc.source", "AscendCTarget"),
    "host": _target("host.source", "HostTarget"),
    "task-table": _target("task_table", "TaskTableTarget"),
}

HPMOE_UNIVERSE = Universe(all_dialects=DIALECTS, all_passes=PASSES, all_targets=TARGETS)
