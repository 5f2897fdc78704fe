"""The kernel library: what the compiler knows of a tile kernel.

A family of tasks names its kernel; the library says where the Ascend C function is, which kind of
core runs it, what its arguments are, what it costs and what it computes. Passes and lowering read
nothing else of a kernel, so another implementation takes its place by being registered and named
(`substitute-kernel`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from hpmoe_ir.machines.machine import Machine

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

Element: TypeAlias = Literal["activation", "i32", "f32", "activation or f32"]
"""Element type of a tile: the layer's activation type, a fixed one, or what the buffer has."""

CoreKind: TypeAlias = Literal["aic", "aiv"]


class KernelError(ValueError):
    """A kernel that is not registered, or is registered twice."""


@dataclass(frozen=True)
class TileOperand:
    """One tile argument of a kernel."""

    name: str
    element: Element = "activation"


@dataclass
class TileView:
    """A tile as the reference implementation sees it: a NumPy view and its place in the buffer.

    Elements of activation type are float32 values that the activation type can hold; `store`
    rounds to it.
    """

    array: Array
    first: int
    """Index of the tile's first row (of its first element, for a tile of one dimension)."""
    round_to: Callable[[Array], Array]

    def store(self, values: Array) -> None:
        """Writes `values`, rounded to the element type."""
        self.array[...] = self.round_to(values)


@dataclass(frozen=True)
class Cost:
    """What one task of a kernel costs, in units of the machine description.

    Per row of the task's dynamic rows, or in all where it has none.
    """

    macs: int = 0
    """Multiply-accumulates of the matrix core."""
    vector_elements: int = 0
    """Elements that pass a vector instruction, counted once for each instruction."""
    bytes_moved: int = 0
    """Bytes between global and local memory."""


@dataclass(frozen=True)
class LocalUse:
    """What a task of a kernel needs of its core: bytes of each local memory, flags between pipes.

    The device headers have the same numbers as constants (`hpmoe/local.h`).
    """

    l0a: int = 0
    l0b: int = 0
    l0c: int = 0
    l1: int = 0
    ub: int = 0
    event_ids: int = 0
    """Flag ids of one pair of pipes, from 0."""

    def exceeds(self, machine: Machine) -> str:
        """What does not fit the machine, empty where all does."""
        for memory, needed, available in (
            ("L0A", self.l0a, machine.l0a_bytes),
            ("L0B", self.l0b, machine.l0b_bytes),
            ("L0C", self.l0c, machine.l0c_bytes),
            ("L1", self.l1, machine.l1_usable),
            ("UB", self.ub, machine.ub_usable),
        ):
            if needed > available:
                return f"needs {needed} bytes of {memory}, {machine.name} has {available}"
        if self.event_ids > machine.event_ids:
            return (
                f"needs {self.event_ids} flag ids of a pair of pipes, {machine.name} has "
                f"{machine.event_ids}"
            )
        return ""


LocalFunction: TypeAlias = Callable[[Mapping[str, int]], LocalUse]
"""options: what a task needs of its core."""

KERNEL_UB = 183 * 1024
"""Bytes of UB that a kernel may use, `kUbBytes` of hpmoe/local.h."""


def vector_local(options: Mapping[str, int]) -> LocalUse:
    """What a vector kernel may use at most: all of UB but the worker's part, two flag ids."""
    return LocalUse(ub=KERNEL_UB, event_ids=2)


def matmul_local(options: Mapping[str, int]) -> LocalUse:
    """Of a kernel on hpmoe/detail/matmul_block.h, by its tile: two steps in L0A, L0B and L1.

    L0C holds one result. L1 takes as many steps as fit twice; what it needs at least is two.
    """
    m, n, k = options["tile_m"], options["tile_n"], options["tile_k"]
    return LocalUse(
        l0a=2 * 2 * m * k,
        l0b=2 * 2 * n * k,
        l0c=4 * m * n,
        l1=2 * 2 * (m + n) * k,
        event_ids=2,
    )


Reference: TypeAlias = Callable[
    [Sequence[TileView], Sequence[TileView], Mapping[str, int], Sequence[int]], None
]
"""reads, writes, options, scalars: computes the writes in NumPy."""

CostFunction: TypeAlias = Callable[[Sequence[int], Sequence[int], Mapping[str, int]], Cost]
"""columns of the reads, columns of the writes, options: cost of one row."""


@dataclass(frozen=True)
class Kernel:
    """One tile kernel."""

    name: str
    function: str
    """Qualified name of the C++ function template, e.g. `hpmoe::SwiGlu`."""
    header: str
    """Header that declares it, relative to an include directory."""
    core: CoreKind
    reads: tuple[TileOperand, ...]
    writes: tuple[TileOperand, ...]
    reference: Reference
    cost: CostFunction
    options: tuple[str, ...] = ()
    """Integer template arguments, after the element type."""
    scalars: tuple[str, ...] = ()
    """uint32_t arguments, after the tiles."""
    templated: bool = True
    """Whether the activation type is the first template argument."""
    local_use: LocalFunction = vector_local
    """What a task needs of its core."""
    include: Path | None = None
    """Include directory of the header, where it is not part of this package."""

    def mismatch(self, core: str, reads: int, writes: int, scalars: int, options: set[str]) -> str:
        """What is wrong with a use of the kernel, empty when nothing is."""
        for what, expected, found in (
            ("reads", len(self.reads), reads),
            ("writes", len(self.writes), writes),
            ("scalars", len(self.scalars), scalars),
        ):
            if expected != found:
                return f"kernel '{self.name}' takes {expected} {what}, found {found}"
        if core != self.core:
            return f"kernel '{self.name}' runs on {self.core}, found {core}"
        if options != set(self.options):
            expected = ", ".join(self.options) or "none"
            found = ", ".join(sorted(options)) or "none"
            return f"kernel '{self.name}' takes the options {expected}, found {found}"
        return ""

    def cannot_replace(self, other: Kernel) -> str:
        """What keeps this kernel from taking the place of `other`, empty when nothing does.

        Core kind and elements of the tiles must be the same, and as many scalars. Options that
        this kernel does not have are left out; it may not need others.
        """
        for what, expected, found in (
            ("core", other.core, self.core),
            ("reads", _elements(other.reads), _elements(self.reads)),
            ("writes", _elements(other.writes), _elements(self.writes)),
            ("scalars", str(len(other.scalars)), str(len(self.scalars))),
        ):
            if expected != found:
                return f"{what}: expected {expected}, found {found}"
        missing = [o for o in self.options if o not in other.options]
        if missing:
            known = ", ".join(other.options) or "none"
            return f"options: expected some of {known}, found {', '.join(missing)}"
        return ""


def _elements(operands: Sequence[TileOperand]) -> str:
    return ", ".join(o.element for o in operands) or "none"
