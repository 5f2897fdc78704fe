"""Sizes of matrix tiles: the largest that fit the memories of a core."""

from __future__ import annotations

from dataclasses import dataclass

from hpmoe_ir.kernels.device import BUFFERS, ELEMENT_BYTES, FLOAT_BYTES, FRACTAL
from hpmoe_ir.machines.machine import Machine


class TileSizeError(ValueError):
    """A tile that does not fit the memories of the machine."""


@dataclass(frozen=True)
class MatmulTile:
    """Rows, columns and depth of one matrix multiplication in L0."""

    m: int
    n: int
    k: int


def largest_matmul_tile(machine: Machine) -> MatmulTile:
    """Returns the tile of highest arithmetic intensity that fits L0A, L0B (two buffers) and L0C.

    Of all m x n whose accumulator fills L0C best, the one with the fewest loads per product
    (largest m * n / (m + n)) is chosen, with n >= m since an expert may have few rows. Then k is
    the largest power of two that fits, so that the depths of models divide evenly.
    """
    accumulators = machine.l0c_bytes // FLOAT_BYTES
    a = machine.l0a_bytes // (BUFFERS * ELEMENT_BYTES)
    b = machine.l0b_bytes // (BUFFERS * ELEMENT_BYTES)
    best: tuple[float, ...] = (0.0,)
    tile = MatmulTile(FRACTAL, FRACTAL, FRACTAL)
    m = FRACTAL
    while m * m <= accumulators:
        n = m
        while m * n <= accumulators:
            k = FRACTAL
            while 2 * k * m <= a and 2 * k * n <= b:
                k *= 2
            if k * m <= a and k * n <= b:
                score = (m * n, m * n / (m + n), k)
                if score > best:
                    best, tile = score, MatmulTile(m, n, k)
            n *= 2
        m *= 2
    return tile


def check_matmul_tile(tile: MatmulTile, machine: Machine) -> None:
    """Checks that a tile fits; raises TileSizeError naming the memory that is too small."""
    for name, size in (("m", tile.m), ("n", tile.n), ("k", tile.k)):
        if size <= 0 or size % FRACTAL:
            raise TileSizeError(
                f"option 'tile-{name}': expected a positive multiple of {FRACTAL}, found {size}"
            )
    text = f"tile {tile.m}x{tile.n}x{tile.k}"
    for memory, needed, available in (
        ("L0A", BUFFERS * ELEMENT_BYTES * tile.m * tile.k, machine.l0a_bytes),
        ("L0B", BUFFERS * ELEMENT_BYTES * tile.k * tile.n, machine.l0b_bytes),
        ("L0C", FLOAT_BYTES * tile.m * tile.n, machine.l0c_bytes),
        ("L1", BUFFERS * ELEMENT_BYTES * (tile.m + tile.n) * tile.k, machine.l1_usable),
    ):
        if needed > available:
            raise TileSizeError(
                f"{text} needs {needed} bytes of {memory}, {machine.name} has {available}"
            )
