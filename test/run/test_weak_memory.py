"""Generated layers under weak memory: right as they are, and seen wrong where a step is missing
between what a task writes and its signal."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hpmoe_ir.driver.compiler import Compiled, compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import FUNCTION, layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import make_values
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.run import execution
from hpmoe_ir.run.directions import forward_arguments
from hpmoe_ir.run.execution import DEVICE_INCLUDE, build_program, run_program
from hpmoe_ir.run.levels import Values, rank_inputs
from hpmoe_ir.run.signature import signatures
from hpmoe_ir.runtime.cpu_model import MemoryModel
from hpmoe_ir.runtime.device_fault import DeviceFault

SEEDS = range(1, 13)


@dataclass(frozen=True)
class Layer:
    """A compiled layer with values of two launches and the results they should have."""

    compiled: Compiled
    launches: Sequence[Sequence[Values]]
    expected: list[bytes] = field(default_factory=list[bytes])

    def fails(self, executable: Path, seed: int) -> bool:
        """Whether a run under weak memory ends with a fault or with other bits."""
        try:
            return self.outputs(executable, seed, "weak") != self.expected
        except DeviceFault:
            return True

    def outputs(self, executable: Path, seed: int, memory: MemoryModel) -> list[bytes]:
        """What the ranks get; detectors of order are off, since they need no bits to be wrong."""
        kernel = self.compiled.forward
        inputs = [[rank_inputs(kernel, values) for values in launch] for launch in self.launches]
        results = run_program(
            kernel.program, executable, kernel.table, inputs, seed, memory=memory, checks=False
        )
        return [by_name["out"].tobytes() for launch in results for by_name in launch]


@pytest.fixture(scope="module")
def layer() -> Layer:
    """The small DeepSeek-V3 layer on 2 ranks."""
    config = preset_layer("deepseek-v3-tiny").with_sizes(ranks=2)
    routing = parse_routing("zipf:1.2")
    forward = signatures(layer_module(config))[FUNCTION]
    launches = [
        forward_arguments(forward, make_values(config, [64, 64], routing, 3, n)) for n in (1, 2)
    ]
    compiled = compile_module(make_context(), layer_module(config), LowerMoePass())
    executable = build_program(compiled.forward.program, compiled.forward.source)
    layer = Layer(compiled, launches)
    layer.expected.extend(layer.outputs(executable, 0, "strong"))
    return layer


def test_generated_code_is_right(layer: Layer) -> None:
    """The same bits for all seeds, strong or weak."""
    executable = build_program(layer.compiled.forward.program, layer.compiled.forward.source)
    assert not any(layer.fails(executable, seed) for seed in SEEDS)


def without(pattern: str, *headers: str) -> Callable[[Path], None]:
    """Takes statements out of device headers."""

    def change(directory: Path) -> None:
        found = 0
        for path in sorted(directory.glob("*.h")):
            if headers and path.name not in headers:
                continue
            text, count = re.subn(pattern, "", path.read_text())
            path.write_text(text)
            found += count
        assert found, f"no {pattern} in the headers"

    return change


# Each kernel ends with a barrier of its own, so that only all of them together can be missing.
NO_PIPE_BARRIER = without(r"AscendC::PipeBarrier<PIPE_(ALL|MTE3)>\(\);")
NO_MEMORY_BARRIER = without(r"AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>\(\);", "counters.h")


def keep_ub_only(directory: Path) -> None:
    """A memory barrier for UB, where global memory is meant."""
    path = directory / "counters.h"
    path.write_text(path.read_text().replace("MemDsbT::DDR", "MemDsbT::UB"))


@pytest.mark.parametrize(
    "change",
    [NO_PIPE_BARRIER, NO_MEMORY_BARRIER, keep_ub_only],
    ids=["no pipe barrier", "no memory barrier", "memory barrier for UB"],
)
def test_missing_steps_in_the_device_headers(
    change: Callable[[Path], None], layer: Layer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What strong memory cannot show: some seeds have wrong bits or a fault."""
    shutil.copytree(DEVICE_INCLUDE, tmp_path / "device")
    change(tmp_path / "device" / "hpmoe")
    monkeypatch.setattr(execution, "DEVICE_INCLUDE", tmp_path / "device")
    executable = build_program(layer.compiled.forward.program, layer.compiled.forward.source)
    assert any(layer.fails(executable, seed) for seed in SEEDS)
    assert layer.outputs(executable, 1, "strong") == layer.expected


def early_faults(layer: Layer, executable: Path) -> list[str]:
    """Kinds of the faults of runs in which lines enter data caches early, detectors on."""
    kernel = layer.compiled.forward
    inputs = [[rank_inputs(kernel, values) for values in launch] for launch in layer.launches]
    found: list[str] = []
    for seed in SEEDS:
        try:
            results = run_program(
                kernel.program, executable, kernel.table, inputs, seed, memory="early"
            )
        except DeviceFault as fault:
            found.append(fault.kind)
        else:
            outputs = [by_name["out"].tobytes() for launch in results for by_name in launch]
            assert outputs == layer.expected
    return found


def test_generated_code_is_right_where_lines_are_loaded_early(layer: Layer) -> None:
    executable = build_program(layer.compiled.forward.program, layer.compiled.forward.source)
    assert early_faults(layer, executable) == []


NO_DROP_OF_THE_ROUTE = without(r"DropLines\(words, [^;]*;", "env.h")


def test_a_route_that_is_not_dropped_is_seen(
    layer: Layer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where lines are loaded early: the kernel's start drops those of earlier launches."""
    shutil.copytree(DEVICE_INCLUDE, tmp_path / "device")
    NO_DROP_OF_THE_ROUTE(tmp_path / "device" / "hpmoe")
    monkeypatch.setattr(execution, "DEVICE_INCLUDE", tmp_path / "device")
    executable = build_program(layer.compiled.forward.program, layer.compiled.forward.source)
    assert set(early_faults(layer, executable)) == {"cache"}
    assert not any(layer.fails(executable, seed) for seed in SEEDS)


def test_signal_before_the_payload(layer: Layer) -> None:
    """A task that announces its rows before it has written them."""
    found = re.search(
        r"(?P<head>inline void Dispatch\(.*?^  if \(.*?{\n)"
        r"(?P<body>.*?)"
        r"(?P<signal>^    env\.Signal.*?;\n)",
        source := layer.compiled.forward.source,
        re.M | re.S,
    )
    assert found is not None
    moved = found["head"] + found["signal"] + found["body"]
    changed = source[: found.start()] + moved + source[found.end() :]
    executable = build_program(layer.compiled.forward.program, changed)
    assert any(layer.fails(executable, seed) for seed in SEEDS)
