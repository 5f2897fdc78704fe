"""The matrix kernels, each in four variants.

A task computes a whole product, or n tasks share one and each computes every n-th block of it. The
elements of the result that a task writes then depend on the number of rows but are disjoint, so
such a family writes `scatter`. CANN-like variants compute the same but use a core as CANN's grouped
matmul does, block by block: L1 only double-buffers chunks of both operands, and a block of a
gradient is stored before the next one begins. They serve to compare other systems' schedules.

References access only the tiles of their task; sums over rows are in NumPy's order, others in the
order of the device code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hpmoe_ir.integers import ceil_div
from hpmoe_ir.kernels.device import BUFFERS, ELEMENT_BYTES, FLOAT_BYTES
from hpmoe_ir.kernels.kernel import (
    AscendCFunction,
    Cost,
    Element,
    Kernel,
    LocalUse,
    Reference,
    TileOperand,
    TileView,
    Variant,
)
from hpmoe_ir.kernels.matmul_time import grouped_matmul_time, weight_gradient_time
from hpmoe_ir.machines.core_kind import CoreKind

TILE_OPTIONS = ("tile_m", "tile_n", "tile_k")


def _grouped_matmul(
    reads: Sequence[TileView], writes: Sequence[TileView], o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (rows, weights), (out,) = reads, writes
    w = weights.array.T if o["transpose_rhs"] else weights.array
    out.store(rows.array @ w)


def _weight_gradient(
    reads: Sequence[TileView], writes: Sequence[TileView], o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (lhs, rhs), (out,) = reads, writes
    product = lhs.array.T @ rhs.array
    out.store(out.array + product if o["accumulate"] else product)


def _blocks(
    out: TileView, options: Mapping[str, int], share: Sequence[int]
) -> Iterator[tuple[slice, slice, TileView]]:
    """Yields rows, columns and tile of each block of a task's share."""
    first, step = share
    rows, cols = out.array.shape
    m, n = options["tile_m"], options["tile_n"]
    across = ceil_div(cols, n)
    for block in range(first, ceil_div(rows, m) * across, step):
        row, col = block // across * m, block % across * n
        cut = slice(row, min(row + m, rows)), slice(col, min(col + n, cols))
        yield *cut, TileView(out.array[cut], out.first + row, out.round_to)


def _grouped_matmul_shared(
    reads: Sequence[TileView],
    writes: Sequence[TileView],
    options: Mapping[str, int],
    share: Sequence[int],
) -> None:
    (lhs, weights), (out,) = reads, writes
    w = weights.array.T if options["transpose_rhs"] else weights.array
    for rows, cols, block in _blocks(out, options, share):
        block.store(lhs.array[rows] @ w[:, cols])


def _weight_gradient_shared(
    reads: Sequence[TileView],
    writes: Sequence[TileView],
    options: Mapping[str, int],
    share: Sequence[int],
) -> None:
    (lhs, rhs), (out,) = reads, writes
    for rows, cols, block in _blocks(out, options, share):
        product = lhs.array[:, rows].T @ rhs.array[:, cols]
        block.store(block.array + product if options["accumulate"] else product)


def _grouped_matmul_cost(reads: Sequence[int], writes: Sequence[int], o: Mapping[str, int]) -> Cost:
    # Both operands are loaded once for each L0 tile that uses them.
    rows = reads[0] * ceil_div(writes[0], o["tile_n"])
    weights = ceil_div(reads[0] * writes[0], o["tile_m"])
    return Cost(
        macs=reads[0] * writes[0],
        bytes_moved=(rows + weights + writes[0]) * ELEMENT_BYTES,
    )


def _weight_gradient_cost(
    reads: Sequence[int], writes: Sequence[int], o: Mapping[str, int]
) -> Cost:
    # Both operands are loaded once for each L0 tile that uses them. The result is written once,
    # however many rows there are, so it is not part of the cost of a row.
    lhs = reads[0] * ceil_div(reads[1], o["tile_n"])
    rhs = reads[1] * ceil_div(reads[0], o["tile_m"])
    return Cost(macs=reads[0] * reads[1], bytes_moved=(lhs + rhs) * ELEMENT_BYTES)


def _local_use(options: Mapping[str, int]) -> LocalUse:
    """Returns the memory use: two steps in L0A and L0B, one result in L0C, two steps in L1.

    These are the minima of hpmoe/matmul_block.h, which uses as many steps of L1 as fit twice.
    """
    m, n, k = (options[option] for option in TILE_OPTIONS)
    return LocalUse(
        l0a=BUFFERS * ELEMENT_BYTES * m * k,
        l0b=BUFFERS * ELEMENT_BYTES * n * k,
        l0c=FLOAT_BYTES * m * n,
        l1=BUFFERS * ELEMENT_BYTES * (m + n) * k,
        event_ids=2,
    )


def _variants(kernel: Kernel, shared: Reference, cann_like: str) -> tuple[Kernel, ...]:
    """Returns a kernel and its variants.

    `shared` is the reference of a task that shares a product, `cann_like` the C++ function of the
    CANN-like variants. The scalars of the C++ functions, which describe the share of a product,
    default to a whole one.
    """
    share = replace(
        kernel,
        name=f"{kernel.name}_share",
        writes=tuple(replace(operand, scatter=True) for operand in kernel.writes),
        reference=shared,
        scalars=("first", "step"),
        variant_of=kernel.name,
        variant=Variant(shares_product=True),
    )
    return kernel, share, *(_cann_like(k, cann_like) for k in (kernel, share))


def _cann_like(kernel: Kernel, function: str) -> Kernel:
    return replace(
        kernel,
        name=f"cann_like_{kernel.name}",
        ascendc=replace(kernel.ascendc, name=function),
        variant_of=kernel.base,
        variant=replace(kernel.variant, cann_like=True),
    )


MATMUL_KERNELS = (
    *_variants(
        Kernel(
            name="grouped_matmul",
            core=CoreKind.AIC,
            reads=(
                TileOperand("rows", shape="n k%16"),
                TileOperand("weights", shape="k c", transposed_by="transpose_rhs"),
            ),
            writes=(TileOperand("out", shape="n c%16"),),
            ascendc=AscendCFunction("hpmoe::GroupedMatmul", "hpmoe/grouped_matmul.h"),
            reference=_grouped_matmul,
            cost=_grouped_matmul_cost,
            time=grouped_matmul_time,
            options=(*TILE_OPTIONS, "transpose_rhs"),
            fractal_options=TILE_OPTIONS,
            flag_options=("transpose_rhs",),
            local_use=_local_use,
        ),
        _grouped_matmul_shared,
        "hpmoe::CannLikeGroupedMatmul",
    ),
    *_variants(
        Kernel(
            name="weight_gradient",
            core=CoreKind.AIC,
            reads=(TileOperand("lhs", shape="n r%16"), TileOperand("rhs", shape="n c%16")),
            writes=(TileOperand("out", Element.ACTIVATION_OR_F32, shape="r c"),),
            ascendc=AscendCFunction("hpmoe::WeightGradient", "hpmoe/weight_gradient.h"),
            reference=_weight_gradient,
            cost=_weight_gradient_cost,
            time=weight_gradient_time,
            options=(*TILE_OPTIONS, "accumulate"),
            fractal_options=TILE_OPTIONS,
            flag_options=("accumulate",),
            accumulate_option="accumulate",
            local_use=_local_use,
        ),
        _weight_gradient_shared,
        "hpmoe::CannLikeWeightGradient",
    ),
)
"""The matrix kernels and their variants."""
