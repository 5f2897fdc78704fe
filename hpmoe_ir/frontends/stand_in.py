"""Values that stand for tensors while a graph is followed: exact indices, rows in small, weights.

To see what a graph does with its rows, it is computed with numbers that stand for the real ones.
Ids, permutations and counts are exact, whatever way the graph computes them. A row of `hidden` or
`width` elements has one or two columns of random numbers, and an expert's weights are a random
matrix of that size. Two graphs that treat rows alike give the same result, and two that do not
differ in it but for a chance of the size of rounding errors. That costs little at any model size
and needs no list of the many ways to write a permutation.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class CannotPlaceError(Exception):
    """An operation that does something else than an expert layer would; says what."""


@dataclass(frozen=True)
class Exact:
    """A tensor with its own values and shape; integers or float64."""

    array: Array


@dataclass(frozen=True)
class Rows:
    """A tensor whose last axis, `width` elements, is represented by a column or two."""

    stand: Array
    """float64, the leading axes of the tensor and then the columns."""
    width: int
    multiplied: int = 0
    """How many expert matmuls the rows have been through."""
    flat: bool = False
    """Whether the graph has the tensor in one dimension."""

    @property
    def lead(self) -> tuple[int, ...]:
        """All extents but the last, as if not flat."""
        return self.stand.shape[:-1]

    @property
    def columns(self) -> int:
        """Columns that represent a row: 2 where its halves mean different things."""
        return self.stand.shape[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor in the graph."""
        shape = (*self.lead, self.width)
        return (int(np.prod(shape)),) if self.flat else shape

    def with_stand(self, stand: Array) -> Rows:
        """The same kind of rows with other numbers."""
        return replace(self, stand=stand)


@dataclass
class WeightTable:
    """Random numbers that stand for weights, the same for the same weight."""

    seed: int
    ranks: int
    tables: dict[tuple[str, int, int, int, int], Array] = field(
        default_factory=dict[tuple[str, int, int, int, int], Array]
    )

    def get(self, name: str, rank: int, experts: int, rows: int, columns: int) -> Array:
        """[experts, rows, columns] for one rank's experts of the parameter `name`."""
        key = (name, rank, experts, rows, columns)
        if key not in self.tables:
            words = [self.seed, zlib.crc32(name.encode()), rank, rows, columns]
            rng = np.random.default_rng(words)
            self.tables[key] = rng.uniform(0.5, 2.0, (experts, rows, columns))
        return self.tables[key]

    def all_ranks(self, name: str, experts: int, rows: int, columns: int) -> Array:
        """The same for the experts of all ranks, in the order of the ranks."""
        parts = [self.get(name, rank, experts, rows, columns) for rank in range(self.ranks)]
        return np.concatenate(parts)


@dataclass(frozen=True)
class Weights:
    """Matrices of experts: a parameter of 3 dimensions, or some of its first.

    `picked` holds the number of the expert for each matrix; None while the parameter has no
    dimension for experts of its own, as [E * H, N].
    """

    name: str
    rank: int
    table: WeightTable
    shape: tuple[int, ...]
    """Shape in the graph; the last two are those of a matrix."""
    picked: Array | None
    experts: int
    """Experts in the parameter."""
    transposed: bool = False
    """Whether the matrices are the transposes of what the parameter holds."""

    def multiply(self, rows: Rows, columns: int) -> Array:
        """Stand-ins of `rows` times these, leading axes as in a batched matmul."""
        assert self.picked is not None
        table = self.table.get(self.name, self.rank, self.experts, rows.columns, columns)
        return np.matmul(rows.stand, table[self.picked])


Value: TypeAlias = Exact | Rows | Weights
Operand: TypeAlias = Value | tuple["Operand", ...] | int | float | bool | str | None


MOST_ELEMENTS = 1 << 24
"""Of a tensor that an operation makes. A trial is a layer of a few thousand tokens at most."""


def check_elements(shape: Sequence[int]) -> None:
    """Refuses a tensor that is too large for a trial."""
    if prod(shape) > MOST_ELEMENTS:
        raise CannotPlaceError(
            f"it makes a tensor of {list(shape)}, expected at most {MOST_ELEMENTS} elements"
        )


def constant(value: Any) -> Operand:
    """A constant of the graph; arrays hold exact values."""
    return Exact(cast(Array, value)) if isinstance(value, np.ndarray) else value


def parameter(name: str, shape: tuple[int, ...], rank: int, table: WeightTable) -> Weights:
    """A parameter of the graph."""
    if len(shape) == 3:
        return Weights(name, rank, table, shape, np.arange(shape[0]), shape[0])
    return Weights(name, rank, table, shape, None, 0)


def as_rows(value: Exact, like: Rows) -> Rows:
    """An exact tensor as rows, if all elements of a row are the same."""
    array = np.asarray(value.array, np.float64)
    if array.shape and array.shape[-1] == like.width and like.width > 1:
        first = array[..., :1]
        if not (array == first).all():
            raise CannotPlaceError("its operands differ from column to column")
        array = np.repeat(first, like.columns, axis=-1)
    else:
        array = np.broadcast_to(array, (*array.shape[:-1], like.columns))
    return replace(like, stand=np.asarray(array))
