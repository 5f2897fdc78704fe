"""Generated tile programs that are no layers: families, regions, grids and peers drawn one by one.

Every program computes with small integers, so that its result has the same bits at every level and
in plain NumPy, where each family does its work at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, bf16, i32
from xdsl.dialects.func import FuncOp, ReturnOp

from generated.textbook import Tokens
from generated.tile_families import TILE, Memory, TileValue
from generated.tile_puts import ProgramMaker
from hpmoe_ir.dialects import moe
from hpmoe_ir.dialects.moe import RouteType
from hpmoe_ir.dialects.tile import MemorySpace, ProgramOp, TasksOp
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.passes.convert_comm_to_tile import ConvertCommToTilePass
from hpmoe_ir.passes.convert_moe_to_comm import ConvertMoeToCommPass

NAME = "program"
MOST_FAMILIES = 9


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


def tile_program(seed: int, most_families: int = MOST_FAMILIES) -> TileProgram:
    """The program of a seed; of two with one seed, the shorter is how the longer begins."""
    random = np.random.default_rng([seed, 0x74696C65])
    ranks, local = (int(n) for n in random.integers((1, 1), (5, 4)))  # pyright: ignore[reportUnknownMemberType]
    routed = seed % 2 == 1
    top, most = min(2, ranks * local), 7
    made = ProgramMaker(random, ranks, local, top, most)
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
    # The lists of the graph's arguments and results lack the buffers that were added; without lists
    # the caller's buffers are taken in order.
    for name in ("arguments", "results"):
        program.properties.pop(name, None)
    module = ModuleOp([program])
    module.verify()
    return TileProgram(module, ranks, made.where, _inputs(made, counts, routed), made.work, outputs)


def _routed(made: ProgramMaker, counts: tuple[int, ...]) -> ProgramOp:
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
        TileValue("x", "tokens", (made.tokens, width), MemorySpace.INPUT),
        TileValue("recv", "grouped", (route.rows.data, width), MemorySpace.WINDOW, 1),
    ]
    return program


def _inputs(made: ProgramMaker, counts: tuple[int, ...], routed: bool) -> list[dict[str, Array]]:
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
