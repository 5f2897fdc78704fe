"""`hpmoe run --check` judges graphs with operators from outside by bounds of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.ir import Operation, OpTraits

from hpmoe_ir.dialects.evaluation_error import EvaluationErrorTrait
from hpmoe_ir.dtypes import from_bits, round_to
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.kernels.kernel import AscendCFunction
from hpmoe_ir.kernels.registry import find_kernel, register_kernel
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import make_values
from hpmoe_ir.run.graph_reference import NotDifferentiable, WrongGradient
from hpmoe_ir.run.tolerance import compare_result
from hpmoe_ir.tools.hpmoe import main
from judged.graphs import GRAPHS, layer_text
from judged.study import TOKENS, JudgedGraph, Outcomes, install_operators, judge


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_operators(tmp_path / "site", monkeypatch)


def layer(operation: str, dtype: str = "bf16", last: str = "") -> str:
    """A layer with an operation on h between the first matmul and SwiGLU.

    `last`: one more on the rows that the experts return.
    """
    lines = [
        "%v = moe.grouped_matmul %recv, %w13 by %route : !rows, !w13, !route -> !h",
        f"%h = outside.{operation} : !h",
        "%a = moe.swiglu %h : !h -> !a",
        "%y = moe.grouped_matmul %a, %w2 by %route : !a, !w2, !route -> !rows",
        f"%z = outside.{last or 'scale %y by 1'} : !rows",
        "%out = moe.combine %z, %gate by %route : !rows, !gate, !route -> !x",
    ]
    return layer_text("".join(f"  {line}\n" for line in lines), dtype=dtype)


def run(graph: Path, *options: str) -> int:
    """Exit status of `hpmoe run --check`."""
    with pytest.raises(SystemExit) as stop:
        main(["run", str(graph), "--check", "--tokens", "16,11", *options])
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.parametrize("number", range(GRAPHS))
def test_right_runs_pass_and_broken_ones_are_caught(number: int) -> None:
    """One seed of the twenty of `python -m judged`."""
    outcomes = Outcomes()
    judge(JudgedGraph(number), [number], outcomes)
    assert outcomes.failed == []
    assert outcomes.not_judged == []
    certain = ("zeros", "one row 0", "wrong sign")
    ratios = [r for key, found in outcomes.broken.items() if key.how in certain for r in found if r]
    assert ratios
    caught = sum(r > 1.0 for r in ratios)
    # A row of an operation whose own error is large, such as the square of a square, can hide.
    assert caught >= 0.9 * len(ratios)


@pytest.mark.parametrize("operation", ["scale %v by 64", "squared_relu %v"])
@pytest.mark.parametrize("level", ["moe", "code"])
def test_the_command_judges_both_directions(
    operation: str, level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "graph.mlir"
    graph.write_text(layer(operation))
    assert run(graph, "--direction", "both", "--level", level) == 0
    out = capsys.readouterr().out
    assert "check     passed against the graph in float64: largest error" in out
    assert "gradients passed against the graph in float64: largest error" in out


def test_a_kernel_that_writes_zeros_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """h / 64 makes an output that is small, and so is its bound."""
    right = find_kernel("outside_scale")
    function = replace(right.ascendc, name="outside_operators::Zeros")
    assert isinstance(function, AscendCFunction)
    zeros = register_kernel(replace(right, name="outside_zeros", ascendc=function))
    graph = tmp_path / "graph.mlir"
    graph.write_text(layer("scale %v by 64", last="squared_relu %y"))
    substitute = f"lower-moe,substitute-kernel{{kernel=outside_scale by={zeros.name}}}"
    assert run(graph, "-p", substitute) == 1
    err = capsys.readouterr().err
    assert "check failed: launch 1: largest error" in err, err
    assert "first wrong task: @scale" in err


def test_the_rounded_reference_passes() -> None:
    """What equals the float64 reference, rounded once, is right for any graph."""
    for number in range(0, GRAPHS, 3):
        graph = JudgedGraph(number)
        bounds = graph.reference.output_bounds(graph.values(1), 1)
        found = [round_to(own, graph.config.dtype) for own in bounds.exact]
        comparison = compare_result(found, bounds)
        assert comparison.passed, f"graph {number}: {comparison}"


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("noise", "outside.noise gives other values for the same operands"),
        ("quarters", "output: rounding errors change it in jumps"),
    ],
)
def test_what_cannot_be_judged_has_a_status_of_its_own(
    operation: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "graph.mlir"
    graph.write_text(layer("scale %v by 1", last=f"{operation} %y"))
    assert run(graph, "--level", "moe") == 3
    out = capsys.readouterr().out
    assert f"check     compared, not judged: launch 1: {reason}" in out
    assert "passed" not in out


def test_a_wrong_gradient_rule_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kernel and rule agree with each other; the forward function tells."""
    graph = tmp_path / "graph.mlir"
    graph.write_text(layer("wrongly_derived %v"))
    assert run(graph, "--direction", "both", "--level", "moe") == 1
    captured = capsys.readouterr()
    assert "check     passed" in captured.out
    assert "is not the derivative of @layer: along a random direction" in captured.err


