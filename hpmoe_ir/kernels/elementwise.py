"""Elementwise kernels on rows.

References access only the tiles of their task and compute in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hpmoe_ir.kernels.device import ELEMENT_BYTES
from hpmoe_ir.kernels.kernel import AscendCFunction, Cost, Kernel, TileOperand, TileView
from hpmoe_ir.machines.core_kind import CoreKind


def _swiglu(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (h,), (out,) = reads, writes
    gate, up = np.split(h.array, 2, axis=1)
    with np.errstate(over="ignore"):
        out.store(gate / (1 + np.exp(-gate)) * up)


def _swiglu_grad(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (h, da), (dh,) = reads, writes
    gate, up = np.split(h.array, 2, axis=1)
    with np.errstate(over="ignore"):
        s = 1 / (1 + np.exp(-gate))
    dgate = s * (1 + gate * (1 - s)) * da.array * up
    dh.store(np.concatenate([dgate, gate * s * da.array], axis=1))


def _add_rows(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (a, b), (out,) = reads, writes
    out.store(a.array + b.array)


def _swiglu_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # Three casts, then Muls, Exp, Adds, Div, Mul.
    return Cost(
        vector_elements=8 * writes[0],
        bytes_moved=(reads[0] + writes[0]) * ELEMENT_BYTES,
    )


def _swiglu_grad_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # Five casts and thirteen steps of arithmetic on each column of da.
    return Cost(
        vector_elements=18 * reads[1],
        bytes_moved=(reads[0] + reads[1] + writes[0]) * ELEMENT_BYTES,
    )


def _add_rows_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # Two casts, Add, a cast.
    return Cost(vector_elements=4 * writes[0], bytes_moved=3 * writes[0] * ELEMENT_BYTES)


ELEMENTWISE_KERNELS = (
    Kernel(
        name="swiglu",
        core=CoreKind.AIV,
        reads=(TileOperand("h", shape="n 2i"),),
        writes=(TileOperand("out", shape="n i%16"),),
        ascendc=AscendCFunction("hpmoe::SwiGlu", "hpmoe/swiglu.h"),
        reference=_swiglu,
        cost=_swiglu_cost,
    ),
    Kernel(
        name="swiglu_grad",
        core=CoreKind.AIV,
        reads=(TileOperand("h", shape="n 2i"), TileOperand("da", shape="n i%16")),
        writes=(TileOperand("dh", shape="n 2i"),),
        ascendc=AscendCFunction("hpmoe::SwiGluGrad", "hpmoe/swiglu_grad.h"),
        reference=_swiglu_grad,
        cost=_swiglu_grad_cost,
    ),
    Kernel(
        name="add_rows",
        core=CoreKind.AIV,
        reads=tuple(TileOperand(name, in_place=True, shape="n c%16") for name in ("a", "b")),
        writes=(TileOperand("out", shape="n c%16"),),
        ascendc=AscendCFunction("hpmoe::AddRows", "hpmoe/add_rows.h"),
        reference=_add_rows,
        cost=_add_rows_cost,
    ),
)
"""The elementwise kernels."""
