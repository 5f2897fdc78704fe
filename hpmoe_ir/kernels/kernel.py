"""The contract of a tile kernel: what the compiler knows of it.

A family of tasks names its kernel. The registry (`hpmoe_ir.kernels.registry`) then gives the kind
of core that runs it, its arguments, what it computes (a NumPy reference), what it costs, how long
it takes, and its Ascend C function. Passes and lowering know nothing else of a kernel, so another
one takes its place by being registered and named (`substitute-kernel`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.integers import ceil_div
from hpmoe_ir.kernels.device import CUBE_MACS, ELEMENT_BYTES, FLOAT_BYTES, UB_BYTES
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import Machine

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Element(StrEnum):
    """Element type of a tile."""

    ACTIVATION = "activation"
    """The layer's activation type, bf16 or f16."""
    I32 = "i32"
    F32 = "f32"
    ACTIVATION_OR_F32 = "activation or f32"
    """Whichever of the two the buffer has."""


class KernelError(ValueError):
    """A kernel that is not registered, or is registered twice."""


@dataclass(frozen=True)
class TileOperand:
    """One tile argument of a kernel."""

    name: str
    element: Element = Element.ACTIVATION


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

    def share(self, tasks: int) -> Cost:
        """Returns the cost of each of `tasks` tasks that do the work together, rounded up."""
        return Cost(
            macs=ceil_div(self.macs, tasks),
            vector_elements=ceil_div(self.vector_elements, tasks),
            bytes_moved=ceil_div(self.bytes_moved, tasks),
        )


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


@dataclass(frozen=True)
class TileSizes:
    """Sizes of the tiles of a family's tasks, from which costs and times follow."""

    rows: Float64Array
    """Dynamic rows of each task, 1 where tasks have none."""
    read_columns: tuple[int, ...]
    """Columns of each tile read, at its widest: the last block of a width may have fewer. 1 for
    dynamic rows of one number each."""
    write_columns: tuple[int, ...]
    """Columns of each tile written, likewise."""
    options: Mapping[str, int]
    """Options of the kernel."""
    result_rows: int = 1
    """Rows of the first tile written, 1 where they are dynamic."""
    result_bytes: int = ELEMENT_BYTES
    """Bytes of an element of the first tile written."""
    sharing: int = 1
    """Tasks that do together what `write_columns` and `rows` describe: an equal part each."""


@dataclass(frozen=True)
class Variant:
    """What distinguishes a kernel from others that compute the same product.

    Policies and tiling ask for these properties; they never look at the name of a kernel.
    """

    shares_product: bool = False
    """Whether several tasks share a product. Its last scalars are the number of the task's first
    block and of the tasks that share: of n tasks each does every n-th block, from its first on."""
    cann_like: bool = False
    """Whether it uses a matrix core as CANN's grouped matmul does: L1 for double buffers alone."""


@dataclass(frozen=True)
class AscendCFunction:
    """The implementation of a kernel in Ascend C: a function, or a template of functions.

    Its template arguments are the activation type, where `templated`, and the kernel's options; its
    arguments are the tiles read, the tiles written, and the scalars as uint32_t.
    """

    name: str
    """Qualified name, such as `hpmoe::SwiGlu`."""
    header: str
    """Header that declares it, relative to an include directory."""
    include: Path | None = None
    """Include directory of the header; None for the device headers of this package."""
    templated: bool = True
    """Whether the activation type is the first template argument."""


LocalFunction: TypeAlias = Callable[[Mapping[str, int]], LocalUse]
"""options: what a task needs of its core."""

Reference: TypeAlias = Callable[
    [Sequence[TileView], Sequence[TileView], Mapping[str, int], Sequence[int]], None
]
"""reads, writes, options, scalars: computes the writes in NumPy."""

CostFunction: TypeAlias = Callable[[Sequence[int], Sequence[int], Mapping[str, int]], Cost]
"""columns of the reads, columns of the writes, options: cost of one row."""

TimeFunction: TypeAlias = Callable[["Kernel", Machine, TileSizes], Float64Array]
"""kernel, machine, sizes: seconds of each task on a core that has the chip for itself."""


def vector_local(options: Mapping[str, int]) -> LocalUse:
    """Returns what a vector kernel may use at most: UB but for the worker's part, two flag ids."""
    return LocalUse(ub=UB_BYTES, event_ids=2)


def no_cost(reads: Sequence[int], writes: Sequence[int], options: Mapping[str, int]) -> Cost:
    """Returns no cost: for kernels whose tasks are few and short."""
    return Cost()


def time_by_cost(kernel: Kernel, machine: Machine, sizes: TileSizes) -> Float64Array:
    """Computes times from the kernel's cost: that of the busiest unit, for each row.

    A matrix kernel takes as long as its products at the peak of the cube. A vector kernel takes as
    long as its vector instructions or its transfers, whichever is longer; each row is a transfer
    of its own.
    """
    cost = kernel.task_cost(sizes)
    rates = machine.rates
    if kernel.core is CoreKind.AIC:
        macs = sizes.rows * cost.macs
        return macs / (CUBE_MACS * rates.clock_frequency)
    vector_bytes = rates.vector_bytes_per_cycle * rates.clock_frequency
    compute = cost.vector_elements * FLOAT_BYTES / vector_bytes
    shared = rates.shared_bandwidth_l2 / machine.cores(kernel.core)
    move = cost.bytes_moved / min(rates.core_bandwidth_gm_to_ub, shared)
    row = ELEMENT_BYTES * max(*sizes.read_columns, *sizes.write_columns)
    move += cost.bytes_moved / row * rates.dma_gm_to_ub_start / rates.clock_frequency
    return sizes.rows * max(compute, move)


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One tile kernel."""

    name: str
    core: CoreKind
    reads: tuple[TileOperand, ...]
    writes: tuple[TileOperand, ...]
    ascendc: AscendCFunction
    """Its implementation for the target `ascendc`."""
    reference: Reference
    """What it computes, in NumPy: how the tile and queue levels are run."""
    cost: CostFunction = no_cost
    """What one row of a task costs."""
    time: TimeFunction = time_by_cost
    """How long tasks take, roughly: for policies that compare orders, not for predictions."""
    options: tuple[str, ...] = ()
    """Integer template arguments, after the element type."""
    scalars: tuple[str, ...] = ()
    """uint32_t arguments, after the tiles."""
    local_use: LocalFunction = vector_local
    """What a task needs of its core."""
    variant_of: str = ""
    """Name of the kernel that this is a variant of; empty for a kernel of its own."""
    variant: Variant = Variant()

    @property
    def base(self) -> str:
        """Name of the kernel that this is a variant of, its own name where it is none."""
        return self.variant_of or self.name

    def task_cost(self, sizes: TileSizes) -> Cost:
        """Computes what one row of a task costs, or a whole task that has no dynamic rows.

        Of tasks that share a product, each has an equal part, rounded up.
        """
        cost = self.cost(sizes.read_columns, sizes.write_columns, sizes.options)
        return cost.share(sizes.sharing)

    def seconds(self, machine: Machine, sizes: TileSizes) -> Float64Array:
        """Estimates the time of each task of a family on a core that has the chip for itself.

        What the worker does before and after a task, polls and signals, is not part of it.
        """
        return self.time(self, machine, sizes)

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
