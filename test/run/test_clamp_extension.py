"""An operator from outside: `clamp.clamp` before SwiGLU, with a kernel of its own.

Nothing of the package knows it. Dependences, queues, events and lowering follow from its regions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hpmoe_ir.driver.compiler import Compiled, compile_module
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.dtypes import round_to
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.passes.analysis.level import RUN_LEVELS
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.substitute_kernel import SubstituteKernelPass
from hpmoe_ir.run.execution import build_program
from hpmoe_ir.run.levels import Values, run_level

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "examples" / "clamp_extension"

LAYER = """
!route = !moe.route<9 tokens, top 2, 6 experts over 2 ranks>
!x = tensor<?x48xbf16, #moe.tokens<9 rows>>
!ids = tensor<?x2xi32, #moe.tokens<9 rows>>
!gate = tensor<?x2xf32, #moe.tokens<9 rows>>
!rows = tensor<?x48xbf16, #moe.grouped<36 rows>>
!h = tensor<?x64xbf16, #moe.grouped<36 rows>>
!a = tensor<?x32xbf16, #moe.grouped<36 rows>>
!w13 = tensor<3x48x64xbf16, #moe.experts<6 over 2 ranks>>
!w2 = tensor<3x32x48xbf16, #moe.experts<6 over 2 ranks>>

func.func @layer(%x: !x, %ids: !ids, %gate: !gate, %w13: !w13, %w2: !w2) -> !x {
  %route = moe.route %ids : !ids -> !route
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
  %h = moe.grouped_matmul %recv, %w13 by %route : !rows, !w13, !route -> !h
  CLAMP
  %a = moe.swiglu %h_in : !h -> !a
  %y = moe.grouped_matmul %a, %w2 by %route : !a, !w2, !route -> !rows
  %out = moe.combine %y, %gate by %route : !rows, !gate, !route -> !x
  func.return %out : !x
}
""".replace("6 experts over 2 ranks>\n", "6 experts over 2 ranks, 36 rows>\n")

CLAMPED = LAYER.replace("CLAMP", "%c = clamp.clamp %h to 7 : !h").replace("%h_in", "%c")
PLAIN = LAYER.replace("  CLAMP\n", "").replace("%h_in", "%h")


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The extension as an installer leaves it: importable, with its entry points. The folder."""
    project = tomllib.loads((EXTENSION / "pyproject.toml").read_text())["project"]
    info = tmp_path / "clamp_extension-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: clamp-extension\nVersion: 0.1.0\n")
    lines: list[str] = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(EXTENSION), *sys.path])
    return tmp_path


def parsed(text: str) -> ModuleOp:
    module = parse_module(make_context(), text.encode(), "layer.mlir")
    module.verify()
    return module


@dataclass(frozen=True)
class WithClampedSwiglu(LowerMoePass):
    """The pipeline with the extension's kernel in the place of the project's."""

    def passes(self) -> tuple[ModulePass, ...]:
        return *super().passes(), SubstituteKernelPass("swiglu", "clamped_swiglu")


PARTS = LowerMoePass(source_groups=2, token_chunks=2)


def compiled(text: str, lowering: LowerMoePass = PARTS) -> Compiled:
    return compile_module(make_context(), parsed(text), lowering)


def bf16(array: Array) -> Array:
    return round_to(array.astype(np.float32), "bf16")


def values(seed: int = 5) -> list[Values]:
    """Tokens, ids, gate weights, w13 and w2 of two ranks with 9 and 5 tokens.

    Values are large enough for the clamp to have something to do.
    """
    rng = np.random.default_rng(seed)
    launch: list[Values] = []
    for tokens in (9, 5):
        launch.append(
            [
                bf16(rng.standard_normal((tokens, 48))),
                np.argsort(rng.random((tokens, 6)), axis=1)[:, :2].astype(np.int32),
                rng.random((tokens, 2)).astype(np.float32),
                bf16(rng.standard_normal((3, 48, 64))),
                bf16(rng.standard_normal((3, 32, 48)) / 6),
            ]
        )
    return launch


def run(layer: Compiled, level: str) -> list[Array]:
    kernel = layer.forward
    executable = build_program(kernel.program, kernel.source) if level == "code" else None
    (results,) = run_level(level, layer, "layer", [values()], executable=executable)
    return [out for (out,) in results]


def assert_close(found: list[Array], expected: list[Array]) -> None:
    """Equal but for a few roundings of intermediate values to bf16."""
    for a, b in zip(found, expected, strict=True):
        scale = np.abs(b).max()
        np.testing.assert_allclose(a / scale, b / scale, atol=2e-2)


def textbook() -> list[Array]:
    """Token by token in f64."""
    launch = values()
    w13, w2 = (np.concatenate([v[n] for v in launch]).astype(np.float64) for n in (3, 4))
    results: list[Array] = []
    for x, ids, weights, *_ in launch:
        out = np.zeros(x.shape)
        for t, experts in enumerate(ids):
            for k, e in enumerate(experts):
                gate, up = np.split(np.clip(x[t] @ w13[e], -7, 7), 2)
                out[t] += weights[t, k] * ((gate / (1 + np.exp(-gate)) * up) @ w2[e])
        results.append(out)
    return results


@pytest.mark.parametrize("level", RUN_LEVELS)
def test_clamped_layer_is_right_at_every_level(level: str):
    assert_close(run(compiled(CLAMPED), level), textbook())


def test_without_functions_of_its_own_the_reference_of_the_kernel_is_run(installed: Path):
    points = installed / "clamp_extension-0.1.0.dist-info" / "entry_points.txt"
    text, _, _ = points.read_text().partition("[hpmoe_ir.interpreters]")
    assert text != points.read_text()
    points.write_text(text)
    assert_close(run(compiled(CLAMPED), "moe"), textbook())


def test_the_clamp_has_something_to_do():
    with pytest.raises(AssertionError):
        assert_close(run(compiled(PLAIN), "moe"), textbook())


@pytest.mark.parametrize("level", ["queue", "code"])
def test_a_kernel_from_outside_takes_the_place_of_one(level: str):
    fused = compiled(PLAIN, WithClampedSwiglu(source_groups=2, token_chunks=2))
    assert "clamp_extension::ClampedSwiGlu<bfloat16_t>(" in fused.forward.source
    assert "hpmoe::SwiGlu" not in fused.forward.source
    assert_close(run(fused, level), textbook())


def test_the_tools_find_the_extension(installed: Path):
    command = [sys.executable, "-m", "hpmoe_ir.tools.hpmoe_opt", "-p", "lower-moe"]
    path = os.pathsep.join([str(installed), str(EXTENSION)])
    result = subprocess.run(
        command,
        input=CLAMPED,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert 'kernel "clamp" {limit = 7 : i64} using @route' in result.stdout
    assert "queue.wait @swiglu (e, g, c) for @clamp_done (e, g)" in result.stdout
    assert "queue.wait @clamp (e, g, c) for @matmul_done (e, g)" in result.stdout
