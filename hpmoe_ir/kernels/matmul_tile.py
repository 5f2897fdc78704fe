"""Sizes of matrix tiles: the largest that fit the memories of a core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hpmoe_ir.kernels.device import (
    BUFFERS,
    ELEMENT_BYTES,
    FLOAT_BYTES,
    FRACTAL,
    MAX_NZ_ROWS,
    MAX_REPEATS,
    MAX_STEPS,
)
from hpmoe_ir.kernels.machine_fit import MachineFitError
from hpmoe_ir.machines.machine import Machine


class TileSizeError(MachineFitError):
    """A tile that does not fit the memories of the machine, or its instructions."""


@dataclass(frozen=True)
class MatmulTile:
    """Rows, columns and depth of one matrix multiplication in L0."""

    m: int
    n: int
    k: int


def largest_matmul_tile(machine: Machine) -> MatmulTile:
    """Returns the tile of highest arithmetic intensity that fits L0A, L0B and L1 (two buffers each)
    and L0C; the smallest tile if none fits.

    Of all m x n whose accumulator fills L0C best, the one with the fewest loads per product
    (largest m * n / (m + n)) is chosen, with n >= m since an expert may have few rows. Then k is
    the largest power of two that fits, so that the depths of models divide evenly.
    """
    best: tuple[float, ...] = (0.0,)
    smallest = tile = MatmulTile(FRACTAL, FRACTAL, FRACTAL)
    for m in _powers(FRACTAL, machine):
        for n in _powers(m, machine):
            candidate = MatmulTile(m, n, smallest.k)
            if _misfit(candidate, machine):
                continue
            while not _misfit(larger := replace(candidate, k=2 * candidate.k), machine):
                candidate = larger
            score = (m * n, m * n / (m + n), candidate.k)
            if score > best:
                best, tile = score, candidate
    return tile


def _powers(first: int, machine: Machine) -> Iterator[int]:
    """Yields first, 2 * first and so on, as long as L0C holds that many rows of as many columns."""
    size = first
    while FLOAT_BYTES * first * size <= machine.l0c_bytes:
        yield size
        size *= 2


def check_matmul_tile(tile: MatmulTile, machine: Machine) -> None:
    """Checks that a tile fits the memories of the machine, and that instructions can move it.

    Raises TileSizeError naming the memory that is too small, or the side that is too long.
    """
    for name, size in (("m", tile.m), ("n", tile.n), ("k", tile.k)):
        if size <= 0 or size % FRACTAL:
            raise TileSizeError(
                f"option 'tile-{name}': expected a positive multiple of {FRACTAL}, found {size}"
            )
    if problem := _misfit(tile, machine):
        raise TileSizeError(f"tile {tile.m}x{tile.n}x{tile.k} {problem}")


def _misfit(tile: MatmulTile, machine: Machine) -> str:
    """Returns what is too large about a tile, "" if it fits.

    The checks are those of `hpmoe/detail/matmul_block.h`.
    """
    for memory, needed, available in (
        ("L0A", BUFFERS * ELEMENT_BYTES * tile.m * tile.k, machine.l0a_bytes),
        ("L0B", BUFFERS * ELEMENT_BYTES * tile.k * tile.n, machine.l0b_bytes),
        ("L0C", FLOAT_BYTES * tile.m * tile.n, machine.l0c_bytes),
        ("L1", BUFFERS * ELEMENT_BYTES * (tile.m + tile.n) * tile.k, machine.l1_usable),
    ):
        if needed > available:
            return f"needs {needed} bytes of {memory}, {machine.name} has {available}"
    for what, found, most in (
        ("a column of a step of the left operand", tile.m // FRACTAL, MAX_REPEATS),
        ("a step of the right operand", tile.n // FRACTAL * (tile.k // FRACTAL), MAX_REPEATS),
    ):
        if found > most:
            return f"has {found} fractals in {what}, one instruction moves at most {most}"
    if tile.k * MAX_STEPS > MAX_NZ_ROWS:
        return f"has {tile.k} rows in a step, expected at most {MAX_NZ_ROWS // MAX_STEPS}"
    return ""
