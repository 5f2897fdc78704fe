"""Generated tile programs that are no layers: families, regions, grids and peers drawn one by one.

Every program computes with small integers, so that its result has the same bits at every level and
in plain NumPy, where each family does its work at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, bf16, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir.affine import AffineExpr

from generated.textbook import Tokens
from hpmoe_ir.dialects import moe
from hpmoe_ir.dialects.index import RANK
from hpmoe_ir.dialects.moe import RouteType
from hpmoe_ir.dialects.region import (
    Block,
    Chunk,
    GroupedRows,
    Point,
    Region,
    SentRows,
    TokenRows,
    Whole,
)
from hpmoe_ir.dialects.tile import BufferOp, ProgramOp, TasksOp
from hpmoe_ir.dialects.tile_types import BufferType
from hpmoe_ir.dtypes import round_to
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.passes.convert_comm_to_tile import ConvertCommToTilePass
from hpmoe_ir.passes.convert_moe_to_comm import ConvertMoeToCommPass

WHOLE = Whole()
D0, D1, D2, D3 = (AffineExpr.dimension(i) for i in range(4))
NAME = "program"
TILE = 16
MOST_FAMILIES = 9
MOST_PRODUCTS = 2
"""Sums of more would not be exact in float32."""

Memory: TypeAlias = dict[str, list[Array]]
"""Values of a buffer on each rank, by its name."""


@dataclass(frozen=True)
class TileProgram:
    """A program, what it is run on, and what it does."""

    module: ModuleOp
    """At the tile level, without dependences."""
    ranks: int
    tokens: Tokens | None
    """Where tokens go, in a program with a route."""
    inputs: list[dict[str, Array]]
    work: list[Callable[[Memory], None]]
    outputs: list[tuple[str, str]]
    """Names and row kinds of the outputs that `work` fills."""

    def launches(self) -> list[list[dict[str, Array]]]:
        """Inputs of two launches: the second has other numbers."""
        second = [
            {n: np.roll(v, 1) if v.dtype == np.float32 else v for n, v in by_name.items()}
            for by_name in self.inputs
        ]
        return [self.inputs, second]

    def expected(self, inputs: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """The outputs of each rank."""
        memory: Memory = {name: [by_rank[name] for by_rank in inputs] for name in inputs[0]}
        for step in self.work:
            step(memory)
        return [
            {name: memory[name][rank] for name, _ in self.outputs} for rank in range(self.ranks)
        ]


@dataclass(frozen=True)
class _Value:
    """A buffer that is written from end to end."""

    name: str
    rows: str
    """grouped, sent, tokens, or empty for a fixed number of them."""
    shape: tuple[int, int]
    space: str = "workspace"
    first: int = 0
    """Whether it follows from what all ranks said in this launch: only that may be put."""


@dataclass
class _Maker:
    """Draws a program from a seed, family after family."""

    random: np.random.Generator
    ranks: int
    local: int
    top: int
    tokens: int
    buffers: list[BufferOp] = field(default_factory=list[BufferOp])
    families: list[TasksOp] = field(default_factory=list[TasksOp])
    values: list[_Value] = field(default_factory=list[_Value])
    work: list[Callable[[Memory], None]] = field(default_factory=list[Callable[[Memory], None]])
    inputs: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    where: Tokens | None = None
    products: int = 0

    def draw(self, low: int, high: int) -> int:
        """A number from `low` to `high`."""
        return int(self.random.integers(low, high + 1))  # pyright: ignore[reportUnknownMemberType]

    def one(self, values: Sequence[_Value]) -> _Value:
        """One of some values."""
        return values[self.draw(0, len(values) - 1)]

    def width(self) -> int:
        """Columns of a buffer."""
        return 16 * self.draw(1, 5)

    def buffer(
        self, stem: str, space: str, dims: Sequence[int], rows: str = "", copies: int = 1
    ) -> str:
        """Adds a buffer and returns its name."""
        name = f"{stem}{len(self.buffers)}"
        self.buffers.append(BufferOp(name, space, BufferType(list(dims), bf16, rows), copies))
        if space == "input":
            self.inputs[name] = tuple(dims)
        return name

    def family(
        self,
        stem: str,
        grid: list[tuple[str, int]],
        core: str,
        kernel: str,
        reads: list[Region],
        writes: list[Region],
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

    def target(self, like: _Value, stem: str, but: str = "") -> _Value:
        """A buffer to write, sometimes one that was written and read before, not `but`."""
        old = [
            v
            for v in self.values
            if v.space == "workspace"
            and (v.rows, v.shape) == (like.rows, like.shape)
            and v.name not in (like.name, but)
        ]
        if old and self.draw(0, 3) == 0:
            found = self.one(old)
            self.values.remove(found)
            made = _Value(found.name, like.rows, like.shape, first=like.first)
        else:
            name = self.buffer(stem, "workspace", like.shape, like.rows)
            made = _Value(name, like.rows, like.shape, first=like.first)
        self.values.append(made)
        return made

    def cut(self, value: _Value) -> tuple[list[tuple[str, int]], tuple[object, ...], bool]:
        """A grid over a value, its selectors, and whether they need the route."""
        rows, width = value.shape
        block = 16 * self.draw(1, width // 16)
        columns = (("n", -(-width // block)), Block(D3, block))
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
                return grid, (Block(D0, size), columns[1]), False

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
            "aiv",
            "copy_rows",
            [Region(source.name, selectors)],  # pyright: ignore[reportArgumentType]
            [Region(target.name, selectors)],  # pyright: ignore[reportArgumentType]
            route,
        )
        self.work.append(_copied(source.name, target.name))

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
            "aiv",
            "add_rows",
            [Region(a.name, selectors), Region(b.name, selectors)],  # pyright: ignore[reportArgumentType]
            [Region(target.name, selectors)],  # pyright: ignore[reportArgumentType]
            route,
        )
        self.work.append(_added(a.name, b.name, target.name))

    def product(self) -> None:
        """A product with a weight matrix, by matrix cores; rows as a whole or in parts."""
        if self.products == MOST_PRODUCTS:
            return
        self.products += 1
        source = self.one([v for v in self.values if v.rows in ("", "grouped")])
        rows, depth = source.shape
        columns = self.width()
        weights = self.buffer("w", "input", (depth, columns))
        grid, selectors, route = self.cut(source)
        block = Block(D3, 16 * self.draw(1, columns // 16))
        grid[3] = ("n", -(-columns // block.size))
        target = self.target(
            _Value("", source.rows, (rows, columns), first=source.first), "product", source.name
        )
        row = selectors[0]
        self.family(
            "product",
            grid,
            "aic",
            "grouped_matmul",
            [Region(source.name, (row, WHOLE)), Region(weights, (WHOLE, block))],  # pyright: ignore[reportArgumentType]
            [Region(target.name, (row, block))],  # pyright: ignore[reportArgumentType]
            route,
        )
        self.work.append(_multiplied(source.name, weights, target.name))

    def announce(self) -> None:
        """What a launch begins with: each rank tells all others, and hears from all."""
        rows, width = self.draw(1, 6), self.width()
        x = self.buffer("x", "input", (rows, width))
        # Two copies: a rank may be a launch ahead of one that still reads.
        window = self.buffer("news", "window", (self.ranks, rows, width), copies=2)
        self.family(
            "tell",
            [("p", self.ranks)],
            "aiv",
            "copy_rows",
            [Region(x, (WHOLE, WHOLE))],
            [Region(window, (Point(RANK), WHOLE, WHOLE), D0)],
        )
        total = self.ranks * rows
        heard = self.buffer("heard", "workspace", (total, width))
        self.family(
            "hear",
            [("p", self.ranks)],
            "aiv",
            "copy_rows",
            [Region(window, (Point(D0), WHOLE, WHOLE))],
            [Region(heard, (Block(D0, rows), WHOLE))],
        )
        # A product of all rows: whatever follows from it comes after all ranks' news.
        columns = self.width()
        weights = self.buffer("w", "input", (width, columns))
        mixed = self.buffer("mixed", "workspace", (total, columns))
        block = 16 * self.draw(1, columns // 16)
        self.family(
            "mix",
            [("n", -(-columns // block))],
            "aic",
            "grouped_matmul",
            [Region(heard, (WHOLE, WHOLE)), Region(weights, (WHOLE, Block(D0, block)))],
            [Region(mixed, (WHOLE, Block(D0, block)))],
        )

        def told(memory: Memory) -> None:
            memory[heard] = [np.concatenate(memory[x])] * self.ranks

        # Each rank hears from all that they have heard: without this, a quick rank may tell in its
        # next launch what a slow one's counter takes for another rank's word of this launch.
        back = self.buffer("heard_by", "window", (self.ranks, total, columns))
        self.family(
            "answer",
            [("p", self.ranks)],
            "aiv",
            "copy_rows",
            [Region(mixed, (WHOLE, WHOLE))],
            [Region(back, (Point(RANK), WHOLE, WHOLE), D0)],
        )
        answers = self.buffer("answers", "workspace", (self.ranks * total, columns))
        self.family(
            "end",
            [("p", self.ranks)],
            "aiv",
            "copy_rows",
            [Region(back, (Point(D0), WHOLE, WHOLE))],
            [Region(answers, (Block(D0, total), WHOLE))],
        )

        def answered(memory: Memory) -> None:
            memory[answers] = [np.concatenate(memory[mixed])] * self.ranks

        self.work += [told, _multiplied(heard, weights, mixed), answered]
        self.values += [
            _Value(x, "", (rows, width), "input"),
            _Value(heard, "", (total, width)),
            _Value(answers, "", (self.ranks * total, columns)),
            _Value(mixed, "", (total, columns), first=1),
        ]

    def put(self) -> None:
        """A value to a neighbour, or to all ranks, by blocks of rows."""
        choice = [v for v in self.values if v.first and v.rows == ""]
        if not choice:
            return
        source = self.one(choice)
        rows, width = source.shape
        size = self.draw(1, rows)
        parts = -(-rows // size)
        if self.draw(0, 1):
            step = self.draw(0, self.ranks - 1)
            window = self.buffer("ring", "window", (rows, width))
            self.family(
                "ring",
                [("r", parts)],
                "aiv",
                "copy_rows",
                [Region(source.name, (Block(D0, size), WHOLE))],
                [Region(window, (Block(D0, size), WHOLE), (RANK + step) % self.ranks)],
            )

            def passed(memory: Memory) -> None:
                sent = memory[source.name]
                memory[window] = [sent[(r - step) % self.ranks] for r in range(self.ranks)]

            self.work.append(passed)
            self.values.append(_Value(window, "", (rows, width), "window", first=1))
            return
        window = self.buffer("all", "window", (self.ranks, rows, width))
        peer = D0 if self.draw(0, 1) else (RANK + D0) % self.ranks
        self.family(
            "spread",
            [("p", self.ranks), ("r", parts)],
            "aiv",
            "copy_rows",
            [Region(source.name, (Block(D1, size), WHOLE))],
            [Region(window, (Point(RANK), Block(D1, size), WHOLE), peer)],
        )
        # One of the ranks' parts goes on.
        of = self.draw(0, self.ranks - 1)
        target = self.buffer("part", "workspace", (rows, width))
        block = self.draw(1, rows)
        self.family(
            "take",
            [("r", -(-rows // block))],
            "aiv",
            "copy_rows",
            [Region(window, (Point((RANK + of) % self.ranks), Block(D0, block), WHOLE))],
            [Region(target, (Block(D0, block), WHOLE))],
        )

        def spread(memory: Memory) -> None:
            sent = memory[source.name]
            memory[target] = [sent[(r + of) % self.ranks] for r in range(self.ranks)]

        self.work.append(spread)
        self.values.append(_Value(target, "", (rows, width), first=1))

    def back(self) -> None:
        """Rows of experts to the ranks that they came from."""
        choice = [v for v in self.values if v.rows == "grouped"]
        if not choice:
            return
        source = self.one(choice)
        width = source.shape[1]
        window = self.buffer("back", "window", (self.tokens * self.top, width), "sent")
        chunk = self.chunk(D2)
        self.family(
            "return",
            [("e", self.local), ("s", self.ranks), ("c", chunk.count)],
            "aiv",
            "copy_rows",
            [Region(source.name, (GroupedRows(D0, D1, self.ranks, chunk), WHOLE))],
            [Region(window, (SentRows(RANK * self.local + D0, chunk), WHOLE), D1)],
            route=True,
        )
        where = self.where
        assert where is not None

        def returned(memory: Memory) -> None:
            pairs = np.zeros((where.ids.size, width), np.float32)
            for rank, rows in enumerate(memory[source.name]):
                pairs[where.received(rank)] = rows
            memory[window] = [pairs[where.sent(rank)] for rank in range(self.ranks)]

        self.work.append(returned)
        self.values.append(_Value(window, "sent", (self.tokens * self.top, width), "window", 1))

    def results(self) -> list[tuple[str, str]]:
        """Copies of the last values to outputs."""
        kept = self.values[-3:]
        found: list[tuple[str, str]] = []
        for value in kept:
            out = self.buffer("out", "output", value.shape, value.rows)
            grid, selectors, route = self.cut(value)
            self.family(
                "keep",
                grid,
                "aiv",
                "copy_rows",
                [Region(value.name, selectors)],  # pyright: ignore[reportArgumentType]
                [Region(out, selectors)],  # pyright: ignore[reportArgumentType]
                route,
            )
            self.work.append(_copied(value.name, out))
            found.append((out, value.rows))
        return found


def _copied(source: str, target: str) -> Callable[[Memory], None]:
    def step(memory: Memory) -> None:
        memory[target] = list(memory[source])

    return step


def _added(a: str, b: str, target: str) -> Callable[[Memory], None]:
    def step(memory: Memory) -> None:
        memory[target] = [
            round_to(x + y, "bf16") for x, y in zip(memory[a], memory[b], strict=True)
        ]

    return step


def _multiplied(source: str, weights: str, target: str) -> Callable[[Memory], None]:
    def step(memory: Memory) -> None:
        memory[target] = [
            round_to(np.matmul(x, w, dtype=np.float32), "bf16")
            for x, w in zip(memory[source], memory[weights], strict=True)
        ]

    return step


def tile_program(seed: int, most_families: int = MOST_FAMILIES) -> TileProgram:
    """The program of a seed; of two with one seed, the shorter is how the longer begins."""
    random = np.random.default_rng([seed, 0x74696C65])
    ranks, local = (int(n) for n in random.integers((1, 1), (5, 4)))  # pyright: ignore[reportUnknownMemberType]
    routed = seed % 2 == 1
    top, most = min(2, ranks * local), 7
    made = _Maker(random, ranks, local, top, most)
    counts = tuple(made.draw(0, most) for _ in range(ranks))
    program = ProgramOp(NAME, ranks, [])
    if routed:
        program = _routed(made, counts)
    else:
        made.announce()
    kinds = (made.copy, made.add, made.product, made.put)
    if routed:
        kinds = (made.copy, made.add, made.product, made.back)
    for _ in range(min(most_families, made.draw(1, MOST_FAMILIES))):
        kinds[made.draw(0, len(kinds) - 1)]()
    outputs = made.results()
    # Buffers come before families, inputs and outputs in the order of the kernel's arguments.
    block = program.body.block
    old = list(block.ops)
    last = [op for op in old if isinstance(op, TasksOp)]
    for op in made.buffers:
        if last:
            block.insert_op_before(op, last[0])
        else:
            block.add_op(op)
    block.add_ops(made.families)
    module = ModuleOp([program])
    module.verify()
    return TileProgram(module, ranks, made.where, _inputs(made, counts, routed), made.work, outputs)


def _routed(made: _Maker, counts: tuple[int, ...]) -> ProgramOp:
    """A program that begins with a route and a dispatch, made by the compiler from a graph."""
    width = made.width()
    route = RouteType(made.tokens, made.top, made.ranks * made.local, made.ranks)
    rows = route.token_rows
    function = FuncOp(NAME, ([rows.tensor(width, bf16), rows.tensor(made.top, i32)], []))
    x, ids = function.args
    x.name_hint, ids.name_hint = "x", "ids"
    routed = moe.RouteOp(ids, route)
    routed.route.name_hint = "route"
    received = moe.DispatchOp(x, routed)
    received.received.name_hint = "dispatched"
    function.body.block.add_ops([routed, received, ReturnOp(received)])
    function.update_function_type()
    module = ModuleOp([function])
    ConvertMoeToCommPass().apply(Context(), module)
    ConvertCommToTilePass(tile_m=TILE, tile_n=TILE, tile_k=TILE).apply(Context(), module)
    (program,) = module.ops
    assert isinstance(program, ProgramOp)
    program.detach()
    ids_of = [
        np.array(
            [made.random.permutation(made.ranks * made.local)[: made.top] for _ in range(count)],
            np.int32,
        ).reshape(count, made.top)
        for count in counts
    ]
    where = Tokens(np.concatenate(ids_of), counts, made.ranks * made.local)
    made.where = where
    made.inputs["x"] = (made.tokens, width)

    def sent(memory: Memory) -> None:
        pairs = np.repeat(np.concatenate(memory["x"]), made.top, axis=0)
        memory["recv"] = [pairs[where.received(rank)] for rank in range(made.ranks)]

    made.work.append(sent)
    made.values += [
        _Value("x", "tokens", (made.tokens, width), "input"),
        _Value("recv", "grouped", (route.rows.data, width), "window", 1),
    ]
    return program


def _inputs(made: _Maker, counts: tuple[int, ...], routed: bool) -> list[dict[str, Array]]:
    found: list[dict[str, Array]] = []
    begin = 0
    for count in counts:
        values: dict[str, Array] = {}
        for name, dims in made.inputs.items():
            shape = (count, *dims[1:]) if name == "x" and routed else dims
            numbers = made.random.integers(-1, 2, shape)  # pyright: ignore[reportUnknownMemberType]
            values[name] = numbers.astype(np.float32)
        if routed:
            assert made.where is not None
            values["ids"] = made.where.ids[begin : begin + count]
        begin += count
        found.append(values)
    return found


def rows_of(program: TileProgram, rank: int, rows: str, capacity: int) -> int:
    """How many rows of an output there are on a rank."""
    if program.tokens is None or not rows:
        return capacity
    match rows:
        case "grouped":
            return len(program.tokens.received(rank))
        case "sent":
            return len(program.tokens.sent(rank))
        case _:
            return program.tokens.counts[rank]
