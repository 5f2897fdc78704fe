"""`annotate-costs`: what a task of each family costs, as its kernel declares."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hpmoe_ir.dialects.access import Access, BlockSelector, WholeSelector
from hpmoe_ir.dialects.index import dims_used
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import BufferOp, ProgramOp, TasksOp, buffers_of, families_of
from hpmoe_ir.dialects.tile.types import CostAttr
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.kernels.kernel import Cost
from hpmoe_ir.passes.analysis.level import programs_at


@dataclass(frozen=True)
class AnnotateCostsPass(ModulePass):
    """Adds to each family of tasks its cost for one row, or in all where it has no dynamic rows.

    The kernel's cost function is given the columns of the tiles that it reads and writes, at their
    widest: the last block of a width that is no multiple may have fewer. Tasks that share a
    region, by `scatter`, have an equal part each. Nothing but an order policy reads the result.

    Needs a `tile.program`. Replaces costs that are there; idempotent.

    ```
    tile.tasks @swiglu (e, g) in (2, 2) on aiv
      kernel "swiglu" using @route
      reads @h[grouped(e, g of 2), :]
      writes @a[grouped(e, g of 2), :]
    ```
    becomes, for rows of 32,
    ```
    tile.tasks @swiglu (e, g) in (2, 2) on aiv
      kernel "swiglu" using @route
      reads @h[grouped(e, g of 2), :]
      writes @a[grouped(e, g of 2), :]
      cost <0 macs, 256 vector elements, 192 bytes>
    ```
    """

    name = "annotate-costs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in programs_at(op, ProgramOp, self.name):
            buffers = buffers_of(program)
            for family in families_of(program).values():
                family.cost = family_cost(family, buffers)


def family_cost(family: TasksOp, buffers: dict[str, BufferOp]) -> CostAttr:
    """What a task of a family costs, for each row if it has dynamic rows."""
    reads, writes = (
        [region_columns(region, buffers[region.buffer]) for region in regions]
        for regions in (family.read_accesses, family.write_accesses)
    )
    cost = family.find_kernel().cost(reads, writes, family.int_options)
    sharing = tasks_of_a_region(family)
    return CostAttr(
        Cost(
            macs=ceil_div(cost.macs, sharing),
            vector_elements=ceil_div(cost.vector_elements, sharing),
            bytes_moved=ceil_div(cost.bytes_moved, sharing),
        )
    )


def tasks_of_a_region(family: TasksOp) -> int:
    """Tasks that write one region together, 1 unless all regions are written by `scatter`."""
    regions = family.write_accesses
    if not all(region.scatter for region in regions):
        return 1
    used = {d for region in regions for e in region.exprs for d in dims_used(e)}
    return prod(n for d, n in enumerate(family.extents) if d not in used)


def region_columns(region: Access, buffer: BufferOp) -> int:
    """Columns of a region's tile, 1 where they are dynamic rows of one number each."""
    if isinstance(buffer.content, RouteType):
        return 1
    selector, extent = region.selectors[-1], buffer.content.dims[-1]
    match selector:
        case WholeSelector():
            return extent
        case BlockSelector():
            return min(selector.size, extent)
        case _:
            return 1
