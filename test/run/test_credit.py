"""Puts without rows send no signal; each put is counted once all the same, by itself or by the
credit of the rank that it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import pytest

from hpmoe_ir.dialects.access import GroupedRows, SentRows, chunk_bounds
from hpmoe_ir.dialects.index import IntArray, evaluate_index
from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.driver.compiler import Compiled, CompiledKernel, compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import FUNCTION, layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RankRouting
from hpmoe_ir.layer.values import make_values
from hpmoe_ir.passes.assign_queues import DEFAULT_POLICY
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.arrival import Arrival
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.run.directions import backward_arguments, forward_arguments
from hpmoe_ir.run.execution import RankInputs, Raw, build_program, run_program
from hpmoe_ir.run.levels import rank_inputs, run_level
from hpmoe_ir.run.signature import signatures
from hpmoe_ir.runtime.task_records import Records

RANKS, EXPERTS, LAUNCHES = 4, 8, 3
LOCAL = EXPERTS // RANKS
TOKENS = (20, 3, 0, 9)
LAYER = preset_layer("deepseek-v3-tiny").with_sizes(ranks=RANKS, experts=EXPERTS)


def two_experts(rank: int, tokens: int, launch: int) -> IntArray:
    """All tokens go to two experts of two ranks, other ones in each launch."""
    return np.tile(np.array([launch, launch + 4]) % EXPERTS, (tokens, 1))


def none_for_one_rank(rank: int, tokens: int, launch: int) -> IntArray:
    """Rank 1 receives nothing."""
    others = [e for e in range(EXPERTS) if e // LOCAL != 1]
    return _draw(others, tokens, [rank, launch])


def some_experts(rank: int, tokens: int, launch: int) -> IntArray:
    """Each rank has rows for three experts, others than its peers."""
    random = np.random.default_rng([rank, launch])
    return _draw(random.choice(EXPERTS, 3, replace=False).tolist(), tokens, [launch, rank])


def _draw(experts: list[int], tokens: int, seed: list[int]) -> IntArray:
    random = np.random.default_rng(seed)
    rows = [random.choice(experts, LAYER.top_k, replace=False) for _ in range(tokens)]
    return np.array(rows, dtype=np.int64).reshape(tokens, LAYER.top_k)


Draw: TypeAlias = Callable[[int, int, int], IntArray]
"""The experts of a rank's tokens in a launch: [tokens, K]."""

ROUTINGS: tuple[Draw, ...] = (two_experts, none_for_one_rank, some_experts)


@dataclass(frozen=True)
class Options:
    """How a layer is lowered, apart from its credits."""

    put_chunks: int = 1
    return_cols: int = 0
    source_groups: int = 0
    granularity: str = "part"
    policy: Policy = DEFAULT_POLICY


@cache
def compiled(config: LayerConfig, options: Options, credit: bool) -> Compiled:
    """A layer with both directions."""
    lower = LowerMoePass(credit=credit, **vars(options))
    return compile_module(
        make_context(), layer_module(config), lower, backward=DeriveBackwardPass()
    )


@dataclass(frozen=True)
class Run:
    """What a run leaves: raw outputs by launch and rank, and the records of all tasks."""

    outputs: list[list[dict[str, Raw]]]
    tasks: Records

    def sent(self, kernel: CompiledKernel, family: str) -> tuple[int, int]:
        """Signals of a family's tasks in all launches, and those to other ranks."""
        number = list(kernel.program.families).index(family)
        own = self.tasks[self.tasks["slot"] >> POINT_BITS == number]
        return int(own["signals"].sum()), int(own["remote"].sum())


def run(kernel: CompiledKernel, inputs: list[list[RankInputs]], seed: int) -> Run:
    """A run with all detectors, of every other seed with weak memory."""
    executable = build_program(kernel.program, kernel.source)
    trace: list[Records] = []
    outputs = run_program(
        kernel.program,
        executable,
        kernel.table,
        inputs,
        seed,
        memory="weak" if seed % 2 else "strong",
        late=(seed % RANKS,) if seed > 3 else (),
        trace=trace,
    )
    return Run(outputs, trace[0])


def puts_with_rows(kernel: CompiledKernel, family: str, counts: IntArray) -> tuple[int, int]:
    """Puts of a family that move rows in a launch, and those to other ranks.

    `counts` [R, E] are the rows from each rank to each expert.
    """
    op = kernel.program.families[family]
    rows = next(r.rows for r in op.write_accesses if r.rows is not None)
    assert isinstance(rows, GroupedRows | SentRows)
    points, peer = op.coordinates(), op.target_peer
    assert peer is not None
    every = remote = 0
    for rank in range(RANKS):
        ones = np.ones(op.task_count, dtype=np.int64)
        peers = evaluate_index(peer, points, rank) * ones
        expert = evaluate_index(rows.expert, points, rank) * ones
        grouped = isinstance(rows, GroupedRows)
        found = counts[rank, peers * LOCAL + expert] if grouped else counts[peers, expert]
        chunk = evaluate_index(rows.chunk.index, points, rank) * ones
        for n, c, to in zip(found, chunk, peers, strict=True):
            low, high = chunk_bounds(int(n), int(c), rows.chunk.count, rows.chunk.align)
            every += low < high
            remote += low < high and to != rank
    return every, remote


