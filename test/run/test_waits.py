"""Waits that give up and polls that pause: right programs never notice, wrong ones say what they
wait for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpmoe_ir.driver.compiler import CompiledKernel, compile_module, compile_program
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import FUNCTION, layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import make_values
from hpmoe_ir.lowering.targets import code_target
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.set_waits import SetWaitsPass
from hpmoe_ir.run.directions import forward_arguments
from hpmoe_ir.run.execution import build_program, run_program
from hpmoe_ir.run.levels import Values, rank_inputs
from hpmoe_ir.run.signature import signatures
from hpmoe_ir.runtime.cpu_model import MEMORY_MODELS
from hpmoe_ir.runtime.device_fault import DeviceFault

SECOND = 50_000_000
"""Ticks."""
PUBLISHED = SetWaitsPass(poll_aic=2500, poll_aiv=7500)
"""How often the published system looks: every 50 us and 150 us."""


@dataclass(frozen=True)
class Layer:
    """The small DeepSeek-V3 layer on 2 ranks, with values of two launches."""

    kernel: CompiledKernel
    launches: Sequence[Sequence[Values]]

    def outputs(self, executable: Path, seed: int) -> list[bytes]:
        """What the ranks get."""
        inputs = [[rank_inputs(self.kernel, values) for values in by] for by in self.launches]
        results = run_program(
            self.kernel.program,
            executable,
            self.kernel.table,
            inputs,
            seed,
            memory=MEMORY_MODELS[seed % 2],
        )
        return [by_name["out"].tobytes() for launch in results for by_name in launch]


def layer(*waits: SetWaitsPass) -> Layer:
    config = preset_layer("deepseek-v3-tiny").with_sizes(ranks=2)
    ctx, module = make_context(), layer_module(config)
    compiled = compile_module(ctx, module, LowerMoePass())
    lowered = compiled.modules["queue"]
    for options in waits:
        options.apply(ctx, lowered)
    kernel = compile_program(lowered, code_target(), compiled.functions[0])
    routing = parse_routing("zipf:1.2")
    forward = signatures(layer_module(config))[FUNCTION]
    launches = [
        forward_arguments(forward, make_values(config, [64, 64], routing, 3, n)) for n in (1, 2)
    ]
    return Layer(kernel, launches)


@pytest.fixture(scope="module")
def expected() -> list[bytes]:
    """The outputs without any option."""
    plain = layer()
    return plain.outputs(build_program(plain.kernel.program, plain.kernel.source), 0)


@pytest.mark.parametrize(
    "waits",
    [(SetWaitsPass(budget=SECOND),), (PUBLISHED,), (SetWaitsPass(budget=SECOND), PUBLISHED)],
    ids=["budget", "poll", "both"],
)
def test_right_programs_never_give_up(
    waits: tuple[SetWaitsPass, ...], expected: list[bytes]
) -> None:
    """The same bits in any order, in strong and in weak memory."""
    bounded = layer(*waits)
    executable = build_program(bounded.kernel.program, bounded.kernel.source)
    for seed in range(6):
        assert bounded.outputs(executable, seed) == expected, f"seed {seed}"


def test_a_budget_of_microseconds_is_enough_without_work(expected: list[bytes]) -> None:
    """Time passes only while nobody can go on: other cores' work does not use a budget up."""
    bounded = layer(SetWaitsPass(budget=2000))
    executable = build_program(bounded.kernel.program, bounded.kernel.source)
    for seed in range(4):
        assert bounded.outputs(executable, seed) == expected, f"seed {seed}"


def without_a_signal(source: str) -> str:
    """The SwiGLU tasks do not announce their rows."""
    changed, count = re.subn(
        r"(inline void Swiglu\(.*?)^  env\.Signal\(.*?;\n",
        r"\1",
        source,
        count=1,
        flags=re.M | re.S,
    )
    assert count == 1
    return changed


@pytest.mark.parametrize(
    "waits",
    [(SetWaitsPass(budget=SECOND),), (SetWaitsPass(budget=SECOND), PUBLISHED)],
    ids=["budget", "budget and poll"],
)
def test_an_event_that_never_comes_is_named(waits: tuple[SetWaitsPass, ...]) -> None:
    """The wait gives up: its event, its task, who should have signalled; the same for a seed."""
    broken = layer(*waits)
    executable = build_program(broken.kernel.program, without_a_signal(broken.kernel.source))
    for seed in range(4):
        reports: list[str] = []
        for _ in range(2):
            with pytest.raises(DeviceFault) as raised:
                broken.outputs(executable, seed)
            fault = raised.value
            assert fault.kind == "wait"
            reports.append(str(fault))
        assert reports[0] == reports[1]
        for expected in (
            r"gave up waiting for event \d+ of @\w+: saw \d+, waited for \d+\n"
            r"  @\w+ \([\d, ]+\) on rank \d ai[cv]\d+ waits for event",
            r"@matmul_1 \([\d, ]+\) on rank \d aic\d+ waits for event \d+ of @swiglu_done: 0 "
            r"signals so far, 1 in each launch; signalled by @swiglu \(\d",
        ):
            assert re.search(expected, reports[0]), reports[0]


@pytest.mark.parametrize("waits", [(), (PUBLISHED,)], ids=["no option", "poll"])
def test_without_a_budget_it_is_a_deadlock(waits: tuple[SetWaitsPass, ...]) -> None:
    """Pauses between looks do not hide it."""
    broken = layer(*waits)
    executable = build_program(broken.kernel.program, without_a_signal(broken.kernel.source))
    with pytest.raises(DeviceFault, match="waits for event") as raised:
        broken.outputs(executable, 1)
    assert raised.value.kind == "deadlock"
