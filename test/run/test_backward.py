"""The backward direction, whole: gradients from the generated code and every other level against
MindSpore's `value_and_grad`.

The tolerance is the derived bound of `hpmoe_ir.run.tolerance` (docs/tolerance.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from layer_bounds import compare_gradients, gradient_tolerance
from xdsl.dialects.func import FuncOp

from hpmoe_ir.dialects.role import Role
from hpmoe_ir.dialects.tile import MemorySpace, buffer_bytes
from hpmoe_ir.driver.compiler import Compiled, compile_module
from hpmoe_ir.driver.saved_bytes import saved_values
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import LayerValues, make_values
from hpmoe_ir.passes.analysis.level import RUN_LEVELS
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.passes.policies.published import Published
from hpmoe_ir.run.directions import (
    DOWN,
    UP,
    backward_arguments,
    forward_arguments,
    layer_gradients,
)
from hpmoe_ir.run.execution import build_program
from hpmoe_ir.run.levels import run_level
from hpmoe_ir.run.oracle import Oracle
from hpmoe_ir.run.signature import signatures
from hpmoe_ir.runtime.cpu_model import MEMORY_MODELS
from hpmoe_ir.tools.hpmoe import main

FORWARD, BACKWARD = "moe_layer", "moe_layer_backward"


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """One MindSpore process for all cases."""
    with Oracle() as running:
        yield running


@dataclass(frozen=True)
class Case:
    """What is different from 4 ranks, top 2, 64 tokens a rank, bf16, zipf:1.2."""

    name: str
    sizes: dict[str, object] = field(default_factory=dict[str, object])
    tokens: tuple[int, ...] = (64,)
    routing: str = "zipf:1.2"
    launches: int = 1
    interleavings: int = 2
    backward: DeriveBackwardPass = field(default_factory=DeriveBackwardPass)
    lowering: LowerMoePass = field(default_factory=LowerMoePass)

    def config(self) -> LayerConfig:
        """The layer of the case."""
        config = preset_layer("deepseek-v3-tiny")
        return config.with_sizes(**{"tokens": max(self.tokens), **self.sizes})  # pyright: ignore[reportArgumentType]

    def values(self) -> list[LayerValues]:
        """Values of each launch, all different."""
        config = self.config()
        tokens = list(self.tokens) * (config.ranks if len(self.tokens) == 1 else 1)
        routing = parse_routing(self.routing)
        return [make_values(config, tokens, routing, 11, n + 1) for n in range(self.launches)]

    def compile(self) -> Compiled:
        """Both directions, all levels."""
        module = layer_module(self.config())
        return compile_module(make_context(), module, self.lowering, backward=self.backward)


CASES = (
    Case("4 ranks", interleavings=10),
    Case("1 rank", {"ranks": 1}),
    Case("2 ranks", {"ranks": 2}),
    Case("8 ranks", {"ranks": 8}),
    Case("balanced", routing="balanced"),
    Case("uniform", routing="uniform"),
    Case("one expert", routing="one-expert"),
    Case("top 1", {"top_k": 1}),
    Case("top 8", {"top_k": 8}),
    Case("f16", {"dtype": "f16"}),
    Case("1 token", tokens=(1,)),
    Case("7 tokens", tokens=(7,)),
    Case("128 tokens", tokens=(128,)),
    Case("129 tokens", tokens=(129,)),
    Case("unequal tokens", tokens=(1, 129, 7, 64)),
    Case("no tokens on one rank", tokens=(64, 0, 64, 7)),
    Case("five launches with other routings", launches=5),
    Case("odd widths", {"hidden": 80, "width": 48, "experts": 8}, tokens=(100,)),
    Case("wider than a tile", {"hidden": 592, "width": 272, "experts": 4}, tokens=(150,)),
    Case("weight gradients in bf16", backward=DeriveBackwardPass(weight_gradients="activation")),
    Case(
        "small parts",
        {"ranks": 4, "experts": 8},
        tokens=(129,),
        lowering=LowerMoePass(
            source_groups=3, row_chunks=2, put_chunks=2, task_cols=48, tile_m=32, tile_n=48
        ),
    ),
    Case(
        "as published, with small tiles",
        tokens=(7, 64, 0, 50),
        lowering=LowerMoePass(
            source_groups=1,
            put_rows=16,
            vector_rows=16,
            matrix_shares=5,
            tile_m=16,
            tile_n=32,
            granularity="expert",
            policy=Published(),
            vector_cores="one",
        ),
    ),
    Case(
        "experts joined, operator order",
        lowering=LowerMoePass(granularity="expert", policy=OperatorOrder(), rotate=False),
    ),
)


def run_both(
    case: Case,
    compiled: Compiled,
    values: Sequence[LayerValues],
    level: str,
    seed: int = 0,
    accumulators: Mapping[Role, Array] | None = None,
) -> list[list[dict[str, Array]]]:
    """The gradients of each launch and rank, from the saved values of the same level."""
    executables: dict[str, Path | None] = dict.fromkeys((FORWARD, BACKWARD))
    if level == "code":
        for name, kernel in compiled.kernels.items():
            executables[name] = build_program(kernel.program, kernel.source)
    known = signatures(compiled.modules["moe"])
    forward, backward = known[FORWARD], known[BACKWARD]
    inputs = [forward_arguments(forward, v) for v in values]
    memory = MEMORY_MODELS[seed % 2]  # half of the interleavings are weak
    results = run_level(level, compiled, FORWARD, inputs, seed, executables[FORWARD], memory=memory)
    given = [
        backward_arguments(backward, forward, v, r, accumulators)
        for v, r in zip(values, results, strict=True)
    ]
    found = run_level(level, compiled, BACKWARD, given, seed, executables[BACKWARD], memory=memory)
    return [[layer_gradients(backward, forward, rank) for rank in launch] for launch in found]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_levels_agree_with_mindspore(case: Case, oracle: Oracle) -> None:
    values = case.values()
    references = [oracle.gradients(v) for v in values]
    compiled = case.compile()
    rounded = case.backward.weight_gradients == "activation"
    bounds = [gradient_tolerance(v, rounded_weights=rounded) for v in values]
    for level in RUN_LEVELS:
        found = run_both(case, compiled, values, level)
        for bound, gradients, reference in zip(bounds, found, references, strict=True):
            result = compare_gradients(gradients, reference, bound)
            assert result.passed, f"{level}: {result}"
    first = run_both(case, compiled, values, "code")
    for seed in range(1, case.interleavings):
        again = run_both(case, compiled, values, "code", seed)
        for x, y in zip(first, again, strict=True):
            for a, b in zip(x, y, strict=True):
                assert {n: g.tobytes() for n, g in a.items()} == {
                    n: g.tobytes() for n, g in b.items()
                }, f"seed {seed} has other bits"


CHOICES = ((), ("swiglu",), ("up",), ("dispatch",), ("swiglu", "up"), ("swiglu", "up", "dispatch"))


@pytest.mark.parametrize("recompute", CHOICES, ids=lambda c: "+".join(c) or "nothing")
def test_recompute(recompute: tuple[str, ...], oracle: Oracle) -> None:
    """Each choice gives the same gradients, and the saved bytes are those of the buffers."""
    case = Case("", backward=DeriveBackwardPass(recompute=recompute))
    values, compiled = case.values(), case.compile()
    plain = Case("")
    expected = run_both(plain, plain.compile(), values, "code")
    found = run_both(case, compiled, values, "code")
    for x, y in zip(expected, found, strict=True):
        for a, b in zip(x, y, strict=True):
            assert {n: g.tobytes() for n, g in a.items()} == {n: g.tobytes() for n, g in b.items()}
    function = next(op for op in compiled.modules["moe"].ops if isinstance(op, FuncOp))
    printed = sum(value.bytes for value in saved_values(function))
    program = compiled.kernels[FORWARD].program
    names = {value.name for value in saved_values(function)}
    allocated = [b for b in program.in_space(MemorySpace.OUTPUT) if b.sym_name.data in names]
    assert len(allocated) == len(names)
    assert printed == sum(buffer_bytes(b) for b in allocated)


@pytest.mark.parametrize("level", RUN_LEVELS)
def test_experts_without_tokens(level: str) -> None:
    """Their weight gradients are exactly 0, whatever was in memory."""
    case = Case("", routing="one-expert")
    values, compiled = case.values(), case.compile()
    (gradients,) = run_both(case, compiled, values, level)
    for rank, by_name in enumerate(gradients):
        first = 2 if rank == 0 else 0  # top 2: experts 0 and 1 get all tokens
        assert (by_name["dw13"][first:] == 0).all()
        assert (by_name["dw2"][first:] == 0).all()
        assert rank or (by_name["dw13"][:2] != 0).any()


@pytest.mark.parametrize("level", RUN_LEVELS)
def test_accumulation(level: str) -> None:
    """With accumulators the gradients are what was there plus the gradients, in f32."""
    case = Case("", backward=DeriveBackwardPass(accumulate=True))
    values, compiled = case.values(), case.compile()
    config = case.config()
    local, hidden, width = config.local_experts, config.hidden, config.width
    rng = np.random.default_rng(3)
    start: dict[Role, Array] = {
        UP: rng.standard_normal((local, hidden, 2 * width), np.float32),
        DOWN: rng.standard_normal((local, width, hidden), np.float32),
    }
    (summed,) = run_both(case, compiled, values, level, accumulators=start)
    plain = Case("")
    (alone,) = run_both(plain, plain.compile(), values, level)
    for a, b in zip(summed, alone, strict=True):
        for role, name in ((UP, "dw13"), (DOWN, "dw2")):
            # One more rounding of the sum in f32.
            expected = start[role] + b[name]
            np.testing.assert_allclose(a[name], expected, rtol=2.0**-22, atol=2.0**-22)
            assert (a[name] != b[name]).any()


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--preset", "deepseek-v3-tiny", "--ranks", "2", "--direction", "both"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--check"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "check     passed against MindSpore 2.10" in out
    assert "gradients passed against MindSpore 2.10" in out


@pytest.mark.parametrize("level", ["moe", "comm"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_gradients_in_f32(level: str, ranks: int, oracle: Oracle) -> None:
    """The derived graph in MindSpore's own precision; the kernels have no f32: not below comm."""
    case = Case("", {"ranks": ranks, "dtype": "f32"}, tokens=(64,))
    values = case.values()
    module = layer_module(case.config())
    compiled = compile_module(
        make_context(), module, case.lowering, down_to=level, backward=case.backward
    )
    (gradients,) = run_both(case, compiled, values, level)
    result = compare_gradients(
        gradients, oracle.gradients(values[0]), gradient_tolerance(values[0])
    )
    assert result.passed, str(result)
    assert result.largest_error < 1e-4
