"""The description of a tile kernel that the compiler uses.

A family of tasks names its kernel. The registry (`hpmoe_ir.kernels.registry`) then provides its
core kind, arguments, NumPy reference, cost, time estimate and Ascend C function. Passes and
lowering use nothing else of a kernel, so a kernel is replaced by registering another one and
naming it (`substitute-kernel`).
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
from hpmoe_ir.kernels.device import CUBE_MACS, ELEMENT_BYTES, FLOAT_BYTES, FRACTAL, UB_BYTES
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
    """Either of the two types, as the buffer has it."""


class KernelError(ValueError):
    """A kernel name that is unknown or already registered."""


@dataclass(frozen=True)
class TileOperand:
    """One tile argument of a kernel."""

    name: str
    element: Element = Element.ACTIVATION
    listed: str = ""
    """Of a tile read: the kind of rows (`tokens`, `sent`) of which the kernel reads only those that
    another operand lists. Empty: it reads the whole tile."""
    in_place: bool = False
    """Of a tile read: whether it may be the tile that the kernel writes."""
    scatter: bool = False
    """Of a tile written: whether a task writes only elements of its own, which no other task of
    the family writes, wherever they are in the tile."""
    builds_route: bool = False
    """Of a tile written: whether it is the route of a launch."""
    shape: str = ""
    """Extents by name, such as `n 2i` for rows and columns: those of one name are equal in all
    operands, `2i` is twice `i`, and `c%16` a multiple of 16. Empty: any."""
    transposed_by: str = ""
    """The option that makes the kernel read the tile transposed; empty without one."""


@dataclass
class TileView:
    """A tile as an argument of a reference: a NumPy view and its position in the buffer.

    Elements of activation type are stored as float32 values that are exact in the activation type;
    `store` rounds to it.
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
    """Cost of a task, per dynamic row, or in total for tasks without dynamic rows."""

    macs: int = 0
    """Multiply-accumulates of the matrix core."""
    vector_elements: int = 0
    """Elements processed by vector instructions, counted once for each instruction."""
    bytes_moved: int = 0
    """Bytes between global and local memory."""

    def share(self, tasks: int) -> Cost:
        """Returns the cost of each of `tasks` tasks that share the work equally, rounded up."""
        return Cost(
            macs=ceil_div(self.macs, tasks),
            vector_elements=ceil_div(self.vector_elements, tasks),
            bytes_moved=ceil_div(self.bytes_moved, tasks),
        )


@dataclass(frozen=True)
class LocalUse:
    """Local resources of a task: bytes of each local memory, and flag ids between pipes.

    The device headers have the same numbers as constants (`hpmoe/machine.h`).
    """

    l0a: int = 0
    l0b: int = 0
    l0c: int = 0
    l1: int = 0
    ub: int = 0
    event_ids: int = 0
    """Number of flag ids that a pair of pipes uses, from id 0."""

    def exceeds(self, machine: Machine) -> str:
        """Returns a message naming the resource that exceeds the machine, "" if all fit."""
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
    """Sizes of the tiles of a family's tasks, the inputs of cost and time functions."""

    rows: Float64Array
    """Dynamic rows of each task, `[tasks]`; 1 if tasks have none."""
    read_columns: tuple[int, ...]
    """Largest number of columns of each tile read; the last block of columns may have fewer. 1 for
    dynamic rows of a one-dimensional tile."""
    write_columns: tuple[int, ...]
    """Largest number of columns of each tile written."""
    options: Mapping[str, int]
    """Options of the kernel."""
    result_rows: int = 1
    """Rows of the first tile written; 1 if they are dynamic."""
    result_bytes: int = ELEMENT_BYTES
    """Bytes of an element of the first tile written."""
    sharing: int = 1
    """Number of tasks that share the work given by `write_columns` and `rows` in equal parts."""


@dataclass(frozen=True)
class Variant:
    """Properties that distinguish kernels which compute the same product.

    Policies and tiling use these properties, never the name of a kernel.
    """

    shares_product: bool = False
    """Whether several tasks share a product. The last two scalars are then the task's first block
    and the number n of tasks that share; the task computes every n-th block from its first on."""
    cann_like: bool = False
    """Whether L1 is used only for double buffering, as in CANN's grouped matmul."""


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
"""(options) -> local resources of a task."""