def test_derivatives_of_the_graphs_agree_with_differences() -> None:
    for number in range(0, GRAPHS, 2):
        graph = JudgedGraph(number)
        graph.reference.check_derivatives(graph.values(3), 3)


def test_derivatives_that_do_not_exist() -> None:
    graph = JudgedGraph(0, layer("quarters %v"), gradients=True)
    with pytest.raises((NotDifferentiable, WrongGradient)):
        graph.reference.check_derivatives(graph.values(3), 3)


class RoughScale(EvaluationErrorTrait):
    """A kernel that is right to one part in a hundred."""

    @classmethod
    def evaluation_error(
        cls, op: Operation, index: int, operands: Sequence[object], result: Sequence[Array]
    ) -> list[Array]:
        return [0.01 * np.abs(rows) for rows in result]


def test_an_operation_brings_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    text = layer("softcap %v", "f16")
    plain = JudgedGraph(0, text, gradients=False)
    values = plain.values(0)
    bounds = plain.reference.output_bounds(values, 0)
    softcap = next(type(op) for op in plain.module.walk() if op.name == "outside.softcap")
    traits = (*softcap.traits, RoughScale())
    monkeypatch.setattr(softcap, "traits", OpTraits(lambda: traits))
    rough = JudgedGraph(0, text, gradients=False).reference.output_bounds(values, 0)
    for own, other in zip(bounds.element, rough.element, strict=True):
        assert np.median(other / own) > 3


def test_infinities_that_are_due_are_right() -> None:
    """Weights near the end of the range overflow in some elements of the output."""
    graph = JudgedGraph(2, layer("scale %v by 1"))
    values = make_values(graph.config, TOKENS, parse_routing("uniform"), 0)
    routing = tuple(
        replace(rank, gates=np.full_like(rank.gates, 2.0**127)) for rank in values.routing
    )
    values = replace(values, routing=routing)
    bounds = graph.reference.output_bounds(values, 0)
    assert any(np.isinf(own).any() for own in bounds.exact)
    results = graph.run(values, None, "", 0)[graph.output]
    assert compare_result(results, bounds).passed
    wrong = [np.where(np.isinf(own), 0, own) for own in results]
    assert not compare_result(wrong, bounds).passed


def test_subnormal_router_weights_are_not_flushed() -> None:
    graph = JudgedGraph(2)
    values = graph.values(0)
    routing = tuple(replace(rank, gates=rank.gates * np.float32(1e-39)) for rank in values.routing)
    values = replace(values, routing=routing)
    bounds = graph.reference.output_bounds(values, 0)
    results = graph.run(values, None, "", 0)[graph.output]
    assert compare_result(results, bounds).passed
    assert not compare_result([np.zeros_like(own) for own in results], bounds).passed or (
        bounds.reason
    )


def test_exact_copies_have_no_tolerance() -> None:
    """Rows that are only moved must be the same."""
    body = (
        "  %back = moe.collect %recv by %route : !rows, !route -> !sent\n"
        "  %out = moe.sum_copies %back by %route : !sent, !route -> !x\n"
    )
    text = layer_text(body, top=1)
    for name, role in (("gate", "gate"), ("w13", "up"), ("w2", "down")):
        role = f"{{moe.role = #moe.role<{role}_weights>}}"
        text = text.replace(f"%{name}: !{name}", f"%{name}: !{name} {role}")
    graph = JudgedGraph(0, text, gradients=False)
    values = graph.values(0)
    bounds = graph.reference.output_bounds(values, 0)
    x = [from_bits(rows, graph.config.dtype) for rows in values.x]
    assert compare_result(x, bounds).largest_error == 0
    x[0][3, 5] *= 1 + 2.0**-20
    assert not compare_result(x, bounds).passed
