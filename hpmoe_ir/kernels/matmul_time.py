"""Time estimates of matrix tasks from the loads, multiplications and stores of their kernels.

The counts are those of `GroupedMatmul` and `WeightGradient` (docs/tile-kernels.md): blocks of the
result in sequence, with a part of the operands kept in L1. They are accurate to some percent for
sizes of real models and the machine's largest tile; tasks of only a few fractals take longer than
estimated, since fixed start-up costs dominate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.kernels.device import (
    BUFFERS,
    CUBE_MACS,
    ELEMENT_BYTES,
    FLOAT_BYTES,
    MAX_NZ_ROWS,
    MAX_STEPS,
    SECTION_CHUNKS,
)
from hpmoe_ir.kernels.kernel import Kernel, TileSizes
from hpmoe_ir.kernels.matmul_tile import MatmulTile
from hpmoe_ir.machines.machine import Machine


def grouped_matmul_time(kernel: Kernel, machine: Machine, sizes: TileSizes) -> Float64Array:
    """Estimates the seconds of each task of a product over an expert's rows."""
    across = sizes.write_columns[0]
    macs = sizes.rows * kernel.task_cost(sizes).macs
    depth = macs * sizes.sharing / np.maximum(sizes.rows * across, 1)
    return _Product(
        machine,
        _tile(sizes),
        down=sizes.rows,
        across=across,
        depth=depth,
        result_bytes=sizes.result_bytes,
        sharing=sizes.sharing,
        cann_like=kernel.variant.cann_like,
    ).seconds()


def weight_gradient_time(kernel: Kernel, machine: Machine, sizes: TileSizes) -> Float64Array:
    """Estimates the seconds of each task of a product that sums over an expert's rows."""
    return _Product(
        machine,
        _tile(sizes),
        down=np.full_like(sizes.rows, sizes.result_rows),
        across=sizes.write_columns[0],
        depth=sizes.rows,
        result_bytes=sizes.result_bytes,
        sharing=sizes.sharing,
        cann_like=kernel.variant.cann_like,
        gradient=True,
    ).seconds()


def _tile(sizes: TileSizes) -> MatmulTile:
    return MatmulTile(*(sizes.options[f"tile_{dim}"] for dim in "mnk"))