Reference: TypeAlias = Callable[
    [Sequence[TileView], Sequence[TileView], Mapping[str, int], Sequence[int]], None
]
"""(reads, writes, options, scalars): computes the written tiles in NumPy."""

CostFunction: TypeAlias = Callable[[Sequence[int], Sequence[int], Mapping[str, int]], Cost]
"""(columns of each read, columns of each write, options) -> cost of one row."""

TimeFunction: TypeAlias = Callable[["Kernel", Machine, TileSizes], Float64Array]
"""(kernel, machine, sizes) -> seconds of each task, `[tasks]`, on a core without contention."""


def vector_local(options: Mapping[str, int]) -> LocalUse:
    """Returns the most that a vector kernel may use: UB without the worker's part, two flag ids."""
    return LocalUse(ub=UB_BYTES, event_ids=2)


def no_cost(reads: Sequence[int], writes: Sequence[int], options: Mapping[str, int]) -> Cost:
    """Returns zero cost, for kernels with few and short tasks."""
    return Cost()


def time_by_cost(kernel: Kernel, machine: Machine, sizes: TileSizes) -> Float64Array:
    """Returns seconds of each task, `[tasks]`: its rows times the time of the busiest unit per row.

    For a matrix kernel, that is the time of its products at the peak of the cube; for a vector
    kernel, the longer of its vector instructions and its transfers, one transfer per row.
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
    """Implementation for the target `ascendc`."""
    reference: Reference
    """NumPy reference, by which the interpreter runs the tile and queue levels."""
    cost: CostFunction = no_cost
    """Cost of one row of a task."""
    time: TimeFunction = time_by_cost
    """Rough time estimate, for policies that compare orders, not for predictions."""
    options: tuple[str, ...] = ()
    """Integer template arguments, after the element type."""
    fractal_options: tuple[str, ...] = ()
    """The options that are multiples of 16, the unit of the cube."""
    flag_options: tuple[str, ...] = ()
    """The options that are 0 or 1."""
    accumulate_option: str = ""
    """The option that makes the kernel add to the tiles that it writes; empty without one."""
    scalars: tuple[str, ...] = ()
    """uint32_t arguments, after the tiles."""
    local_use: LocalFunction = vector_local
    """Local memories and flags that a task uses."""
    variant_of: str = ""
    """Name of the kernel that this is a variant of; empty if it is none."""
    variant: Variant = Variant()

    @property
    def base(self) -> str:
        """Name of the kernel that this is a variant of; its own name if it is none."""
        return self.variant_of or self.name

    def accumulates(self, options: Mapping[str, int]) -> bool:
        """Returns whether the kernel adds to the tiles that it writes, and so reads them."""
        return bool(self.accumulate_option and options.get(self.accumulate_option))

    def task_cost(self, sizes: TileSizes) -> Cost:
        """Returns the cost of one row of a task, or of a whole task without dynamic rows.

        Tasks that share a product have equal parts of its cost, rounded up.
        """
        cost = self.cost(sizes.read_columns, sizes.write_columns, sizes.options)
        return cost.share(sizes.sharing)

    def seconds(self, machine: Machine, sizes: TileSizes) -> Float64Array:
        """Estimates the seconds of each task of a family, `[tasks]`, on a core without contention.

        The worker's polls and signals before and after a task are not included.
        """
        return self.time(self, machine, sizes)

    def mismatch(self, core: str, reads: int, writes: int, scalars: int, options: set[str]) -> str:
        """Returns an error message for an invalid use of the kernel, "" for a valid one."""
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

    def option_problem(self, options: Mapping[str, int]) -> str:
        """Returns why the kernel has no such values of its options, "" if it has."""
        for name in self.fractal_options:
            if options[name] <= 0 or options[name] % FRACTAL:
                return (
                    f"expected {name} to be a positive multiple of {FRACTAL}, found {options[name]}"
                )
        for name in self.flag_options:
            if options[name] not in (0, 1):
                return f"expected {name} to be 0 or 1, found {options[name]}"
        return ""

    def cannot_replace(self, other: Kernel) -> str:
        """Returns why this kernel cannot replace `other`, "" if it can.

        Core kind, element types of the tiles and number of scalars must be equal. Options that this
        kernel does not have are dropped; it may not require others.
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