CASES = (
    Options(),
    Options(put_chunks=2, granularity="expert"),
    Options(return_cols=32, source_groups=2, policy=Arrival()),
)


@pytest.mark.parametrize("routing", ROUTINGS, ids=lambda f: str(f.__name__))
@pytest.mark.parametrize("options", CASES, ids=lambda o: f"{o.policy.name}-{o.granularity}")
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_puts_without_rows_send_no_signal(direction: str, options: Options, routing: Draw) -> None:
    launches: list[list[list[Array]]] = []
    counts: list[IntArray] = []
    for launch in range(1, LAUNCHES + 1):
        ids = [routing(rank, tokens, launch) for rank, tokens in enumerate(TOKENS)]
        gates = [np.full(i.shape, 0.5, dtype=np.float32) for i in ids]
        ranks = [RankRouting(i.astype(np.int32), g) for i, g in zip(ids, gates, strict=True)]
        values = make_values(LAYER, TOKENS, ranks, 3, launch)
        counts.append(np.stack([np.bincount(i.ravel(), minlength=EXPERTS) for i in ids]))
        known = signatures(compiled(LAYER, options, False).modules["moe"])
        forward, backward = known[FUNCTION], known[f"{FUNCTION}_backward"]
        arguments = forward_arguments(forward, values)
        if direction == "backward":
            plain = compiled(LAYER, options, False)
            (saved,) = run_level("queue", plain, FUNCTION, [arguments])
            arguments = backward_arguments(backward, forward, values, saved)
        launches.append(arguments)
    name = FUNCTION if direction == "forward" else f"{FUNCTION}_backward"
    kernels = {c: compiled(LAYER, options, c).kernels[name] for c in (False, True)}
    inputs = [[rank_inputs(kernels[True], v) for v in arguments] for arguments in launches]
    right = run(kernels[False], inputs, 0)
    puts = [n for n, f in kernels[True].program.families.items() if f.target_peer and f.route]
    assert puts
    for seed in range(6):
        found = run(kernels[True], inputs, seed)
        for one, other in zip(found.outputs, right.outputs, strict=True):
            for mine, theirs in zip(one, other, strict=True):
                assert {n: v.tobytes() for n, v in mine.items()} == {
                    n: v.tobytes() for n, v in theirs.items()
                }
        for family in puts:
            times = len(kernels[True].program.signals_of_family(family))
            moved = np.sum([puts_with_rows(kernels[True], family, c) for c in counts], axis=0)
            all_puts = LAUNCHES * RANKS * kernels[True].program.families[family].task_count
            assert found.sent(kernels[True], family) == tuple(times * moved)
            assert right.sent(kernels[False], family)[0] == times * all_puts
            assert moved[0] < all_puts


def test_over_capacity_no_put_signals() -> None:
    """More rows than there is room for in launch 2 of 3: no put has rows, all are credited."""
    config = LAYER.with_sizes(capacity=40)
    layer = compiled(config, Options(), True)
    kernel, forward = layer.kernels[FUNCTION], signatures(layer.modules["moe"])[FUNCTION]
    launches: list[list[RankInputs]] = []
    for launch, tokens in enumerate([(4, 0, 0, 4), (40, 3, 0, 9), (4, 4, 4, 0)], 1):
        ids = [two_experts(r, t, launch).astype(np.int32) for r, t in enumerate(tokens)]
        ranks = [RankRouting(i, np.ones(i.shape, dtype=np.float32)) for i in ids]
        values = forward_arguments(forward, make_values(config, tokens, ranks, 3, launch))
        launches.append([rank_inputs(kernel, v) for v in values])
    for seed in range(4):
        found = run(kernel, launches, seed)
        assert [[int(r["status"][0]) for r in ranks] for ranks in found.outputs] == [
            [0] * RANKS,
            [1] * RANKS,
            [0] * RANKS,
        ]
        # Launches 1 and 3: to two experts each, from two and from three ranks.
        assert found.sent(kernel, "dispatch")[0] == 2 * 2 + 2 * 3
        assert found.sent(kernel, "return")[0] == (2 * 2 + 2 * 3) * len(
            kernel.program.signals_of_family("return")
        )


def test_two_experts_of_two_ranks_leave_most_puts_empty() -> None:
    """What the first test counts is not next to nothing."""
    kernel = compiled(LAYER, Options(), True).kernels[FUNCTION]
    ids = [two_experts(r, t, 1) for r, t in enumerate(TOKENS)]
    counts = np.stack([np.bincount(i.ravel(), minlength=EXPERTS) for i in ids])
    assert puts_with_rows(kernel, "dispatch", counts) == (6, 5)
