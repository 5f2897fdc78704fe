"""Lower estimates of a candidate's time, by which most candidates need not be compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.kernels.device import CUBE_MACS, ELEMENT_BYTES
from hpmoe_ir.kernels.kernel import TileSizes
from hpmoe_ir.kernels.matmul_tile import MatmulTile, largest_matmul_tile
from hpmoe_ir.kernels.registry import find_kernel
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import IdArray
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.tiling.options import MAX_GROUPS
from hpmoe_ir.schedule.candidates import Layer, Passes
from hpmoe_ir.schedule.named import is_serial

ACCURACY = 0.97
"""Part of an estimated time of a matrix task that it takes at least in a timed run."""


def least_us(layer: Layer, passes: Passes, ids: Sequence[IdArray]) -> float:
    """Returns microseconds that a pipeline takes at least, all directions together.

    Only matrix tasks count, evenly spread over the matrix cores, and the links, after them, for a
    pipeline of separate operators. A task's time is the estimate of its kernel for the rows of a
    part (expert and source group): if the routing leaves parts with a few rows more than whole
    matrix tiles, the pipeline is slow, whatever its order. Weight gradients count as their
    multiplications. 0 for a pipeline that does not begin with `lower-moe`.

    ids: expert ids [T, K] of each rank.
    """
    lowering = passes[0] if passes else None
    if not isinstance(lowering, LowerMoePass):
        return 0.0
    config = layer.config
    machine = layer.machine.for_ranks(config.ranks)
    rates = machine.rates
    groups = 1 if lowering.row_cut == "tiles" else lowering.source_groups
    parts = _rows_of_parts(ids, config, groups or min(config.ranks, MAX_GROUPS))
    largest = largest_matmul_tile(machine)
    tile = MatmulTile(
        lowering.tile_m or largest.m, lowering.tile_n or largest.n, lowering.tile_k or largest.k
    )
    rows = parts.sum(axis=1)
    macs = 3 * rows * config.hidden * config.width  # gate and up, then the second product
    gradients = macs / (CUBE_MACS * rates.clock_frequency)
    seconds = _products(parts, config, machine, tile)
    if layer.backward is not None:
        seconds = 2 * seconds + gradients
    seconds = ACCURACY * seconds / machine.aic_cores
    if is_serial(passes):
        passed = (config.ranks - 1) / config.ranks * config.hidden * ELEMENT_BYTES
        directions = 2 if layer.backward is not None else 1
        seconds = seconds + 2 * directions * rows * passed / rates.shared_bandwidth_link_in
    return float(seconds.max()) * 1e6


def _products(
    parts: Float64Array, config: LayerConfig, machine: Machine, tile: MatmulTile
) -> Float64Array:
    """Returns [ranks] seconds of all matrix tasks of the forward direction, [ranks, parts] rows."""
    kernel = find_kernel("grouped_matmul")
    options = {"tile_m": tile.m, "tile_n": tile.n, "tile_k": tile.k, "transpose_rhs": 0}
    seconds = np.zeros(len(parts))
    for depth, across in ((config.hidden, 2 * config.width), (config.width, config.hidden)):
        sizes = TileSizes(parts.ravel(), (depth, across), (across,), options)
        found = np.where(sizes.rows > 0, kernel.seconds(machine, sizes), 0.0)
        seconds += found.reshape(parts.shape).sum(axis=1)
    return seconds


def _rows_of_parts(ids: Sequence[IdArray], config: LayerConfig, groups: int) -> Float64Array:
    """Returns [ranks, local experts * groups] rows that each rank receives for each part."""
    sent = [np.bincount(part.ravel(), minlength=config.experts) for part in ids]
    received = np.stack(sent, axis=1)  # [experts, ranks]
    first = [group * config.ranks // groups for group in range(groups)]
    parts = np.add.reduceat(received, first, axis=1)
    return parts.reshape(config.ranks, -1).astype(np.float64)
