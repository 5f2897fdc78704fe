"""Matrix kernels whose tasks share a product: each does every n-th block of it.

The device functions are those of `grouped_matmul` and `weight_gradient`, given the first block and
the step. A family of such tasks writes `scatter`: which elements are a task's depends on the number
of rows, but no two tasks have the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hpmoe_ir.integers import ceil_div
from hpmoe_ir.kernels.kernel import Kernel, TileView

SHARE_SCALARS = ("first", "step")
"""Number of the task's first block, row by row of blocks, and of tasks that share the product."""


def _blocks(
    out: TileView, options: Mapping[str, int], share: Sequence[int]
) -> Iterator[tuple[slice, slice, TileView]]:
    """Rows, columns and tile of each block of a share."""
    first, step = share
    rows, cols = out.array.shape
    m, n = options["tile_m"], options["tile_n"]
    across = ceil_div(cols, n)
    for block in range(first, ceil_div(rows, m) * across, step):
        row, col = block // across * m, block % across * n
        cut = slice(row, min(row + m, rows)), slice(col, min(col + n, cols))
        yield *cut, TileView(out.array[cut], out.first + row, out.round_to)


def _grouped_matmul_share(
    reads: Sequence[TileView],
    writes: Sequence[TileView],
    options: Mapping[str, int],
    share: Sequence[int],
) -> None:
    (lhs, weights), (out,) = reads, writes
    w = weights.array.T if options["transpose_rhs"] else weights.array
    for rows, cols, block in _blocks(out, options, share):
        block.store(lhs.array[rows] @ w[:, cols])


def _weight_gradient_share(
    reads: Sequence[TileView],
    writes: Sequence[TileView],
    options: Mapping[str, int],
    share: Sequence[int],
) -> None:
    (lhs, rhs), (out,) = reads, writes
    for rows, cols, block in _blocks(out, options, share):
        product = lhs.array[:, rows].T @ rhs.array[:, cols]
        block.store(block.array + product if options["accumulate"] else product)


def share_kernel(whole: Kernel) -> Kernel:
    """The kernel by which tasks share what a task of `whole` does."""
    references = {
        "grouped_matmul": _grouped_matmul_share,
        "weight_gradient": _weight_gradient_share,
    }
    return replace(
        whole,
        name=f"{whole.name}_share",
        reference=references[whole.name],
        scalars=SHARE_SCALARS,
    )
