"""`hpmoe compile --bind mindspore`: the operator is built, and launches the generated kernel."""

# pyright: basic
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compiled_layers import hpmoe

from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RankRouting
from hpmoe_ir.training.arrays import RankInput
from hpmoe_ir.training.compiled import LayerRequest, compiled_experts
from hpmoe_ir.training.launch import StackedLauncher

SCRIPT = Path(__file__).with_name("run_binding.py")
SIZES = (
    "--ranks 1 --hidden 32 --width 16 --experts 4 --top-k 2 --tokens 16 --capacity 20 --dtype f16"
)

SAID = ("status", "refused", "closed")
LAUNCH = ["launch of 24 blocks in null", "kernel launch={} tokens={}"]


@pytest.mark.slow
def test_the_operator_launches_the_kernel(tmp_path: Path) -> None:
    """Arguments, tokens, stream and status go through: the bits are those of the kernel itself."""
    layer, result = tmp_path / "layer", tmp_path / "run" / "result.npz"
    words = ["--preset", "deepseek-v3-tiny", *SIZES.split(), "--schedule", "depth-first"]
    assert hpmoe("compile", *words, "--bind", "mindspore", "-o", str(layer)) == 0
    result.parent.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        [sys.executable, SCRIPT, layer, result],
        cwd=result.parent,
        env=os.environ | {"GLOG_v": "3", "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    record = [line for line in run.stdout.splitlines() if line.startswith(("launch", "kernel"))]
    expected = [(1, 5), (2, 0), (3, 9), (4, 16)]
    assert record == [line.format(*launch) for launch in expected for line in LAUNCH]
    # The status is read back on the stream of the launch after each of them.
    assert run.stdout.count("aclrtSynchronizeStream null\naclrtMemcpy 64 of 64 from mem3") == 4
    said = [line for line in run.stdout.splitlines() if line.startswith(SAID)]
    assert said == [
        "status: moe_layer: launch 4: rank 0 would receive 32 rows, its capacity is 20 rows; every "
        "rank stopped before anything was sent",
        "refused: moe_layer: x: expected shape [11, 32], found [11, 16]",
        "closed: moe_layer: expected a call before close()",
    ]
    freed = ["aclshmem_free symmetric4", "aclrtFree mem3", "aclrtFree mem2", "aclrtFree mem1"]
    assert [line for line in run.stdout.splitlines() if line in freed] == freed

    config = LayerConfig("same", 32, 16, 4, 2, ranks=1, tokens=16, capacity=20, dtype="f16")
    launcher = StackedLauncher(compiled_experts(LayerRequest(config, "depth-first", "ascend-a3")))
    with np.load(result) as found:
        for _, tokens in expected[:-1]:
            x, w13, w2 = (found[f"{tokens}/{name}"].view(np.uint16) for name in ("x", "w13", "w2"))
            routing = RankRouting(found[f"{tokens}/ids"], found[f"{tokens}/gate"])
            (own,) = launcher.forward([RankInput(x, routing, w13, w2)])
            out = found[f"{tokens}/out"].view(np.uint16)
            np.testing.assert_array_equal(out, own.out)
    # The directory with its operator is read like any other.
    assert hpmoe("run", str(layer), "--tokens", "8") == 0
