"""`lower-moe`: from a layer's graph to queues, all passes in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hpmoe_ir.passes.allocate_events import AllocateEventsPass
from hpmoe_ir.passes.analysis.dependence import Granularity
from hpmoe_ir.passes.assign_queues import AssignQueuesPass
from hpmoe_ir.passes.convert_comm_to_tile import ConvertCommToTilePass
from hpmoe_ir.passes.convert_moe_to_comm import ConvertMoeToCommPass
from hpmoe_ir.passes.credit_empty_puts import CreditEmptyPutsPass
from hpmoe_ir.passes.elide_dependencies import ElideDependenciesPass
from hpmoe_ir.passes.insert_dependencies import InsertDependenciesPass
from hpmoe_ir.passes.plan_memory import PlanMemoryPass
from hpmoe_ir.passes.verify_queues import VerifyQueuesPass


@dataclass(frozen=True)
class LowerMoePass(ModulePass):
    """Brings a module from the `moe` level to the `queue` level.

    Runs `convert-moe-to-comm`, `convert-comm-to-tile`, `insert-dependencies`, `credit-empty-puts`,
    `elide-dependencies`, `plan-memory`, `assign-queues`, `allocate-events` and `verify-queues`,
    verifying the operations in between. The options are those of these passes. Needs a module at
    the `moe` level.

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

    machine: str = "ascend-a3"
    """The machine description."""
    source_groups: int = 0
    """`convert-comm-to-tile`: groups of source ranks."""
    row_chunks: int = 1
    """`convert-comm-to-tile`: chunks of the rows of an expert and group."""
    put_chunks: int = 1
    """`convert-comm-to-tile`: chunks of the rows from one rank to one expert."""
    put_rows: int = 0
    """`convert-comm-to-tile`: most rows of a put."""
    return_cols: int = 0
    """`convert-comm-to-tile`: columns of a put on the way back."""
    last_experts: int = 0
    """`convert-comm-to-tile`: last experts that return_cols cuts, their last product too."""
    vector_rows: int = 0
    """`convert-comm-to-tile`: most rows of a vector task on an expert's rows."""
    vector_chunks: int = 0
    """`convert-comm-to-tile`: equal parts of an expert's rows for vector tasks."""
    matrix_shares: int = 0
    """`convert-comm-to-tile`: matrix tasks that share a product."""
    token_chunks: int = 0
    """`convert-comm-to-tile`: parts of a rank's tokens."""
    task_cols: int = 0
    """`convert-comm-to-tile`: columns of a matrix task."""
    gradient_cols: int = 0
    """`convert-comm-to-tile`: columns of a task of a weight gradient."""
    last_gradients: int = 0
    """`convert-comm-to-tile`: last experts that gradient_cols cuts."""
    tile_m: int = 0
    """`convert-comm-to-tile`: rows of a matrix tile."""
    tile_n: int = 0
    """`convert-comm-to-tile`: columns of a matrix tile."""
    tile_k: int = 0
    """`convert-comm-to-tile`: depth of a matrix tile."""
    plain_products: bool = False
    """`convert-comm-to-tile`: whether matrix kernels are plain."""
    granularity: Granularity = "part"
    """`insert-dependencies`: expert or part."""
    credit: bool = True
    """Whether to run `credit-empty-puts`."""
    elide: bool = True
    """Whether to run `elide-dependencies`."""
    reuse: bool = True
    """`plan-memory`: whether buffers may share memory."""
    policy: str = "depth-first"
    """`assign-queues`: order of the tasks."""
    ahead: int = 2
    """`assign-queues`: experts by which puts are early."""
    wave: int = 0
    """`assign-queues`: experts of a wave."""
    behind: int = 2
    """`assign-queues`: tasks for each matrix core by which the next product is behind."""
    vector_cores: Literal["both", "one"] = "both"
    """`assign-queues`: vector cores that take tasks."""
    rotate: bool = True
    """`assign-queues`: whether destinations are counted from the rank itself."""
    rotate_sources: bool = False
    """`assign-queues`: whether source groups are counted from the rank's own."""

    def passes(self) -> Iterator[ModulePass]:
        """The passes of the pipeline, in order."""
        yield ConvertMoeToCommPass()
        yield ConvertCommToTilePass(
            machine=self.machine,
            source_groups=self.source_groups,
            row_chunks=self.row_chunks,
            put_chunks=self.put_chunks,
            put_rows=self.put_rows,
            return_cols=self.return_cols,
            last_experts=self.last_experts,
            vector_rows=self.vector_rows,
            vector_chunks=self.vector_chunks,
            matrix_shares=self.matrix_shares,
            token_chunks=self.token_chunks,
            task_cols=self.task_cols,
            gradient_cols=self.gradient_cols,
            last_gradients=self.last_gradients,
            tile_m=self.tile_m,
            tile_n=self.tile_n,
            tile_k=self.tile_k,
            plain_products=self.plain_products,
        )
        yield InsertDependenciesPass(granularity=self.granularity)
        if self.credit:
            yield CreditEmptyPutsPass()
        if self.elide:
            yield ElideDependenciesPass()
        yield PlanMemoryPass(reuse=self.reuse)
        yield AssignQueuesPass(
            policy=self.policy,
            ahead=self.ahead,
            wave=self.wave,
            behind=self.behind,
            vector_cores=self.vector_cores,
            rotate=self.rotate,
            rotate_sources=self.rotate_sources,
            machine=self.machine,
        )
        yield AllocateEventsPass()
        yield VerifyQueuesPass()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for module_pass in self.passes():
            module_pass.apply(ctx, op)
            op.verify()
