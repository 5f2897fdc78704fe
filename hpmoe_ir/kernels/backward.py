"""The project's kernels that only the backward direction needs, with references and costs.

The references work as those of `own_kernels` do, but the two that are long sums, `gate_gradient`
and `weight_gradient`, add up in NumPy's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hpmoe_ir.integers import ceil_div
from hpmoe_ir.kernels.kernel import Cost, Kernel, TileOperand, TileView, matmul_local

ACTIVATION_BYTES = 2


def _gather_scaled_rows(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], s: Sequence[int]
) -> None:
    (x, gate, order), (out,), (top_k,) = reads, writes, s
    weights = gate.array.ravel()[order.array]
    out.store(weights[:, None] * x.array[order.array // top_k])


def _sum_copies(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (back, position), (out,) = reads, writes
    total = np.zeros(out.array.shape, dtype=np.float32)
    for k in range(position.array.shape[1]):
        total += back.array[position.array[:, k]]
    out.store(total)


def _gate_gradient(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (back, position, dout), (dgate,) = reads, writes
    for k in range(position.array.shape[1]):
        products = back.array[position.array[:, k]] * dout.array
        dgate.array[:, k] = products.sum(axis=1, dtype=np.float32)


def _swiglu_grad(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (h, da), (dh,) = reads, writes
    gate, up = np.split(h.array, 2, axis=1)
    with np.errstate(over="ignore"):
        s = 1 / (1 + np.exp(-gate))
    dgate = s * (1 + gate * (1 - s)) * da.array * up
    dh.store(np.concatenate([dgate, gate * s * da.array], axis=1))


def _weight_gradient(
    reads: Sequence[TileView], writes: Sequence[TileView], o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (lhs, rhs), (out,) = reads, writes
    product = lhs.array.T @ rhs.array
    out.store(out.array + product if o["accumulate"] else product)


def _add_rows(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (a, b), (out,) = reads, writes
    out.store(a.array + b.array)


def _gather_scaled_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # A cast, Muls, a cast; the row in and out, its number and its weight.
    return Cost(
        vector_elements=3 * writes[0],
        bytes_moved=2 * writes[0] * ACTIVATION_BYTES + 8,
    )


def _sum_copies_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # A cast and an Add for each copy of the token, one cast of the sum.
    copies = reads[1]
    return Cost(
        vector_elements=(2 * copies + 1) * writes[0],
        bytes_moved=(copies + 1) * writes[0] * ACTIVATION_BYTES,
    )


def _gate_gradient_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # A cast, Mul and as many additions as there are columns for each copy; one cast of the token.
    hidden, copies = reads[2], reads[1]
    return Cost(
        vector_elements=(3 * copies + 1) * hidden,
        bytes_moved=(copies + 1) * hidden * ACTIVATION_BYTES,
    )


def _swiglu_grad_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # Five casts and thirteen steps of arithmetic on each column of da.
    return Cost(
        vector_elements=18 * reads[1],
        bytes_moved=(reads[0] + reads[1] + writes[0]) * ACTIVATION_BYTES,
    )


def _weight_gradient_cost(
    reads: Sequence[int], writes: Sequence[int], o: Mapping[str, int]
) -> Cost:
    # Both operands come once for each L0 tile that they take part in. The result is written once,
    # however many rows there are, so it is not part of the cost of a row.
    lhs = reads[0] * ceil_div(reads[1], o["tile_n"])
    rhs = reads[1] * ceil_div(reads[0], o["tile_m"])
    return Cost(macs=reads[0] * reads[1], bytes_moved=(lhs + rhs) * ACTIVATION_BYTES)


def _add_rows_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # Two casts, Add, a cast.
    return Cost(vector_elements=4 * writes[0], bytes_moved=3 * writes[0] * ACTIVATION_BYTES)


BACKWARD_KERNELS = (
    Kernel(
        "gather_scaled_rows",
        "hpmoe::GatherScaledRows",
        "hpmoe/gather_scaled_rows.h",
        "aiv",
        (TileOperand("x"), TileOperand("gate", "f32"), TileOperand("order", "i32")),
        (TileOperand("out"),),
        _gather_scaled_rows,
        _gather_scaled_cost,
        scalars=("top_k",),
    ),
    Kernel(
        "sum_copies",
        "hpmoe::SumCopies",
        "hpmoe/sum_copies.h",
        "aiv",
        (TileOperand("back"), TileOperand("position", "i32")),
        (TileOperand("out"),),
        _sum_copies,
        _sum_copies_cost,
    ),
    Kernel(
        "gate_gradient",
        "hpmoe::GateGradient",
        "hpmoe/gate_gradient.h",
        "aiv",
        (TileOperand("back"), TileOperand("position", "i32"), TileOperand("dout")),
        (TileOperand("dgate", "f32"),),
        _gate_gradient,
        _gate_gradient_cost,
    ),
    Kernel(
        "swiglu_grad",
        "hpmoe::SwiGluGrad",
        "hpmoe/swiglu_grad.h",
        "aiv",
        (TileOperand("h"), TileOperand("da")),
        (TileOperand("dh"),),
        _swiglu_grad,
        _swiglu_grad_cost,
    ),
    Kernel(
        "weight_gradient",
        "hpmoe::WeightGradient",
        "hpmoe/weight_gradient.h",
        "aic",
        (TileOperand("lhs"), TileOperand("rhs")),
        (TileOperand("out", "activation or f32"),),
        _weight_gradient,
        _weight_gradient_cost,
        options=("tile_m", "tile_n", "tile_k", "accumulate"),
        local_use=matmul_local,
    ),
    Kernel(
        "add_rows",
        "hpmoe::AddRows",
        "hpmoe/add_rows.h",
        "aiv",
        (TileOperand("a"), TileOperand("b")),
        (TileOperand("out"),),
        _add_rows,
        _add_rows_cost,
    ),
)
"""The kernels that only gradients need."""
