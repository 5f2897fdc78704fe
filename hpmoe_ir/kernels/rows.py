"""Kernels that move rows of tokens, or sum those of a token's copies.

References access only the tiles of their task. Sums are in float32, in the order of the device
code except for the long sums of `gate_gradient`, which are in NumPy's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hpmoe_ir.kernels.device import ELEMENT_BYTES
from hpmoe_ir.kernels.kernel import AscendCFunction, Cost, Element, Kernel, TileOperand, TileView
from hpmoe_ir.machines.core_kind import CoreKind


def _gather_rows(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], s: Sequence[int]
) -> None:
    (x, order), (out,), (top_k,) = reads, writes, s
    out.store(x.array[order.array // top_k])


def _gather_scaled_rows(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], s: Sequence[int]
) -> None:
    (x, gate, order), (out,), (top_k,) = reads, writes, s
    weights = gate.array.ravel()[order.array]
    out.store(weights[:, None] * x.array[order.array // top_k])


def _copy_rows(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (rows,), (out,) = reads, writes
    out.store(rows.array)


def _weighted_sum(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (back, position, gate), (out,) = reads, writes
    total = np.zeros(out.array.shape, dtype=np.float32)
    for k in range(position.array.shape[1]):
        total += gate.array[:, k : k + 1] * back.array[position.array[:, k]]
    out.store(total)


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


def _move_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    return Cost(bytes_moved=2 * writes[0] * ELEMENT_BYTES)


def _gather_scaled_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # A cast, Muls, a cast; the row in and out, its number and its weight.
    return Cost(
        vector_elements=3 * writes[0],
        bytes_moved=2 * writes[0] * ELEMENT_BYTES + 8,
    )


def _weighted_sum_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # A cast and an Axpy for each copy of the token, one cast of the sum.
    copies = reads[1]
    return Cost(
        vector_elements=(2 * copies + 1) * writes[0],
        bytes_moved=(copies + 1) * writes[0] * ELEMENT_BYTES,
    )


def _sum_copies_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # A cast and an Add for each copy of the token, one cast of the sum.
    copies = reads[1]
    return Cost(
        vector_elements=(2 * copies + 1) * writes[0],
        bytes_moved=(copies + 1) * writes[0] * ELEMENT_BYTES,
    )


def _gate_gradient_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # A cast, Mul and as many additions as there are columns for each copy; one cast of the token.
    hidden, copies = reads[2], reads[1]
    return Cost(
        vector_elements=(3 * copies + 1) * hidden,
        bytes_moved=(copies + 1) * hidden * ELEMENT_BYTES,
    )


_POSITION = TileOperand("position", Element.I32, shape="n k")
_ORDER = TileOperand("order", Element.I32, shape="n")
_GATE = TileOperand("gate", Element.F32, shape="n k")
_OUT = (TileOperand("out", shape="n c%16"),)
# `order` lists pairs of tokens, `position` the rows of the pairs in send order.
_X = TileOperand("x", listed="tokens", shape="tokens c%16")
_BACK = TileOperand("back", listed="sent", shape="sent c%16")

ROW_KERNELS = (
    Kernel(
        name="gather_rows",
        core=CoreKind.AIV,
        reads=(_X, _ORDER),
        writes=_OUT,
        ascendc=AscendCFunction("hpmoe::GatherRows", "hpmoe/put_rows.h"),
        reference=_gather_rows,
        cost=_move_cost,
        scalars=("top_k",),
    ),
    Kernel(
        name="gather_scaled_rows",
        core=CoreKind.AIV,
        reads=(_X, replace(_GATE, listed="tokens", shape="tokens k"), _ORDER),
        writes=_OUT,
        ascendc=AscendCFunction("hpmoe::GatherScaledRows", "hpmoe/gather_scaled_rows.h"),
        reference=_gather_scaled_rows,
        cost=_gather_scaled_cost,
        scalars=("top_k",),
    ),
    Kernel(
        name="copy_rows",
        core=CoreKind.AIV,
        reads=(TileOperand("rows", shape="n c%16"),),
        writes=_OUT,
        ascendc=AscendCFunction("hpmoe::CopyRows", "hpmoe/put_rows.h"),
        reference=_copy_rows,
        cost=_move_cost,
    ),
    Kernel(
        name="weighted_sum",
        core=CoreKind.AIV,
        reads=(_BACK, _POSITION, _GATE),
        writes=_OUT,
        ascendc=AscendCFunction("hpmoe::WeightedSum", "hpmoe/weighted_sum.h"),
        reference=_weighted_sum,
        cost=_weighted_sum_cost,
    ),
    Kernel(
        name="sum_copies",
        core=CoreKind.AIV,
        reads=(_BACK, _POSITION),
        writes=_OUT,
        ascendc=AscendCFunction("hpmoe::SumCopies", "hpmoe/sum_copies.h"),
        reference=_sum_copies,
        cost=_sum_copies_cost,
    ),
    Kernel(
        name="gate_gradient",
        core=CoreKind.AIV,
        reads=(_BACK, _POSITION, TileOperand("dout", shape="n c%16")),
        writes=(TileOperand("dgate", Element.F32, shape="n k"),),
        ascendc=AscendCFunction("hpmoe::GateGradient", "hpmoe/gate_gradient.h"),
        reference=_gate_gradient,
        cost=_gate_gradient_cost,
    ),
)
"""The kernels that move or sum rows."""
