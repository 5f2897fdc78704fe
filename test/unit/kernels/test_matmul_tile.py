"""Sizes of matrix tiles against the memories of the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpmoe_ir.kernels.matmul_tile import (
    MatmulTile,
    TileSizeError,
    check_matmul_tile,
    largest_matmul_tile,
)
from hpmoe_ir.machines.machine import Machine, load_machine, machine_names
from hpmoe_ir.passes.tiling.context import even_part

A3 = load_machine("ascend-a3")


@pytest.mark.parametrize("name", machine_names())
def test_the_largest_tile_fits_and_fills_l0c(name: str):
    machine = load_machine(name)
    tile = largest_matmul_tile(machine)
    check_matmul_tile(tile, machine)
    assert tile == MatmulTile(128, 256, 64)
    assert 4 * tile.m * tile.n == machine.l0c_bytes
    with pytest.raises(TileSizeError):
        check_matmul_tile(replace(tile, k=2 * tile.k), machine)


@pytest.mark.parametrize("shift", range(4))
def test_smaller_memories_have_smaller_tiles(shift: int):
    machine = replace(
        A3,
        l0a_bytes=A3.l0a_bytes >> shift,
        l0b_bytes=A3.l0b_bytes >> shift,
        l0c_bytes=A3.l0c_bytes >> shift,
    )
    tile = largest_matmul_tile(machine)
    check_matmul_tile(tile, machine)
    assert 4 * tile.m * tile.n == machine.l0c_bytes


@pytest.mark.parametrize(
    ("tile", "machine", "message"),
    [
        (MatmulTile(0, 16, 16), A3, "option 'tile-m': expected a positive multiple of 16, found 0"),
        (
            MatmulTile(16, 24, 16),
            A3,
            "option 'tile-n': expected a positive multiple of 16, found 24",
        ),
        (
            MatmulTile(16, 16, -16),
            A3,
            "option 'tile-k': expected a positive multiple of 16, found -16",
        ),
        (
            MatmulTile(128, 256, 144),
            A3,
            "tile 128x256x144 needs 73728 bytes of L0A, ascend-a3 has 65536",
        ),
        (
            MatmulTile(64, 512, 48),
            A3,
            "tile 64x512x48 needs 98304 bytes of L0B, ascend-a3 has 65536",
        ),
        (
            MatmulTile(256, 256, 16),
            A3,
            "tile 256x256x16 needs 262144 bytes of L0C, ascend-a3 has 131072",
        ),
        (
            MatmulTile(128, 256, 64),
            replace(A3, l1_bytes=65536),
            "tile 128x256x64 needs 98304 bytes of L1, ascend-a3 has 63488",
        ),
    ],
)
def test_what_does_not_fit_is_named(tile: MatmulTile, machine: Machine, message: str):
    with pytest.raises(TileSizeError) as error:
        check_matmul_tile(tile, machine)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("count", "most", "part"),
    [(1, 1, 1), (28, 9, 7), (28, 7, 7), (28, 8, 7), (9, 8, 5), (3, 8, 3), (5, 1, 1)],
)
def test_parts_are_even(count: int, most: int, part: int):
    assert even_part(count, most) == part


@given(st.integers(1, 500), st.integers(1, 500))
def test_parts_are_as_few_as_allowed_and_none_is_shorter(count: int, most: int):
    """Parts of one thing less would be more of them."""
    part = even_part(count, most)
    parts = -(-count // part)
    assert part <= most
    assert parts == -(-count // most)
    assert part == 1 or -(-count // (part - 1)) > parts
