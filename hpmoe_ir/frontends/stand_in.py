"""Stand-in values, with which a graph is evaluated in place of its tensors.

Ids, permutations and counts are exact, however the graph computes them. A row of `hidden` or
`width` elements is represented by one or two random numbers, its columns, and the weights of an
expert by a random matrix of that size. Graphs that treat rows alike have equal results; graphs that
do not have different ones, except with a probability of the order of rounding errors. Evaluation is
cheap at any model size, and needs no list of the many spellings of a permutation.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class UnsupportedOpError(Exception):
    """An operation that no expert layer performs; the message says what is unsupported."""


@dataclass(frozen=True)
class Exact:
    """A tensor with its real shape and values; integers or float64."""

    array: Array


@dataclass(frozen=True)
class Rows:
    """A tensor of rows of `width` elements, each represented by one or two columns."""

    values: Array
    """float64: the leading axes of the tensor, then the columns."""
    width: int
    multiplied: int = 0
    """Number of expert matmuls applied to the rows."""
    flat: bool = False
    """Whether the tensor of the graph is flattened to one dimension."""

    @property
    def lead(self) -> tuple[int, ...]:
        """All extents but the last, before flattening."""
        return self.values.shape[:-1]

    @property
    def columns(self) -> int:
        """Number of columns: 2 if the halves of a row have different meanings."""
        return self.values.shape[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor in the graph."""
        shape = (*self.lead, self.width)
        return (int(np.prod(shape)),) if self.flat else shape

    def with_values(self, values: Array) -> Rows:
        """Returns rows of the same kind with other values."""
        return replace(self, values=values)


@dataclass
class WeightTable:
    """Random matrices that represent weights, deterministic in seed, parameter and rank."""

    seed: int
    ranks: int
    tables: dict[tuple[str, int, int, int, int], Array] = field(
        default_factory=dict[tuple[str, int, int, int, int], Array]
    )

    def get(self, name: str, rank: int, experts: int, rows: int, columns: int) -> Array:
        """Returns the matrices of a rank's experts in `name`, [experts, rows, columns]."""
        key = (name, rank, experts, rows, columns)
        if key not in self.tables:
            words = [self.seed, zlib.crc32(name.encode()), rank, rows, columns]
            rng = np.random.default_rng(words)
            self.tables[key] = rng.uniform(0.5, 2.0, (experts, rows, columns))
        return self.tables[key]

    def all_ranks(self, name: str, experts: int, rows: int, columns: int) -> Array:
        """Returns the matrices of the experts of all ranks, in rank order."""
        parts = [self.get(name, rank, experts, rows, columns) for rank in range(self.ranks)]
        return np.concatenate(parts)


@dataclass(frozen=True)
class Weights:
    """Matrices of experts: a parameter of 3 dimensions, or a selection along its first."""

    name: str
    rank: int
    table: WeightTable
    shape: tuple[int, ...]
    """Shape in the graph; the last two extents are those of a matrix."""
    expert_ids: Array | None
    """The expert of each matrix; None for a parameter without an axis of experts, [E * H, N]."""
    experts: int
    """Experts in the parameter."""
    transposed: bool = False
    """Whether the matrices are transposed with respect to the parameter."""

    def multiply(self, rows: Rows, columns: int) -> Array:
        """Returns the stand-ins of `rows` times the matrices, batched over the leading axes."""
        assert self.expert_ids is not None
        table = self.table.get(self.name, self.rank, self.experts, rows.columns, columns)
        return np.matmul(rows.values, table[self.expert_ids])


Value: TypeAlias = Exact | Rows | Weights
Operand: TypeAlias = Value | tuple["Operand", ...] | int | float | bool | str | None


MAX_ELEMENTS = 1 << 24
"""Largest tensor of stand-ins; a layer has a few thousand tokens per rank."""


def check_elements(shape: Sequence[int]) -> None:
    """Raises UnsupportedOpError for a tensor with more than MAX_ELEMENTS elements."""
    if prod(shape) > MAX_ELEMENTS:
        raise UnsupportedOpError(
            f"it makes a tensor of {list(shape)}, expected at most {MAX_ELEMENTS} elements"
        )


def constant(value: Any) -> Operand:
    """Returns the stand-in value of a constant; arrays are exact."""
    return Exact(cast(Array, value)) if isinstance(value, np.ndarray) else value


def parameter(name: str, shape: tuple[int, ...], rank: int, table: WeightTable) -> Weights:
    """Returns the stand-in value of a parameter on one rank."""
    if len(shape) == 3:
        return Weights(name, rank, table, shape, np.arange(shape[0]), shape[0])
    return Weights(name, rank, table, shape, None, 0)


def as_rows(value: Exact, like: Rows) -> Rows:
    """Converts an exact tensor to rows like `like`; all elements of a row must be equal."""
    array = np.asarray(value.array, np.float64)
    if array.shape and array.shape[-1] == like.width and like.width > 1:
        first = array[..., :1]
        if not (array == first).all():
            raise UnsupportedOpError("its operands differ from column to column")
        array = np.repeat(first, like.columns, axis=-1)
    else:
        array = np.broadcast_to(array, (*array.shape[:-1], like.columns))
    return replace(like, values=np.asarray(array))