@dataclass(frozen=True)
class _Product:
    """A product that one task computes or several share; arrays have an element for each task."""

    machine: Machine
    tile: MatmulTile
    down: Float64Array
    """Rows of the result."""
    across: int
    """Columns of the result."""
    depth: Float64Array
    """The inner dimension."""
    result_bytes: int
    """Bytes of an element of the result."""
    sharing: int = 1
    """Number of tasks that share the product, block by block."""
    cann_like: bool = False
    """Whether L1 keeps no operands; a block of a gradient is then stored before the next begins."""
    gradient: bool = False
    """Whether the product is a weight gradient, with narrow blocks and rows in sections."""

    def seconds(self) -> Float64Array:
        """Returns the seconds of each task, `[tasks]`, on a core without contention."""
        whole = self._by_blocks(self.tile.n)
        if not self.gradient or self.cann_like:
            return whole
        narrow = self.tile.n if self._results(self.tile.n) > 1 else self.tile.n // 2
        few = self.depth <= self.machine.l1_usable // (self.tile.m * ELEMENT_BYTES)
        over_few = self._by_blocks(narrow) if self.across > self.sharing * self.tile.n else whole
        wide = self.across > 3 * narrow and self.sharing == 1
        over_many = whole
        if wide and self.result_bytes == FLOAT_BYTES and self._section_steps(narrow):
            over_many = self._by_sections(narrow)
        return np.where(few, over_few, over_many)

    def _results(self, cols: int) -> int:
        """Returns the number of results that fit L0C, at most 2."""
        return min(2, self.machine.l0c_bytes // (FLOAT_BYTES * self.tile.m * cols))

    def _step(self, width: int) -> int:
        """Returns the bytes of an operand of `width` rows or columns in a step."""
        return ELEMENT_BYTES * width * self.tile.k

    def _blocks(self, cols: int) -> tuple[Float64Array, int]:
        """Returns the number of blocks along rows and along columns; no rows give no blocks."""
        return np.ceil(self.down / self.tile.m), ceil_div(self.across, cols)

    def _chunks(self, cols: int) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Returns steps per chunk, chunks per block, and chunks of the left operand kept in L1."""
        lhs, rhs = self._step(self.tile.m), self._step(cols)
        usable = self.machine.l1_usable
        fit = min(max(usable // (BUFFERS * (lhs + rhs)), 1), MAX_STEPS)
        most = 1 << (fit.bit_length() - 1)
        # Steps of the left operand that fit beside chunks of the most steps, and of half as many.
        rooms = [max(usable - BUFFERS * n * (lhs + rhs), 0) // lhs for n in (most, most // 2)]
        count = self._steps()
        if self.cann_like or self.across <= 2 * self.sharing * cols:
            return np.full_like(count, most), np.ceil(count / most), np.zeros_like(count)
        steps = np.where((count <= 2 * rooms[1]) & (most > 1), most // 2, most).astype(np.float64)
        chunks = np.ceil(count / steps)
        room = np.where(steps < most, rooms[1], rooms[0])
        kept = np.where(chunks > 1, np.minimum(room // steps, chunks), 0.0)
        return steps, chunks, kept

    def _by_blocks(self, cols: int) -> Float64Array:
        lhs, rhs = self._step(self.tile.m), self._step(cols)
        down, across = self._blocks(cols)
        blocks = np.maximum(down * across, 1)
        steps, chunks, kept = self._chunks(cols)
        # Each task that shares the product loads the kept chunks separately.
        first = min(self.sharing, across)
        lhs_chunks = down * (first * chunks + (across - first) * (chunks - kept))
        rhs_chunks = blocks * chunks
        # The last blocks and chunks may be smaller.
        depth = self.depth / np.maximum(chunks, 1) / self.tile.k
        rows, columns = self.down / (np.maximum(down, 1) * self.tile.m), self.across / across / cols
        loaded = depth * (lhs_chunks * lhs * rows + rhs_chunks * rhs * columns)
        move = self._move(loaded, lhs_chunks + rhs_chunks)
        begin = self._move(np.minimum(steps, depth) * float(lhs + rhs), np.full_like(chunks, 2))
        multiply, store = self._multiply(blocks), self._store(self.down * self.across)
        if self.cann_like and self.gradient:
            return (np.maximum(multiply, move) + store) / self.sharing + begin
        pieces = blocks
        if self._results(cols) == 1:
            # Each half is stored while the other half of a chunk is multiplied.
            multiply = multiply + np.maximum(store - multiply / chunks, 0)
            pieces = 2 * blocks
        busiest = np.maximum(np.maximum(multiply, move), store)
        return busiest / self.sharing + store / pieces + begin

    def _section_steps(self, cols: int) -> int:
        """Returns the most steps of a section's chunk; 0 if L1 does not hold two sections."""
        lhs, rhs = self._step(self.tile.m), self._step(cols)
        fit = self.machine.l1_usable // (BUFFERS * (SECTION_CHUNKS * lhs + rhs))
        return min(fit, MAX_NZ_ROWS // self.tile.k)

    def _by_sections(self, cols: int) -> Float64Array:
        lhs, rhs = self._step(self.tile.m), self._step(cols)
        down, across = self._blocks(cols)
        most = self._section_steps(cols)
        sections = np.ceil(self._steps() / (SECTION_CHUNKS * most))
        chunk = np.ceil(self._steps() / (SECTION_CHUNKS * sections))
        chunks = down * np.ceil(self._steps() / chunk)
        loaded = ELEMENT_BYTES * self.depth * (self.down + down * self.across)
        move = self._move(loaded, chunks * (1 + across))
        store = self._store(sections * self.down * self.across)
        busiest = np.maximum(np.maximum(self._multiply(down * across), move), store)
        first = chunk * float(SECTION_CHUNKS * lhs + rhs)
        begin = self._move(first, np.full_like(chunks, SECTION_CHUNKS + 1))
        return busiest + store / np.maximum(sections * down * across, 1) + begin

    def _steps(self) -> Float64Array:
        """Returns the steps of the inner dimension, at least one."""
        return np.maximum(np.ceil(self.depth / self.tile.k), 1)

    def _multiply(self, blocks: Float64Array) -> Float64Array:
        rates = self.machine.rates
        steps = blocks * self._steps()
        cycles = self.down * self.across * self.depth / CUBE_MACS + steps * rates.matrix_mmad_head
        return cycles / rates.clock_frequency

    def _move(self, loaded: Float64Array, starts: Float64Array) -> Float64Array:
        rates = self.machine.rates
        start = rates.dma_gm_to_l1_start / rates.clock_frequency
        return loaded / rates.core_bandwidth_gm_to_l1 + starts * start

    def _store(self, elements: Float64Array) -> Float64Array:
        return self.result_bytes * elements / self.machine.rates.core_bandwidth_l0c_to_gm
