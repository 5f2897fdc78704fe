"""Kernels and engine under the address and the undefined-behaviour sanitizer: nothing to find in a
layer's both directions, and a planted access that is out of bounds is found."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hpmoe_ir.driver.compiler import Compiled, CompiledKernel, compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import make_values
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.run.directions import backward_arguments, forward_arguments
from hpmoe_ir.run.execution import build_program, run_program
from hpmoe_ir.run.levels import Values, rank_inputs, run_level
from hpmoe_ir.run.signature import signatures
from hpmoe_ir.runtime.cpu_build import KernelEntry, build, build_engine
from hpmoe_ir.runtime.cpu_model import RankLaunch, execute
from hpmoe_ir.runtime.device_fault import DeviceFault

FORWARD, BACKWARD = "moe_layer", "moe_layer_backward"


def sanitized(kernel: CompiledKernel) -> Path:
    """The executable with sanitizers."""
    return build_program(kernel.program, kernel.source, sanitize=True)


@pytest.fixture(scope="module")
def layer() -> tuple[Compiled, dict[str, Path], dict[str, list[list[Values]]]]:
    """The small DeepSeek-V3 layer on 2 ranks, built with sanitizers, and values for it."""
    config = preset_layer("deepseek-v3-tiny").with_sizes(ranks=2)
    module = layer_module(config)
    compiled = compile_module(make_context(), module, LowerMoePass(), backward=DeriveBackwardPass())
    build_engine(sanitize=True)  # once, before the kernels are built side by side
    with ThreadPoolExecutor(2) as pool:
        built = pool.map(sanitized, compiled.kernels.values())
        executables = dict(zip(compiled.kernels, built, strict=True))
    values = make_values(config, [33, 64], parse_routing("zipf:1.2"), 3, 1)
    known = signatures(compiled.modules["moe"])
    forward: list[list[Values]] = [[*forward_arguments(known[FORWARD], values)]]
    plain = build_program(compiled.forward.program, compiled.forward.source)
    (results,) = run_level("code", compiled, FORWARD, forward, executable=plain)
    given = backward_arguments(known[BACKWARD], known[FORWARD], values, results)
    backward: list[list[Values]] = [[*given]]
    return compiled, executables, {FORWARD: forward, BACKWARD: backward}


@pytest.mark.parametrize("checks", [False, True], ids=["no detectors", "detectors"])
@pytest.mark.parametrize("function", [FORWARD, BACKWARD])
@pytest.mark.parametrize("memory", ["strong", "weak"])
def test_nothing_to_find(
    layer: tuple[Compiled, dict[str, Path], dict[str, list[list[Values]]]],
    function: str,
    checks: bool,
    memory: str,
) -> None:
    """The same bits as without sanitizers, and no report."""
    compiled, executables, values = layer
    kernel = compiled.kernels[function]
    inputs = [[rank_inputs(kernel, v) for v in launch] for launch in values[function]]
    plain = build_program(kernel.program, kernel.source)
    found = [
        run_program(
            kernel.program,
            executable,
            kernel.table,
            inputs,
            5,
            memory="weak" if memory == "weak" else "strong",
            checks=checks,
        )
        for executable in (executables[function], plain)
    ]
    for name in found[0][0][0]:
        for one, other in zip(found[0][0], found[1][0], strict=True):
            assert one[name].tobytes() == other[name].tobytes()


PLANTED = """\
#include "kernel_operator.h"
extern "C" __global__ __mix__(1, 2) __aicore__ void planted(GM_ADDR x, uint32_t index) {
  AscendC::InitSocState();
  if ASCEND_IS_AIV {
    int32_t words[4] = {1, 2, 3, 4};
    volatile uint32_t at = index;
    if (at < 64) reinterpret_cast<volatile int32_t*>(words)[at] = 5;
    if (at >= 64) reinterpret_cast<volatile uint8_t*>(x)[at - 64] = 1;
    volatile int32_t most = 0x7FFFFFFF;
    if (at == 2) most = most + static_cast<int32_t>(at);
  }
}
"""


@pytest.mark.parametrize(
    "index, text",
    [
        (1, ""),
        (4, "insufficient space for an object"),
        (64, ""),
        (64 + 4040, "use-after-poison"),
        (2, "signed integer overflow"),
    ],
    ids=["in bounds", "local array", "global memory", "past global memory", "overflow"],
)
def test_planted_accesses(index: int, text: str, tmp_path: Path) -> None:
    """Plain C++ in a kernel, which no API call checks."""
    (tmp_path / "planted.cpp").write_text(PLANTED)
    entry = KernelEntry("planted", ("x",), ("index",))
    executable = build(tmp_path / "planted.cpp", entry, [], sanitize=True)
    launch = RankLaunch({"x": np.zeros(4032, np.uint8)}, {"index": index}, in_out=("x",))
    machine = load_machine("ascend-a3")
    if not text:
        (outputs,) = execute(executable, entry, [[launch]], blocks=1, machine=machine)[0]
        assert outputs["x"].sum() == (1 if index >= 64 else 0)
        return
    with pytest.raises(DeviceFault, match=text) as raised:
        execute(executable, entry, [[launch]], blocks=1, machine=machine)
    assert raised.value.kind == "crash"
