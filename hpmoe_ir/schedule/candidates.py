"""The candidates of `auto`: every named schedule, and lowerings that the layer's sizes suggest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hpmoe_ir.integers import ceil_div, round_up
from hpmoe_ir.kernels.device import CUBE_MACS, ELEMENT_BYTES, FRACTAL
from hpmoe_ir.kernels.matmul_tile import largest_matmul_tile
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.overlap import Overlap
from hpmoe_ir.passes.policies.tiles import Tiles
from hpmoe_ir.passes.tiling.options import MIN_TOKENS
from hpmoe_ir.run.module_layer import module_layer
from hpmoe_ir.schedule.conditions import USUAL, Condition
from hpmoe_ir.schedule.named import NAMED

GRADIENT_COLS = 1024
"""Columns of a weight-gradient task of the last expert, in candidates with narrow tasks."""

Passes: TypeAlias = tuple[ModulePass, ...]
"""A pipeline from the `moe` level to the queue level."""


@dataclass(frozen=True)
class Layer:
    """The layer to schedule: a graph at the `moe` level, its directions, machine and conditions."""

    ctx: Context
    graph: ModuleOp
    backward: DeriveBackwardPass | None
    machine: Machine
    conditions: tuple[Condition, ...] = USUAL
    """What candidates are timed under. All are under the first one, the best also under others."""
    over_memory: bool = False
    """Whether a program may need more device memory than the machine has."""

    @cached_property
    def config(self) -> LayerConfig:
        """The sizes of the layer. Raises InputError as `module_layer` does."""
        return module_layer(self.graph).config


def auto_candidates(layer: Layer) -> list[Passes]:
    """Returns the candidate pipelines of `auto`, the most promising first.

    They are those of `auto_lowerings` and the named schedules of this package.
    """
    named = [s.passes(layer.machine, layer.over_memory) for s in NAMED.values()]
    return list(dict.fromkeys([*((found,) for found in auto_lowerings(layer)), *named]))


def auto_lowerings(layer: Layer) -> list[LowerMoePass]:
    """Returns lowerings that are determined by the sizes and the machine.

    They are `tiles` with blocks of about a quarter or a seventh of the columns on the way back, the
    default lowering, and variants of `overlap`:
    - source groups such that a part has the rows of one or two matrix tiles;
    - return blocks of about a seventh or a quarter of the columns;
    - finely cut tasks for the last experts: as many experts as keep the matrix cores busy during
      the weighted sums (`experts_beside_sums`), three quarters of them, or none;
    - with the backward direction, wide or narrow weight-gradient tasks for the last expert; narrow
      tasks take longer in total but let the cores finish at the same time.

    Tokens are split over all vector cores but one, which builds the route at the same time. The
    second matmul lags behind the first by three tasks per AIC: with a smaller lag it waits, a
    larger one does not help. One lowering shares each expert's product and rows among many cores,
    for few rows and for uneven routing.
    """
    config, machine = layer.config, layer.machine
    tile = largest_matmul_tile(machine)
    groups = fitting_groups(config, tile.m)
    seventh, quarter = _columns(config.hidden, 7, tile.n), _columns(config.hidden, 4, tile.n)
    most = experts_beside_sums(config, machine)
    some = ceil_div(3 * most, 4)
    choices = [
        (groups[0], quarter, some),
        (groups[0], quarter, 0),
        (groups[-1], seventh, some),
        (groups[0], seventh, some),
        (groups[0], seventh, most),
    ]
    enough = config.tokens >= MIN_TOKENS * machine.aiv_cores > MIN_TOKENS
    default = LowerMoePass(machine=machine.reference, over_memory=layer.over_memory)
    overlap = replace(
        default,
        policy=Overlap(behind=3),
        rotate_sources=True,
        token_chunks=machine.aiv_cores - 1 if enough else 0,
    )
    cuts = [(*choice, 0) for choice in dict.fromkeys(choices)]
    if layer.backward is not None:
        cuts += [(*choice, GRADIENT_COLS) for choice in dict.fromkeys(choices[3:5])]
    fine = [
        replace(
            overlap,
            source_groups=groups,
            return_cols=columns,
            last_experts=last,
            gradient_cols=gradient,
            last_gradients=1 if gradient else 0,
        )
        for groups, columns, last, gradient in cuts
    ]
    # For any number of rows: all matrix cores share each expert's product, and as many vector cores
    # its rows.
    shared = replace(
        overlap,
        source_groups=1,
        return_cols=quarter,
        matrix_shares=machine.aic_cores,
        vector_chunks=machine.aic_cores,
    )
    tiles = replace(default, row_cut="tiles", policy=Tiles(), token_chunks=overlap.token_chunks)
    numbered = [replace(tiles, return_cols=columns) for columns in (quarter, seventh)]
    first, second = numbered
    return list(dict.fromkeys([first, shared, *fine[:3], second, *fine[3:], default]))


def fitting_groups(config: LayerConfig, rows: int) -> list[int]:
    """Returns numbers of source groups whose parts of an expert have about `rows` rows or more.

    At most two divisors of the number of ranks, the larger first; [1] if no other fits.
    """
    each = config.tokens * config.top_k / config.experts
    even = [g for g in range(1, config.ranks + 1) if config.ranks % g == 0]
    fit = [g for g in even if each * config.ranks / g >= rows * 0.99] or [1]
    return sorted(fit[-2:], reverse=True)


def experts_beside_sums(config: LayerConfig, machine: Machine) -> int:
    """Returns how many local experts' last products take as long as the sums over token copies.

    Estimates sums at half the memory bandwidth and products at the peak rate.
    """
    rates = machine.rates
    copies = config.tokens * (config.top_k + 1) * config.hidden
    sums = copies * ELEMENT_BYTES / (rates.shared_bandwidth_hbm / 2)
    macs = config.tokens * config.top_k * config.hidden * config.width
    products = macs / (machine.aic_cores * CUBE_MACS * rates.clock_frequency)
    return min(config.local_experts, math.ceil(config.local_experts * sums / products))


def _columns(width: int, parts: int, tile: int) -> int:
    """Returns the columns of about `parts` blocks; equal blocks of whole tiles if possible."""
    for count in range(parts, 2 * parts):
        if width % (count * tile) == 0:
            return width // count
    return round_up(ceil_div(width, parts), FRACTAL)
