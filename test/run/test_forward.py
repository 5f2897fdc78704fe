"""The forward direction, whole: the generated code and every other level against MindSpore.

Each case changes a few sizes of the small DeepSeek-V3 layer. The tolerance is the derived bound of
`hpmoe_ir.run.tolerance` (docs/tolerance.md). The moe, comm, tile and queue levels round where the
device does, so they are held to the same bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from layer_bounds import compare, tolerance
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.driver.compiler import compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import FUNCTION, layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import make_values
from hpmoe_ir.passes.analysis.level import RUN_LEVELS
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.passes.policies.published import Published
from hpmoe_ir.run.directions import OUTPUT, forward_arguments
from hpmoe_ir.run.execution import build_program
from hpmoe_ir.run.levels import CapacityError, run_level
from hpmoe_ir.run.oracle import Oracle
from hpmoe_ir.run.signature import signatures
from hpmoe_ir.runtime.cpu_model import MEMORY_MODELS
from hpmoe_ir.tools.hpmoe import main


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
    """Tokens of each rank, or one number for all."""
    routing: str = "zipf:1.2"
    launches: int = 1
    interleavings: int = 2
    lowering: LowerMoePass = field(default_factory=LowerMoePass)

    def config(self) -> LayerConfig:
        """The layer of the case."""
        config = preset_layer("deepseek-v3-tiny")
        return config.with_sizes(**{"tokens": max(self.tokens), **self.sizes})  # pyright: ignore[reportArgumentType]


CASES = (
    Case("4 ranks", interleavings=20),
    Case("1 rank", {"ranks": 1}),
    Case("2 ranks", {"ranks": 2}),
    Case("8 ranks", {"ranks": 8}),
    Case("16 ranks", {"ranks": 16}, tokens=(9,)),
    Case("balanced", routing="balanced"),
    Case("uniform", routing="uniform"),
    Case("one expert", routing="one-expert"),
    Case("one expert, top 1", {"top_k": 1}, routing="one-expert"),
    Case("top 1", {"top_k": 1}),
    Case("top 8", {"top_k": 8}),
    Case("f16", {"dtype": "f16"}, launches=3),
    Case("f16 on 8 ranks", {"dtype": "f16", "ranks": 8, "top_k": 8}, routing="uniform"),
    Case("1 token", tokens=(1,)),
    Case("7 tokens", tokens=(7,)),
    Case("128 tokens", tokens=(128,)),
    Case("129 tokens", tokens=(129,)),
    Case("unequal tokens", tokens=(1, 129, 7, 64), launches=3),
    Case("no tokens on one rank", tokens=(64, 0, 64, 7), launches=3),
    Case("tokens on one rank only", tokens=(0, 0, 33, 0), routing="uniform"),
    Case("three launches", launches=3, interleavings=5),
    Case("odd widths", {"hidden": 80, "width": 48, "experts": 8}, tokens=(100,)),
    Case("wider than a tile", {"hidden": 592, "width": 272, "experts": 4}, tokens=(150,)),
    Case("one expert a rank", {"experts": 4}),
    Case("as many rows as fit", {"capacity": 512}, routing="one-expert"),
    Case(
        "parts by rows, experts joined, operator order",
        tokens=(129,),
        lowering=LowerMoePass(
            source_groups=1, row_chunks=3, granularity="expert", policy=OperatorOrder()
        ),
    ),
    Case(
        "small tiles, groups that do not divide the ranks",
        {"ranks": 8},
        lowering=LowerMoePass(
            source_groups=3,
            row_chunks=2,
            put_chunks=2,
            task_cols=48,
            tile_m=32,
            tile_n=48,
            tile_k=32,
            rotate=False,
            elide=False,
        ),
    ),
    Case(
        "as published, with small tiles",
        tokens=(7, 64, 0, 50),
        launches=2,
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
        "each source a part, put by put",
        tokens=(129,),
        lowering=LowerMoePass(
            source_groups=4, row_chunks=2, put_chunks=2, tile_m=16, policy=DepthFirst(ahead=0)
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_levels_agree_with_mindspore(case: Case, oracle: Oracle) -> None:
    config = case.config()
    tokens = list(case.tokens) * (config.ranks if len(case.tokens) == 1 else 1)
    routing = parse_routing(case.routing)
    launches = [make_values(config, tokens, routing, 7, n + 1) for n in range(case.launches)]
    references = [oracle.layer(values) for values in launches]
    bounds = [tolerance(values) for values in launches]
    compiled = compile_module(make_context(), layer_module(config), case.lowering)
    executable = build_program(compiled.forward.program, compiled.forward.source)
    forward = signatures(compiled.modules["moe"])[FUNCTION]
    inputs = [forward_arguments(forward, values) for values in launches]
    out = forward.result(OUTPUT)
    for level in RUN_LEVELS:
        results = run_level(level, compiled, FUNCTION, inputs, 0, executable)
        for bound, result, reference in zip(bounds, results, references, strict=True):
            outputs = [rank[out] for rank in result]
            result = compare(outputs, reference, bound)
            assert result.passed, f"{level}: {result}"
    first = run_level("code", compiled, FUNCTION, inputs, 0, executable)
    for seed in range(1, case.interleavings):
        memory = MEMORY_MODELS[seed % 2]  # half of them weak
        again = run_level("code", compiled, FUNCTION, inputs, seed, executable, memory=memory)
        same = [
            a[out].tobytes() == b[out].tobytes()
            for x, y in zip(first, again, strict=True)
            for a, b in zip(x, y, strict=True)
        ]
        assert all(same), f"seed {seed} has other bits"


@pytest.mark.parametrize("level", RUN_LEVELS)
def test_more_rows_than_the_capacity(level: str) -> None:
    """Every rank stops before anything is sent, also where only one rank is over."""
    config = preset_layer("deepseek-v3-tiny").with_sizes(capacity=500)
    values = make_values(config, [64] * 4, parse_routing("one-expert"), 0)
    compiled = compile_module(make_context(), layer_module(config), LowerMoePass())
    executable = build_program(compiled.forward.program, compiled.forward.source)
    kind = InterpretationError if level in ("moe", "comm") else CapacityError
    given = forward_arguments(signatures(compiled.modules["moe"])[FUNCTION], values)
    with pytest.raises(kind, match=r"^rank 0\b.*(512.*500|500.*512).*$"):
        run_level(level, compiled, FUNCTION, [given], 0, executable)


def test_a_launch_after_one_over_capacity() -> None:
    """Counters are good for the next launch also when a launch sent nothing."""
    config = preset_layer("deepseek-v3-tiny").with_sizes(capacity=500)
    compiled = compile_module(make_context(), layer_module(config), LowerMoePass())
    executable = build_program(compiled.forward.program, compiled.forward.source)
    bad = make_values(config, [64] * 4, parse_routing("one-expert"), 0)
    good = make_values(config, [64] * 4, parse_routing("balanced"), 0, 2)
    forward = signatures(compiled.modules["moe"])[FUNCTION]
    launches = [forward_arguments(forward, values) for values in (good, bad, good)]
    with pytest.raises(CapacityError):
        run_level("code", compiled, FUNCTION, launches, 0, executable)


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The command of the demo, with a line for each stage."""
    words = ["run", "--preset", "deepseek-v3-tiny", "--ranks", "4", "--routing", "zipf:1.2"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--check"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    stages = [line.split()[0] for line in out.splitlines()]
    assert stages == [
        "schedule", "layer", "routing", "moe", "comm", "tile", "queue", "code", "run", "check",
    ]  # fmt: skip
    assert "check     passed against MindSpore 2.10" in out
