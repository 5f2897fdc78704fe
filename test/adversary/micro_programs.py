"""Small queue programs, drawn without the compiler: families, buffers, events and queues.

Most of what a program needs to be right is there, and now and then a piece is missing, so that
right and wrong programs are a step apart. They are about what layers don't have: windows that their
own rank writes, several writers of a buffer, puts to one neighbour, rows cut in several ways.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, bf16, i64
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr

from adversary.machine import AIC, AIV, small_machine
from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    IndexSelector,
    Selector,
    TokenRows,
    WholeSelector,
)
from hpmoe_ir.dialects.index import RANK
from hpmoe_ir.dialects.queue import (
    POINT_BITS,
    EventOp,
    OrderOp,
    ProgramOp,
    SignalOp,
    WaitOp,
)
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, TasksOp
from hpmoe_ir.dialects.tile.types import BufferType
from hpmoe_ir.machines.core_kind import CoreKind

WHOLE = WholeSelector()
D0 = AffineExpr.dimension(0)
TOKENS = 8


@dataclass(frozen=True)
class Shape:
    """Extents of the buffers of a program; `parts` is one more dimension in front."""

    rows: int
    columns: int
    tokens: bool
    parts: int = 0

    def type(self) -> BufferType:
        """The type of a buffer."""
        dims = [TOKENS if self.tokens else self.rows, self.columns]
        if self.parts:
            dims.insert(0, self.parts)
        return BufferType(dims, bf16, "tokens" if self.tokens else "")


@dataclass
class Value:
    """A buffer that families have written."""

    name: str
    space: MemorySpace
    shape: Shape
    touched: list[tuple[TasksOp, AffineExpr | None, bool]] = field(
        default_factory=list[tuple[TasksOp, AffineExpr | None, bool]]
    )
    """Families that use it, on which rank, and whether they write."""


@dataclass
class Maker:
    """A program while it is drawn."""

    chance: random.Random
    ranks: int
    shape: Shape
    buffers: list[BufferOp] = field(default_factory=list[BufferOp])
    families: list[TasksOp] = field(default_factory=list[TasksOp])
    events: list[Operation] = field(default_factory=list[Operation])
    uses: list[Operation] = field(default_factory=list[Operation])
    values: list[Value] = field(default_factory=list[Value])
    workspace: int = 0
    windows: int = 0
    lines: int = 0
    heard: TasksOp | None = None
    steps: dict[AffineExpr, int] = field(default_factory=dict[AffineExpr, int])
    """How far the rank of a put is, if it is one rank."""
    missing: float = 0.0
    """Chance that an event is left out."""

    def likely(self, share: float) -> bool:
        """Whether something with this chance happens."""
        return self.chance.random() < share

    def buffer(self, stem: str, space: MemorySpace, shape: Shape, copies: int = 1) -> Value:
        """Adds a buffer behind the others of its space."""
        name = f"{stem}{len(self.buffers)}"
        op = BufferOp(name, space, shape.type(), copies)
        size = -(-int(np.prod(shape.type().dims)) * 2 // 64) * 64 * copies
        if space is MemorySpace.WORKSPACE:
            op.offset, self.workspace = IntegerAttr(self.workspace, i64), self.workspace + size
        elif space is MemorySpace.WINDOW:
            op.offset, self.windows = IntegerAttr(self.windows, i64), self.windows + size
        self.buffers.append(op)
        return Value(name, space, shape)

    def family(
        self,
        stem: str,
        grid: Sequence[tuple[str, int]],
        kernel: str,
        reads: Sequence[tuple[Value, tuple[Selector, ...]]],
        target: Value,
        selectors: tuple[Selector, ...],
        peer: AffineExpr | None = None,
    ) -> TasksOp:
        """Adds a family with its events."""
        options: dict[str, int] = {}
        core = CoreKind.AIV
        if kernel == "grouped_matmul":
            core = CoreKind.AIC
            options = {"tile_m": 16, "tile_n": 16, "tile_k": 16, "transpose_rhs": 0}
        op = TasksOp(
            f"{stem}_{len(self.families)}",
            grid,
            core,
            kernel,
            [Access(v.name, s) for v, s in reads],
            [Access(target.name, selectors, peer)],
            options,
        )
        self.families.append(op)
        uses = [(v, None, False) for v, _ in reads] + [(target, peer, True)]
        told: set[tuple[str, str]] = set()
        for value, on, writes in uses:
            for other, other_on, wrote in value.touched:
                if writes or wrote:
                    self._order(other, other_on, op, on, told)
        for value, on, writes in uses:
            value.touched.append((op, on, writes))
        if self.heard is not None and self.heard is not op:
            window = any(v.space is MemorySpace.WINDOW for v, _, _ in uses)
            if window and self.likely(0.93):
                self._order(self.heard, None, op, None, told)
        return op

    def _order(
        self,
        first: TasksOp,
        first_on: AffineExpr | None,
        second: TasksOp,
        second_on: AffineExpr | None,
        told: set[tuple[str, str]],
    ) -> None:
        """Makes tasks of `second` wait for those of `first` whose memory they use."""
        key = (first.sym_name.data, second.sym_name.data)
        if first is second or key in told or self.likely(self.missing):
            return
        told.add(key)
        name = f"e{len(self.events)}"
        (n,) = first.extents
        grids = first.extents == second.extents and first_on is None and second_on is None
        if grids and self.likely(0.4) and _same_parts(first, second):
            self._event(name, [n], 1)
            self.uses.append(SignalOp(key[0], ["i"], name, [D0]))
            self.uses.append(WaitOp(key[1], ["i"], name, [D0]))
            return
        # The rank on which the second runs, as seen from where the first runs.
        peers: list[AffineExpr | None] = [first_on]
        count = n
        if second_on is not None:
            one, other = (0 if e is None else self.steps.get(e) for e in (first_on, second_on))
            if one is not None and other is not None:
                peers = [(RANK + (one - other) % self.ranks) % self.ranks]
            else:
                peers = [(RANK + r) % self.ranks for r in range(self.ranks)]
                count = n * self.ranks
        self._event(name, [], count)
        self.uses += [SignalOp(key[0], ["i"], name, [], peer) for peer in peers]
        self.uses.append(WaitOp(key[1], ["i"], name, []))

    def _event(self, name: str, extents: list[int], count: int, copies: int = 1) -> None:
        op = EventOp(name, extents, np.full(1, count, dtype=np.int64), self.lines, copies)
        self.lines += op.line_count
        self.events.append(op)

    def parts(self, value: Value, single: bool = False) -> tuple[int, tuple[Selector, ...]]:
        """Draws a grid over a value of two dimensions, and its selectors."""
        shape = value.shape
        if shape.tokens:
            n = 1 if single else self.chance.randint(1, 3)
            return n, (TokenRows(D0, n) if n > 1 else TokenRows(AffineExpr.constant(0), 1), WHOLE)
        match 0 if single else self.chance.randint(0, 3):
            case 0 | 1:
                return 1, (WHOLE, WHOLE)
            case 2:
                size = self.chance.randint(1, shape.rows)
                return -(-shape.rows // size), (BlockSelector(D0, size), WHOLE)
            case _:
                return shape.columns // 16, (WHOLE, BlockSelector(D0, 16))

    def target(self, shape: Shape, remote: bool) -> Value:
        """Draws a buffer to write: a new one, or one that is there."""
        alone = self.heard is None and self.ranks > 1
        windows = remote or self.likely(0.5 if alone else 0.2)
        space = MemorySpace.WINDOW if windows else MemorySpace.WORKSPACE
        old = [v for v in self.values if v.shape == shape and v.space == space]
        if old and self.likely(0.7 if alone else 0.35):
            return self.chance.choice(old)
        copies = 2 if space is MemorySpace.WINDOW and self.likely(0.3) else 1
        return self.buffer("b", space, shape, copies)

    def announce(self) -> None:
        """All ranks tell all others that they have begun this launch."""
        shape = Shape(1, 16, tokens=False)
        x = self.buffer("said", MemorySpace.INPUT, shape)
        copies = 2 if self.likely(0.95) else 1
        news = self.buffer("news", MemorySpace.WINDOW, replace(shape, parts=self.ranks), copies)
        heard = self.buffer("heard", MemorySpace.WORKSPACE, replace(shape, rows=self.ranks))
        ranks = [("i", self.ranks)]
        tell = self.family(
            "tell", ranks, "copy_rows", [(x, (WHOLE, WHOLE))], news,
            (IndexSelector(RANK), WHOLE, WHOLE), (RANK + D0) % self.ranks,
        )  # fmt: skip
        news.touched.clear()
        hear = self.family(
            "hear", ranks, "copy_rows", [(news, (IndexSelector(D0), WHOLE, WHOLE))], heard,
            (BlockSelector(D0, 1), WHOLE),
        )  # fmt: skip
        name = f"e{len(self.events)}"
        self._event(name, [], self.ranks, 2 if self.likely(0.95) else 1)
        peer = (RANK + D0) % self.ranks
        self.uses.append(SignalOp(tell.sym_name.data, ["i"], name, [], peer))
        self.uses.append(WaitOp(hear.sym_name.data, ["i"], name, []))
        self.heard = hear

    def step(self) -> None:
        """Adds one family of work."""
        source = self.chance.choice(self.values)
        kind = self.chance.random()
        if source.shape.parts:
            self._take(source)
        elif self.chance.random() < 0.15:
            self._patch(source)
        elif kind < 0.3 and self.ranks > 1 and not source.shape.tokens:
            self._put(source)
        elif kind < 0.42 and not source.shape.tokens:
            self._multiply(source)
        elif kind < 0.7:
            n, selectors = self.parts(source)
            target = self.target(source.shape, remote=False)
            if target.name == source.name:
                return
            reads = [(source, selectors)]
            self.family("copy", [("i", n)], "copy_rows", reads, target, selectors)
            self._written(target)
        else:
            like = [v for v in self.values if v.shape == source.shape]
            other = self.chance.choice(like)
            n, selectors = self.parts(source)
            target = self.target(source.shape, remote=False)
            reads = [(source, selectors), (other, selectors)]
            self.family("add", [("i", n)], "add_rows", reads, target, selectors)
            self._written(target)

    def _patch(self, source: Value) -> None:
        """Families that write a buffer together, each a part, as each of them cuts it."""
        target = self.target(source.shape, remote=False)
        if target.name == source.name:
            return
        parts = self.chance.randint(2, 3)
        same = self.likely(0.6)
        for part in range(self.chance.randint(2, 3)):
            count = parts if same else self.chance.randint(2, 3)
            index = AffineExpr.constant(part % count)
            rows: Selector = TokenRows(index, count)
            if not source.shape.tokens:
                size = -(-source.shape.rows // count)
                blocks = -(-source.shape.rows // size)
                rows = BlockSelector(AffineExpr.constant(part % blocks), size)
            selectors = (rows, WHOLE)
            reads = [(source, selectors)]
            self.family("patch", [("i", 1)], "copy_rows", reads, target, selectors)
        self._written(target)

    def _written(self, target: Value) -> None:
        if target not in self.values:
            self.values.append(target)

    def _put(self, source: Value) -> None:
        if self.likely(0.5):
            target = self.target(source.shape, remote=True)
            n, selectors = self.parts(source)
            step = self.chance.randint(0, self.ranks - 1)
            peer = (RANK + step) % self.ranks
            self.steps[peer] = step
            reads = [(source, selectors)]
            self.family("put", [("i", n)], "copy_rows", reads, target, selectors, peer)
        else:
            target = self.target(replace(source.shape, parts=self.ranks), remote=True)
            self.family(
                "spread", [("i", self.ranks)], "copy_rows", [(source, (WHOLE, WHOLE))], target,
                (IndexSelector(RANK), WHOLE, WHOLE), (RANK + D0) % self.ranks,
            )  # fmt: skip
        self._written(target)

    def _take(self, source: Value) -> None:
        target = self.target(replace(source.shape, parts=0), remote=False)
        of = IndexSelector((RANK + self.chance.randint(0, self.ranks - 1)) % self.ranks)
        n, selectors = self.parts(target)
        reads = [(source, (of, *selectors))]
        self.family("take", [("i", n)], "copy_rows", reads, target, selectors)
        self._written(target)

    def _multiply(self, source: Value) -> None:
        weights = self.buffer(
            "w", MemorySpace.INPUT, Shape(source.shape.columns, source.shape.columns, tokens=False)
        )
        target = self.target(source.shape, remote=False)
        if target.name == source.name and self.likely(0.4):
            return
        block = BlockSelector(D0, 16)
        reads = [(source, (WHOLE, WHOLE)), (weights, (WHOLE, block))]
        n = source.shape.columns // 16
        self.family("multiply", [("i", n)], "grouped_matmul", reads, target, (WHOLE, block))
        self._written(target)

    def hand_over(self) -> None:
        """Families that pass a window or two on, from rank to rank, without a word to all."""
        shape = self.values[0].shape
        copies = [2 if self.likely(0.2) else 1 for _ in range(self.chance.randint(1, 2))]
        windows = [self.buffer("b", MemorySpace.WINDOW, shape, n) for n in copies]
        written: list[Value] = []
        _, selectors = self.parts(windows[0], single=True)
        for _ in range(self.chance.randint(3, 6)):
            window = self.chance.choice(windows)
            if window in written and self.likely(0.5):
                target = self.buffer("b", MemorySpace.WORKSPACE, shape)
                reads = [(window, selectors)]
                self.family("copy", [("i", 1)], "copy_rows", reads, target, selectors)
                self.values.append(target)
                continue
            peer = None
            if not shape.tokens and self.likely(0.6):
                step = self.chance.randint(1, self.ranks - 1)
                peer = (RANK + step) % self.ranks
                self.steps[peer] = step
            source = self.chance.choice(self.values)
            reads = [(source, selectors)]
            self.family("pass", [("i", 1)], "copy_rows", reads, window, selectors, peer)
            written.append(window)

    def finish(self) -> None:
        """Copies one or two values to outputs."""
        for value in self.chance.sample(self.values, min(2, len(self.values))):
            if value.shape.parts or value.space is MemorySpace.INPUT:
                continue
            out = self.buffer("out", MemorySpace.OUTPUT, value.shape)
            n, selectors = self.parts(value)
            self.family("keep", [("i", n)], "copy_rows", [(value, selectors)], out, selectors)

    def orders(self) -> list[Operation]:
        """Spreads the tasks over the cores, mostly in the order of the program."""
        found: list[Operation] = []
        few = self.likely(0.5)
        for kind, cores in ((CoreKind.AIC, AIC), (CoreKind.AIV, AIV)):
            families = [f for f in self.families if f.core_kind is kind]
            queues: list[list[int]] = [[] for _ in range(cores)]
            turn = 0
            for number, family in enumerate(families):
                for point in range(family.task_count):
                    turn = turn + 1 if few else self.chance.randrange(cores)
                    queues[turn % cores].append((number << POINT_BITS) + point)
            longest = max(queues, key=len)
            if len(longest) > 1 and self.likely(0.12):
                at = self.chance.randrange(len(longest) - 1)
                longest[at], longest[at + 1] = longest[at + 1], longest[at]
            slots = np.array([s for q in queues for s in q], dtype=np.int64)
            first = np.cumsum([0, *map(len, queues)])
            found.append(OrderOp(kind, [f.sym_name.data for f in families], first, slots))
        return found


def _same_parts(first: TasksOp, second: TasksOp) -> bool:
    """Whether the tasks of two families of one grid use the same parts of all they share."""
    for a in first.write_accesses + first.read_accesses:
        for b in second.write_accesses + second.read_accesses:
            if a.buffer == b.buffer and a.selectors != b.selectors:
                return False
    return True


def micro_program(seed: int) -> ModuleOp:
    """Returns the program of a seed."""
    chance = random.Random(f"micro {seed}")
    ranks = chance.choice((1, 2, 2, 2, 3))
    shape = Shape(chance.choice((2, 3, 4)), chance.choice((16, 32)), chance.random() < 0.3)
    made = Maker(chance, ranks, shape, missing=chance.choice((0.0, 0.0, 0.0, 0.08)))
    made.values.append(made.buffer("x", MemorySpace.INPUT, shape))
    if ranks > 1 and not shape.tokens and made.likely(0.25):
        made.hand_over()
        made.finish()
        return _module(made)
    if ranks > 1 and made.likely(0.7):
        made.announce()
    if shape.tokens:
        made.values.append(made.buffer("y", MemorySpace.INPUT, replace(shape, tokens=False)))
    for _ in range(chance.randint(1, 4)):
        made.step()
    made.finish()
    return _module(made)


def _module(made: Maker) -> ModuleOp:
    counters = -(-made.windows // 64) * 64
    spaces = list(MemorySpace)
    buffers = sorted(made.buffers, key=lambda b: spaces.index(b.space.data))
    program = ProgramOp(
        "p",
        made.ranks,
        small_machine(),
        [*buffers, *made.families, *made.events, *made.uses, *made.orders()],
    )
    program.counters = IntegerAttr(counters, i64)
    return ModuleOp([program])
