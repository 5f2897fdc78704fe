"""Registration of the kernels of the extension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hpmoe_ir.kernels.kernel import AscendCFunction, Cost, Kernel, TileOperand, TileView
from hpmoe_ir.machines.core_kind import CoreKind

INCLUDE = Path(__file__).parent / "include"

SWIGLU_LIMIT = 7
"""The limit to which `clamped_swiglu` clamps both halves before it multiplies them."""


def _clamp(
    reads: Sequence[TileView], writes: Sequence[TileView], o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (rows,), (out,) = reads, writes
    out.store(np.clip(rows.array, -o["limit"], o["limit"]))


def _clamped_swiglu(
    reads: Sequence[TileView], writes: Sequence[TileView], _o: Mapping[str, int], _s: Sequence[int]
) -> None:
    (h,), (out,) = reads, writes
    gate, up = np.split(np.clip(h.array, -SWIGLU_LIMIT, SWIGLU_LIMIT), 2, axis=1)
    out.store(gate / (1 + np.exp(-gate)) * up)


def _cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # Two casts, Mins and Maxs; 16-bit elements in and out.
    return Cost(vector_elements=4 * reads[0], bytes_moved=2 * (reads[0] + writes[0]))


def _swiglu_cost(reads: Sequence[int], writes: Sequence[int], _o: Mapping[str, int]) -> Cost:
    # Mins and Maxs of both halves, and the eight instructions of SwiGLU.
    return Cost(vector_elements=12 * writes[0], bytes_moved=2 * (reads[0] + writes[0]))


CLAMP = Kernel(
    name="clamp",
    core=CoreKind.AIV,
    reads=(TileOperand("rows", shape="n c"),),
    writes=(TileOperand("out", shape="n c"),),
    ascendc=AscendCFunction("clamp_extension::Clamp", "clamp_extension/clamp.h", INCLUDE),
    reference=_clamp,
    cost=_cost,
    options=("limit",),
)

CLAMPED_SWIGLU = Kernel(
    name="clamped_swiglu",
    core=CoreKind.AIV,
    reads=(TileOperand("h", shape="n 2i"),),
    writes=(TileOperand("out", shape="n i"),),
    ascendc=AscendCFunction("clamp_extension::ClampedSwiGlu", "clamp_extension/clamp.h", INCLUDE),
    reference=_clamped_swiglu,
    cost=_swiglu_cost,
)
