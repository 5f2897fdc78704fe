"""Families of tile tasks, drawn one by one, with what they do in plain NumPy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import bf16
from xdsl.ir.affine import AffineExpr

from generated.textbook import Tokens
from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    Chunk,
    GroupedRows,
    SentRows,
    TokenRows,
    WholeSelector,
)
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, TasksOp
from hpmoe_ir.dialects.tile.types import BufferType
from hpmoe_ir.dtypes import round_to
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.machines.core_kind import CoreKind

WHOLE = WholeSelector()
D0, D1, D2, D3 = (AffineExpr.dimension(i) for i in range(4))
TILE = 16
MOST_PRODUCTS = 2
"""Sums of more would not be exact in float32."""

Memory: TypeAlias = dict[str, list[Array]]
"""Values of a buffer on each rank, by its name."""


@dataclass(frozen=True)
class TileValue:
    """A buffer that is written from end to end."""

    name: str
    rows: str
    """grouped, sent, tokens, or empty for a fixed number of them."""
    shape: tuple[int, int]
    space: MemorySpace = MemorySpace.WORKSPACE
    first: int = 0
    """Whether it follows from what all ranks said in this launch: only that may be put."""


@dataclass
class FamilyMaker:
    """A program while it is drawn: its values, and families that work on one rank."""

    random: np.random.Generator
    ranks: int
    local: int
    top: int
    tokens: int
    buffers: list[BufferOp] = field(default_factory=list[BufferOp])
    families: list[TasksOp] = field(default_factory=list[TasksOp])
    values: list[TileValue] = field(default_factory=list[TileValue])
    work: list[Callable[[Memory], None]] = field(default_factory=list[Callable[[Memory], None]])
    inputs: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    where: Tokens | None = None
    products: int = 0

    def draw(self, low: int, high: int) -> int:
        """A number from `low` to `high`."""
        return int(self.random.integers(low, high + 1))  # pyright: ignore[reportUnknownMemberType]

    def one(self, values: Sequence[TileValue]) -> TileValue:
        """One of some values."""
        return values[self.draw(0, len(values) - 1)]

    def width(self) -> int:
        """Columns of a buffer."""
        return 16 * self.draw(1, 5)

    def buffer(
        self, stem: str, space: MemorySpace, dims: Sequence[int], rows: str = "", copies: int = 1
    ) -> str:
        """Adds a buffer and returns its name."""
        name = f"{stem}{len(self.buffers)}"
        self.buffers.append(BufferOp(name, space, BufferType(list(dims), bf16, rows), copies))
        if space is MemorySpace.INPUT:
            self.inputs[name] = tuple(dims)
        return name

    def family(
        self,
        stem: str,
        grid: list[tuple[str, int]],
        core: CoreKind,
        kernel: str,
        reads: list[Access],
        writes: list[Access],
        route: bool = False,
    ) -> None:
        """Adds a family of tasks."""
        options: dict[str, int] = {}
        if kernel == "grouped_matmul":
            options = {"tile_m": TILE, "tile_n": 2 * TILE, "tile_k": TILE, "transpose_rhs": 0}
        name = f"{stem}_{len(self.families)}"
        self.families.append(
            TasksOp(name, grid, core, kernel, reads, writes, options, "route" if route else None)
        )

    def target(self, like: TileValue, stem: str, but: str = "") -> TileValue:
        """A buffer to write, sometimes one that was written and read before, not `but`."""
        old = [
            v
            for v in self.values
            if v.space is MemorySpace.WORKSPACE
            and (v.rows, v.shape) == (like.rows, like.shape)
            and v.name not in (like.name, but)
        ]
        if old and self.draw(0, 3) == 0:
            found = self.one(old)
            self.values.remove(found)
            made = TileValue(found.name, like.rows, like.shape, first=like.first)
        else:
            name = self.buffer(stem, MemorySpace.WORKSPACE, like.shape, like.rows)
            made = TileValue(name, like.rows, like.shape, first=like.first)
        self.values.append(made)
        return made

    def cut(self, value: TileValue) -> tuple[list[tuple[str, int]], tuple[object, ...], bool]:
        """A grid over a value, its selectors, and whether they need the route."""
        rows, width = value.shape
        block = 16 * self.draw(1, width // 16)
        columns = (("n", -(-width // block)), BlockSelector(D3, block))
        chunk = self.chunk(D2)
        match value.rows:
            case "grouped":
                groups = self.draw(1, self.ranks)
                grid = [("e", self.local), ("g", groups), ("c", chunk.count), columns[0]]
                return grid, (GroupedRows(D0, D1, groups, chunk), columns[1]), True
            case "sent":
                grid = [("x", self.ranks * self.local), ("z", 1), ("c", chunk.count), columns[0]]
                return grid, (SentRows(D0, chunk), columns[1]), True
            case "tokens":
                parts = self.draw(1, 3)
                grid = [("b", parts), ("y", 1), ("z", 1), columns[0]]
                return grid, (TokenRows(D0, parts), columns[1]), False
            case _:
                size = self.draw(1, rows)
                grid = [("r", -(-rows // size)), ("y", 1), ("z", 1), columns[0]]
                return grid, (BlockSelector(D0, size), columns[1]), False

    def chunk(self, index: AffineExpr) -> Chunk:
        """Parts of rows, often one."""
        count = self.draw(1, 3)
        return Chunk(index, count, self.draw(1, 3)) if count > 1 else Chunk()

    def copy(self) -> None:
        """A copy, in parts."""
        source = self.one(self.values)
        grid, selectors, route = self.cut(source)
        target = self.target(source, "copy")
        self.family(
            "copy",
            grid,
            CoreKind.AIV,
            "copy_rows",
            [Access(source.name, selectors)],  # pyright: ignore[reportArgumentType]
            [Access(target.name, selectors)],  # pyright: ignore[reportArgumentType]
            route,
        )
        self.work.append(copied(source.name, target.name))

    def add(self) -> None:
        """A sum of two values, in parts; both may be the same."""
        a = self.one(self.values)
        b = self.one([v for v in self.values if (v.rows, v.shape) == (a.rows, a.shape)])
        grid, selectors, route = self.cut(a)
        like = a if a.first >= b.first else b
        target = self.target(like, "sum")
        self.family(
            "add",
            grid,
            CoreKind.AIV,
            "add_rows",
            [Access(a.name, selectors), Access(b.name, selectors)],  # pyright: ignore[reportArgumentType]
            [Access(target.name, selectors)],  # pyright: ignore[reportArgumentType]
            route,
        )
        self.work.append(added(a.name, b.name, target.name))

    def product(self) -> None:
        """A product with a weight matrix, by matrix cores; rows as a whole or in parts."""
        if self.products == MOST_PRODUCTS:
            return
        self.products += 1
        source = self.one([v for v in self.values if v.rows in ("", "grouped")])
        rows, depth = source.shape
        columns = self.width()
        weights = self.buffer("w", MemorySpace.INPUT, (depth, columns))
        grid, selectors, route = self.cut(source)
        block = BlockSelector(D3, 16 * self.draw(1, columns // 16))
        grid[3] = ("n", -(-columns // block.size))
        target = self.target(
            TileValue("", source.rows, (rows, columns), first=source.first), "product", source.name
        )
        row = selectors[0]
        self.family(
            "product",
            grid,
            CoreKind.AIC,
            "grouped_matmul",
            [Access(source.name, (row, WHOLE)), Access(weights, (WHOLE, block))],  # pyright: ignore[reportArgumentType]
            [Access(target.name, (row, block))],  # pyright: ignore[reportArgumentType]
            route,
        )
        self.work.append(multiplied(source.name, weights, target.name))

    def results(self) -> list[tuple[str, str]]:
        """Copies of the last values to outputs."""
        kept = self.values[-3:]
        found: list[tuple[str, str]] = []
        for value in kept:
            out = self.buffer("out", MemorySpace.OUTPUT, value.shape, value.rows)
            grid, selectors, route = self.cut(value)
            self.family(
                "keep",
                grid,
                CoreKind.AIV,
                "copy_rows",
                [Access(value.name, selectors)],  # pyright: ignore[reportArgumentType]
                [Access(out, selectors)],  # pyright: ignore[reportArgumentType]
                route,
            )
            self.work.append(copied(value.name, out))
            found.append((out, value.rows))
        return found


def copied(source: str, target: str) -> Callable[[Memory], None]:
    """The work of a copy."""

    def step(memory: Memory) -> None:
        memory[target] = list(memory[source])

    return step


def added(a: str, b: str, target: str) -> Callable[[Memory], None]:
    """The work of a sum."""

    def step(memory: Memory) -> None:
        memory[target] = [
            round_to(np.add(x, y, dtype=np.float32), "bf16")
            for x, y in zip(memory[a], memory[b], strict=True)
        ]

    return step


def multiplied(source: str, weights: str, target: str) -> Callable[[Memory], None]:
    """The work of a product."""

    def product(x: Array, w: Array) -> Array:
        return np.dot(x, w)

    def step(memory: Memory) -> None:
        memory[target] = [
            round_to(product(x, w), "bf16")
            for x, w in zip(memory[source], memory[weights], strict=True)
        ]

    return step
