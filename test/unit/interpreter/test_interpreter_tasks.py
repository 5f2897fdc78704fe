"""Tile and queue programs in NumPy: the same results as the graph in any order, and faults seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.dialects import queue, tile
from hpmoe_ir.dialects.tile.types import dense_i32
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.dtypes import round_to
from hpmoe_ir.interpreter.module import run_module
from hpmoe_ir.interpreter.tasks import ProgramRun
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.operator_order import OperatorOrder

Array = np.ndarray[Any, np.dtype[Any]]

TEXT = """
func.func @layer(%x: {x}, %ids: {ids}, %gate: {gate}, %w13: {w13}, %w2: {w2}) -> {x} {{
  %route = moe.route %ids : {ids} -> {route}
  %recv = moe.dispatch %x by %route : {x}, {route} -> {rows}
  %h = moe.grouped_matmul %recv, %w13 by %route : {rows}, {w13}, {route} -> {h}
  %a = moe.swiglu %h : {h} -> {a}
  %y = moe.grouped_matmul %a, %w2 by %route : {a}, {w2}, {route} -> {rows}
  %out = moe.combine %y, %gate by %route : {rows}, {gate}, {route} -> {x}
  func.return %out : {x}
}}
"""
HIDDEN, WIDTH, TOP = 48, 32, 2


@dataclass(frozen=True)
class Layer:
    """R ranks with L experts each, tokens of each rank, capacity in rows, how it is lowered."""

    ranks: int = 2
    local: int = 3
    tokens: tuple[int, ...] = (7, 5)
    capacity: int | None = None
    lowering: LowerMoePass = field(default_factory=LowerMoePass)

    def module(self) -> ModuleOp:
        """The layer at the moe level, for at most 9 tokens on each rank."""
        experts = self.ranks * self.local
        rows = self.capacity or self.ranks * 9 * min(TOP, self.local)
        spread = f"{experts} experts over {self.ranks} ranks"
        weights = f"#moe.experts<{experts} over {self.ranks} ranks>"
        grouped, own = f"#moe.grouped<{rows} rows>", "#moe.tokens<9 rows>"
        text = TEXT.format(
            x=f"tensor<?x{HIDDEN}xbf16, {own}>",
            ids=f"tensor<?x{TOP}xi32, {own}>",
            gate=f"tensor<?x{TOP}xf32, {own}>",
            w13=f"tensor<{self.local}x{HIDDEN}x{2 * WIDTH}xbf16, {weights}>",
            w2=f"tensor<{self.local}x{WIDTH}x{HIDDEN}xbf16, {weights}>",
            rows=f"tensor<?x{HIDDEN}xbf16, {grouped}>",
            h=f"tensor<?x{2 * WIDTH}xbf16, {grouped}>",
            a=f"tensor<?x{WIDTH}xbf16, {grouped}>",
            route=f"!moe.route<9 tokens, top {TOP}, {spread}, {rows} rows>",
        )
        return parse_module(make_context(), text.encode(), "layer.mlir")

    def program(self, until: str = "allocate-events") -> tile.ProgramOp | queue.ProgramOp:
        """The program after the pass `until` of the pipeline."""
        module = self.module()
        for module_pass in self.lowering.passes():
            module_pass.apply(make_context(), module)
            if module_pass.name == until:
                break
        (program,) = module.ops
        assert isinstance(program, tile.ProgramOp | queue.ProgramOp)
        return program

    def values(self, launch: int = 1) -> list[dict[str, Array]]:
        """Arrays of each rank."""
        rng = np.random.default_rng(launch)
        experts = self.ranks * self.local
        return [
            {
                "x": bf16(rng.standard_normal((t, HIDDEN))),
                "ids": np.argsort(rng.random((t, experts)), axis=1)[:, :TOP].astype(np.int32),
                "gate": rng.random((t, TOP)).astype(np.float32),
                "w13": bf16(rng.standard_normal((self.local, HIDDEN, 2 * WIDTH)) / 7),
                "w2": bf16(rng.standard_normal((self.local, WIDTH, HIDDEN)) / 6),
            }
            for t in self.tokens
        ]

    def expected(self, values: Sequence[Mapping[str, Array]]) -> list[Array]:
        """The results at the moe level."""
        names = ("x", "ids", "gate", "w13", "w2")
        (out,) = run_module(self.module(), "layer", [[v[n] for v in values] for n in names])
        return out


def bf16(array: Array) -> Array:
    return round_to(array.astype(np.float32), "bf16")


def check(layer: Layer, outputs: Sequence[Mapping[str, Array]], values: list[Any]) -> None:
    """Results as at the moe level up to bf16 roundings, and nothing in rows that are not there."""
    for tokens, output, expected in zip(layer.tokens, outputs, layer.expected(values), strict=True):
        scale = np.abs(expected).max(initial=1)
        np.testing.assert_allclose(output["out"][:tokens] / scale, expected / scale, atol=2e-2)
        assert np.isnan(output["out"][tokens:]).all()
        assert output["status"][0] == 0


LAYERS = [
    Layer(),
    Layer(1, 4, (9,)),
    Layer(4, 1, (3, 9, 0, 1)),
    Layer(3, 2, (0, 0, 0)),
    Layer(lowering=LowerMoePass(source_groups=1, row_chunks=2, put_chunks=2, tile_m=16)),
    Layer(3, 2, (4, 8, 6), lowering=LowerMoePass(source_groups=2, token_chunks=4, task_cols=16)),
    Layer(lowering=LowerMoePass(granularity="expert", policy=OperatorOrder(), rotate=False)),
    Layer(
        4,
        2,
        (9, 9, 9, 9),
        lowering=LowerMoePass(elide=False, reuse=False, policy=DepthFirst(ahead=0)),
    ),
]
UNTIL = ("convert-comm-to-tile", "insert-dependencies", "plan-memory", "allocate-events")


@pytest.mark.parametrize("until", UNTIL)
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_any_order_gives_the_results_of_the_graph(layer: Layer, until: str):
    program = layer.program(until)
    program.verify()
    for seed in range(3):
        run = ProgramRun(program, seed)
        for launch in (1, 2, 3):
            values = layer.values(launch)
            check(layer, run.launch(values), values)


def test_all_tokens_to_one_expert():
    layer = Layer(2, 2, (9, 6))
    values = layer.values()
    for v in values:
        v["ids"][:] = [3, 0]
    check(layer, ProgramRun(layer.program()).launch(values), values)


@pytest.mark.parametrize("until", UNTIL)
def test_over_capacity_every_rank_says_so_and_writes_nothing(until: str):
    layer = Layer(capacity=14)
    values = layer.values()
    for v in values:
        v["ids"][:] = [4, 5]
    run = ProgramRun(layer.program(until))
    for output in run.launch(values):
        assert output["status"][:4].tolist() == [1, 1, 24, 14]
        assert np.isnan(output["out"]).all()
    # The next launch is as any other.
    values = layer.values(2)
    for v in values:
        v["ids"][:] = np.arange(2 * len(v["ids"])).reshape(-1, 2) % 6
    check(layer, run.launch(values), values)


def queue_program(layer: Layer) -> queue.ProgramOp:
    program = layer.program()
    assert isinstance(program, queue.ProgramOp)
    return program


def outputs_of(program: tile.ProgramOp | queue.ProgramOp, layer: Layer) -> list[Array]:
    """Results of 20 first launches in different orders."""
    return [
        out["out"][:tokens]
        for seed in range(20)
        for out, tokens in zip(
            ProgramRun(program, seed).launch(layer.values()), layer.tokens, strict=True
        )
    ]


@pytest.mark.parametrize("family", ["dispatch", "matmul", "swiglu", "matmul_1", "return"])
def test_a_dropped_wait_reads_what_was_never_written(family: str):
    layer = Layer(lowering=LowerMoePass(reuse=False))
    program = queue_program(layer)
    assert not any(np.isnan(out).any() for out in outputs_of(program, layer))
    for wait in queue.waits_of(program):
        if wait.family_name == family and wait.event_name != "build_route_done":
            wait.detach()
    try:
        outputs = outputs_of(program, layer)
    except IndexError:
        # The order of rows was read before it was there.
        assert family == "dispatch"
    except InterpretationError:
        # A put looked at a route that was not there, and found that it had no rows.
        assert family in ("swiglu", "matmul_1", "return")
    else:
        assert any(np.isnan(out).any() for out in outputs)


def test_a_dropped_dependence_reads_what_was_never_written():
    layer = Layer()
    program = layer.program("insert-dependencies")
    for d in list(program.body.block.ops):
        if isinstance(d, tile.DependenceOp) and d.producer.root_reference.data == "swiglu":
            d.detach()
    assert any(np.isnan(out).any() for out in outputs_of(program, layer))


def test_a_threshold_too_high_is_a_deadlock():
    layer = Layer()
    program = queue_program(layer)
    event = queue.events_of(program)["return_done"]
    event.counts = dense_i32(event.thresholds + 1)
    with pytest.raises(InterpretationError) as error:
        ProgramRun(program).launch(layer.values())
    assert str(error.value) == (
        "deadlock: no task can start\n"
        "  @weighted_sum (0) on rank 0 waits for event 0 of return_done: 6 of 7 signals\n"
        "  @weighted_sum (0) on rank 1 waits for event 0 of return_done: 6 of 7 signals"
    )


def test_a_long_deadlock_is_cut_short():
    layer = Layer(1, 8, (9,))
    program = queue_program(layer)
    event = queue.events_of(program)["build_route_done"]
    event.counts = dense_i32(event.thresholds + 1)
    with pytest.raises(InterpretationError) as error:
        ProgramRun(program).launch(layer.values())
    lines = str(error.value).splitlines()
    assert lines[0] == "deadlock: no task can start"
    assert len(lines) == 18
    assert lines[-1].startswith("  and ")


def test_a_threshold_too_low_is_seen():
    layer = Layer()
    program = queue_program(layer)
    event = queue.events_of(program)["return_done"]
    event.counts = dense_i32(event.thresholds - 1)
    with pytest.raises(
        InterpretationError,
        match=r"^@return \(\d, \d, 0\) on rank [01] signals event 0 of return_done on rank [01] "
        r"once more than its threshold 5$",
    ):
        ProgramRun(program).launch(layer.values())


def test_a_signal_too_many_is_seen():
    layer = Layer()
    program = queue_program(layer)
    signal = next(s for s in queue.signals_of(program) if s.family_name == "build_route")
    program.body.block.insert_op_after(signal.clone(), signal)
    with pytest.raises(InterpretationError) as error:
        ProgramRun(program).launch(layer.values())
    assert "signals event 0 of build_route_done on rank" in str(error.value)
    assert "once more than its threshold 1" in str(error.value)


def test_inputs_that_do_not_fit():
    layer = Layer()
    run = ProgramRun(layer.program())
    with pytest.raises(InterpretationError) as error:
        run.launch(layer.values()[:1])
    assert str(error.value) == "the program runs on 2 ranks, found inputs for 1"
    values = layer.values()
    del values[1]["gate"]
    with pytest.raises(InterpretationError) as error:
        run.launch(values)
    assert str(error.value) == "no value for input @gate"
    values = layer.values()
    values[0]["w2"] = values[0]["w2"][:, :, 1:]
    with pytest.raises(InterpretationError) as error:
        run.launch(values)
    assert str(error.value) == (
        "@w2: expected a value of !tile.buffer<3x32x48xbf16>, found an array of shape [3, 32, 47]"
    )
    values = layer.values()
    values[0]["gate"] = values[0]["gate"][1:]
    with pytest.raises(InterpretationError) as error:
        run.launch(values)
    assert str(error.value) == "@gate: expected 7 token rows as other inputs have, found 6"
    values = layer.values()
    values[0]["x"] = np.zeros((10, HIDDEN), np.float32)
    with pytest.raises(InterpretationError) as error:
        run.launch(values)
    assert str(error.value) == (
        "@x: expected a value of !tile.buffer<tokens 9 rows, 48xbf16>, found an array of shape "
        "[10, 48]"
    )
