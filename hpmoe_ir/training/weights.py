"""Layouts of the experts' weights: those of checkpoints, and those of the kernels.

A checkpoint has, as MindFormers' grouped experts do, `weight1` [L * H, 2 I], the gate projection in
the first I columns and the up projection in the others, and `weight2` [L * I, H], for the L experts
of a rank. The kernels have `w13` [L, H, 2 I] and `w2` [L, I, H], which is the same memory if H and
I are multiples of the matrix block. Otherwise both are padded with zeros, each half of the columns
for itself. Zeros are exact: padded columns of tokens meet padded rows of `w13`, silu(0) * 0 is 0,
and nothing of the padding is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import TypeVar

from hpmoe_ir.dtypes import Float32Array, RawArray, to_bits
from hpmoe_ir.integers import round_up
from hpmoe_ir.layer.config import MATRIX_BLOCK, LayerConfig

Number = TypeVar("Number", bound=np.generic)


def kernel_config(config: LayerConfig) -> LayerConfig:
    """Returns the sizes of the kernels: hidden and width rounded up to the matrix block."""
    padded = config.with_sizes(
        hidden=round_up(config.hidden, MATRIX_BLOCK), width=round_up(config.width, MATRIX_BLOCK)
    )
    padded.check_lowerable()
    return padded


def weight1_shape(config: LayerConfig, ranks: int = 1) -> tuple[int, int]:
    """Returns the shape of `weight1` for the experts of `ranks` ranks."""
    return ranks * config.local_experts * config.hidden, 2 * config.width


def weight2_shape(config: LayerConfig, ranks: int = 1) -> tuple[int, int]:
    """Returns the shape of `weight2` for the experts of `ranks` ranks."""
    return ranks * config.local_experts * config.width, config.hidden


def kernel_w13(weight1: Float32Array, config: LayerConfig) -> RawArray:
    """Returns `w13` [experts, H, 2 I] of the kernels as raw memory from `weight1`, rounded."""
    return _kernel_layout1(to_bits(weight1, config.dtype), config)


def kernel_w2(weight2: Float32Array, config: LayerConfig) -> RawArray:
    """Returns `w2` [experts, I, H] of the kernels as raw memory from `weight2`, rounded."""
    return _kernel_layout2(to_bits(weight2, config.dtype), config)


def kernel_rows(rows: Float32Array, config: LayerConfig) -> RawArray:
    """Returns rows [n, H] of the kernels as raw memory, rounded."""
    columns = kernel_config(config).hidden - config.hidden
    return _padded(to_bits(rows, config.dtype), ((0, 0), (0, columns)))


def kernel_gradient1(weight1: Float32Array, config: LayerConfig) -> Float32Array:
    """Returns a gradient in the layout of `w13` from one in that of `weight1`, f32."""
    return _kernel_layout1(weight1, config)


def kernel_gradient2(weight2: Float32Array, config: LayerConfig) -> Float32Array:
    """Returns a gradient in the layout of `w2` from one in that of `weight2`, f32."""
    return _kernel_layout2(weight2, config)


def module_gradient1(dw13: Float32Array, config: LayerConfig) -> Float32Array:
    """Returns the gradient of `weight1` from that of `w13`, without the padding."""
    padded = kernel_config(config)
    halves = dw13.reshape(-1, padded.hidden, 2, padded.width)
    inside = halves[:, : config.hidden, :, : config.width]
    return np.ascontiguousarray(inside).reshape(-1, 2 * config.width)


def module_gradient2(dw2: Float32Array, config: LayerConfig) -> Float32Array:
    """Returns the gradient of `weight2` from that of `w2`, without the padding."""
    inside = dw2[:, : config.width, : config.hidden]
    return np.ascontiguousarray(inside).reshape(-1, config.hidden)


def split_ranks(
    whole: np.ndarray[Any, np.dtype[Number]], ranks: int
) -> list[np.ndarray[Any, np.dtype[Number]]]:
    """Splits a weight of all experts into those of `ranks` ranks. Raises ValueError."""
    if len(whole) % ranks:
        raise ValueError(f"expected rows for {ranks} ranks, found {len(whole)} rows")
    return np.split(whole, ranks)


def reshard(
    parts: Sequence[np.ndarray[Any, np.dtype[Number]]], ranks: int
) -> list[np.ndarray[Any, np.dtype[Number]]]:
    """Returns the parts of a weight for another number of ranks, from its parts in rank order.

    Raises ValueError if the rows don't divide by `ranks`.
    """
    return split_ranks(np.concatenate(list(parts)), ranks)


def _kernel_layout1(
    weight1: np.ndarray[Any, np.dtype[Number]], config: LayerConfig
) -> np.ndarray[Any, np.dtype[Number]]:
    """Returns an array in the layout of `w13` from one in that of `weight1`."""
    padded = kernel_config(config)
    halves = weight1.reshape(-1, config.hidden, 2, config.width)
    rows, columns = padded.hidden - config.hidden, padded.width - config.width
    whole = _padded(halves, ((0, 0), (0, rows), (0, 0), (0, columns)))
    return whole.reshape(-1, padded.hidden, 2 * padded.width)


def _kernel_layout2(
    weight2: np.ndarray[Any, np.dtype[Number]], config: LayerConfig
) -> np.ndarray[Any, np.dtype[Number]]:
    """Returns an array in the layout of `w2` from one in that of `weight2`."""
    padded = kernel_config(config)
    blocks = weight2.reshape(-1, config.width, config.hidden)
    rows, columns = padded.width - config.width, padded.hidden - config.hidden
    return _padded(blocks, ((0, 0), (0, rows), (0, columns)))


def _padded(
    array: np.ndarray[Any, np.dtype[Number]], widths: Sequence[tuple[int, int]]
) -> np.ndarray[Any, np.dtype[Number]]:
    """Returns the array with zeros after it; the array itself if there are none."""
    if not any(after for _, after in widths):
        return array
    return np.pad(array, widths)
