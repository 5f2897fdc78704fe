"""`lower-moe`: the pipeline of all passes from the `moe` level to the `queue` level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from typing_extensions import TypeVar
from xdsl.passes import ModulePass

from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.options.options import Options
from hpmoe_ir.passes.allocate_events import AllocateEventsPass
from hpmoe_ir.passes.analysis.pass_kinds import ComposedPass
from hpmoe_ir.passes.assign_queues import AssignQueuesPass, QueueOptions
from hpmoe_ir.passes.convert_comm_to_tile import ConvertCommToTilePass
from hpmoe_ir.passes.convert_moe_to_comm import ConvertMoeToCommPass
from hpmoe_ir.passes.credit_empty_puts import CreditEmptyPutsPass
from hpmoe_ir.passes.elide_dependencies import ElideDependenciesPass
from hpmoe_ir.passes.insert_dependencies import DependenceOptions, InsertDependenciesPass
from hpmoe_ir.passes.plan_memory import MemoryOptions, PlanMemoryPass
from hpmoe_ir.passes.tiling.options import TilingOptions
from hpmoe_ir.passes.verify_queues import VerifyQueuesPass

PassT = TypeVar("PassT", bound=Options)


@dataclass(frozen=True)
class LoweringOptions(QueueOptions, MemoryOptions, DependenceOptions, TilingOptions):
    """Options of all passes of the pipeline, and switches of the optional passes."""

    credit: bool = True
    """Whether to run `credit-empty-puts`."""
    elide: bool = True
    """Whether to run `elide-dependencies`."""

    @classmethod
    def search_space(
        cls, config: LayerConfig, machine: Machine, backward: bool
    ) -> Mapping[str, Sequence[object]]:
        """Returns the values that a search tries for each option, except the policy."""
        return {**cls.tiling_space(config, machine, backward), **cls.queue_space()}


def lower_moe(options: LoweringOptions) -> tuple[ModulePass, ...]:
    """Returns the passes that bring a module from the `moe` level to the `queue` level."""
    passes: list[ModulePass] = []

    # Dispatch and combine become puts into windows of other ranks, with waits for their arrival.
    passes.append(ConvertMoeToCommPass())

    # Each operation becomes a family of tasks that state their accesses to buffers.
    passes.append(_of(ConvertCommToTilePass, options))

    # A task depends on earlier tasks whose accesses conflict with its own.
    passes.append(_of(InsertDependenciesPass, options))

    # Empty puts send no signal; the task that builds the route credits them. This comes before
    # elision, because a wait for a credited put implies fewer other dependences.
    if options.credit:
        passes.append(CreditEmptyPutsPass())

    # Dependences that others imply are removed: each one costs a signal and a wait.
    if options.elide:
        passes.append(ElideDependenciesPass())

    # Workspace buffers whose uses are ordered by dependences share memory.
    passes.append(_of(PlanMemoryPass, options))

    # The policy orders all tasks; cores get queues, dependences become events.
    passes.append(_of(AssignQueuesPass, options))

    # Events get counters in the window.
    passes.append(AllocateEventsPass())

    # Proves that the result has no deadlock and no race, also across consecutive launches.
    passes.append(VerifyQueuesPass())
    return tuple(passes)


def _of(kind: type[PassT], options: LoweringOptions) -> PassT:
    """Returns a pass of type `kind` with its subset of the options."""
    return kind(**{field.name: getattr(options, field.name) for field in fields(kind)})


@dataclass(frozen=True)
class LowerMoePass(LoweringOptions, ComposedPass):
    """Brings a module from the `moe` level to the `queue` level.

    Runs `convert-moe-to-comm`, `convert-comm-to-tile`, `insert-dependencies`,
    `credit-empty-puts`, `elide-dependencies`, `plan-memory`, `assign-queues`, `allocate-events` and
    `verify-queues`, see `lower_moe`; its options are theirs. Needs a module at the `moe` level.

    ```
    func.func @layer(...) {
      %route = moe.route %ids : ...
      ...
    }
    ```
    becomes
    ```
    queue.program @layer ranks 2 machine "ascend-a3" counters at 49152 {
      ...
    }
    ```
    """

    name = "lower-moe"

    def passes(self) -> tuple[ModulePass, ...]:
        return lower_moe(self)
