"""Names of values say nothing: a graph whose values are called otherwise runs to the same bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.driver.compiler import Compiled, compile_module, module_text
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.frontends.build_layer import FUNCTION, layer_module
from hpmoe_ir.frontends.graph_layer import graph_layer
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import make_values
from hpmoe_ir.passes.analysis.level import RUN_LEVELS
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.run.directions import backward_arguments, forward_arguments
from hpmoe_ir.run.execution import build_program
from hpmoe_ir.run.levels import run_level
from hpmoe_ir.run.signature import backward_of, signatures
from hpmoe_ir.tools.hpmoe import main

CONFIG = preset_layer("deepseek-v3-tiny").with_sizes(
    ranks=2, experts=8, hidden=64, width=32, tokens=24
)
BACKWARD = {"plain": DeriveBackwardPass(), "accumulate": DeriveBackwardPass(accumulate=True)}


def values_of(module: ModuleOp) -> Iterator[list[SSAValue]]:
    """The values of each function, in order."""
    for op in module.ops:
        if isinstance(op, FuncOp):
            inner = [result for found in op.body.walk() for result in found.results]
            yield [*op.args, *inner]


def numbered(module: ModuleOp) -> None:
    """Takes all names away: the printer writes %0, %1 and so on, as mlir-opt does."""
    for values in values_of(module):
        for value in values:
            value.name_hint = None


def shuffled(module: ModuleOp) -> None:
    """Gives each value the name of another one."""
    for values in values_of(module):
        hints = [value.name_hint for value in values]
        for value, hint in zip(values, [*hints[3:], *hints[:3]], strict=True):
            value.name_hint = hint


AWKWARD = ("status", "tokens", "out_acc", "class", "x.y", "x_y", "route", "w_backward", "order")


def awkward(module: ModuleOp) -> None:
    """Names that the program or C++ has already, and some that once had a meaning."""
    for values in values_of(module):
        for i, value in enumerate(values):
            value.name_hint = AWKWARD[i % len(AWKWARD)]


def foo(module: ModuleOp) -> None:
    """The same name for all values."""
    for values in values_of(module):
        for value in values:
            value.name_hint = "foo"


RENAMINGS: dict[str, Callable[[ModuleOp], None]] = {
    "numbered": numbered,
    "shuffled": shuffled,
    "awkward": awkward,
    "foo": foo,
}


@dataclass(frozen=True)
class RenamePass(ModulePass):
    """Renames the values of all functions that are left."""

    name = "rename"

    how: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        RENAMINGS[self.how](op)


def lowering(how: str) -> list[ModulePass]:
    """The pipeline, with all values renamed between any two passes."""
    passes: list[ModulePass] = []
    for one in LowerMoePass().passes():
        passes += [RenamePass(how), one] if how else [one]
    return passes


def reread(module: ModuleOp) -> ModuleOp:
    """The module as it is after it was written and read."""
    return parse_module(make_context(), module_text(module).encode(), "graph.mlir")


def without_roles(module: ModuleOp) -> ModuleOp:
    """The module of a user who states no roles."""
    for op in module.ops:
        if isinstance(op, FuncOp):
            op.arg_attrs = op.res_attrs = None
    return module


@cache
def compiled(backward: str, how: str = "", stated: bool = True) -> Compiled:
    """The layer with its gradients."""
    module = layer_module(CONFIG)
    if how:
        RENAMINGS[how](module)
    if not stated:
        without_roles(module)
    return compile_module(
        make_context(), reread(module), lowering(how), backward=BACKWARD[backward]
    )


@cache
def results(level: str, backward: str, how: str = "", stated: bool = True) -> list[bytes]:
    """The bits of all results of both directions, by launch, rank and place."""
    layer = compiled(backward, how, stated)
    known = signatures(layer.modules["moe"])
    forward, gradients = known[FUNCTION], backward_of(known, FUNCTION)
    assert gradients is not None
    executables: dict[str, Path | None] = dict.fromkeys(known)
    if level == "code":
        for name, kernel in layer.kernels.items():
            executables[name] = build_program(kernel.program, kernel.source, quick=True)
    routing = parse_routing("zipf:1.2")
    values = [make_values(CONFIG, [24, 7], routing, 5, n) for n in (1, 2)]
    given = [forward_arguments(forward, v) for v in values]
    found = run_level(level, layer, forward.name, given, 0, executables[forward.name])
    given = [
        backward_arguments(gradients, forward, v, r) for v, r in zip(values, found, strict=True)
    ]
    more = run_level(level, layer, gradients.name, given, 0, executables[gradients.name])
    return [
        array.tobytes() for run in (found, more) for launch in run for r in launch for array in r
    ]


@pytest.mark.parametrize("level", RUN_LEVELS)
@pytest.mark.parametrize(
    ("how", "backward"), [("numbered", "plain"), *((how, "accumulate") for how in RENAMINGS)]
)
def test_the_same_bits(how: str, backward: str, level: str) -> None:
    expected = results(level, backward)
    assert len(expected) == 2 * 2 * (5 + 4)
    assert results(level, backward, how) == expected


@pytest.mark.parametrize("how", RENAMINGS)
def test_the_same_bits_without_roles(how: str) -> None:
    """Uses say what the arguments are."""
    assert results("queue", "plain", how, stated=False) == results("queue", "plain")


@pytest.mark.parametrize("how", RENAMINGS)
def test_the_same_table(how: str) -> None:
    """The order of the tasks does not depend on names either."""
    for one, other in zip(
        compiled("accumulate").kernels.values(),
        compiled("accumulate", how).kernels.values(),
        strict=True,
    ):
        assert one.table == other.table


def command(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What a successful command says of results."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(words)
    shown = capsys.readouterr()
    assert stop.value.code == 0, shown.err
    return [line for line in shown.out.splitlines() if line.startswith(("check", "gradients"))]


@pytest.mark.parametrize("level", ["moe", "code"])
def test_commands(level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = layer_module(CONFIG)
    plain, other = tmp_path / "plain.mlir", tmp_path / "numbered.mlir"
    plain.write_text(module_text(module))
    numbered(module)
    other.write_text(module_text(without_roles(module)))
    assert "%x" in plain.read_text()
    assert re.findall("%[a-z]", other.read_text()) == []
    passes = "derive-backward{accumulate=true},lower-moe"
    options = ["--direction", "both", "-p", passes, "--level", level, "--check"]
    found = command(capsys, "run", str(other), *options)
    assert len(found) == 2
    assert found == command(capsys, "run", str(plain), *options)


def permuted(order: Sequence[int]) -> str:
    """The layer with its arguments in another order, without roles."""
    module = layer_module(CONFIG)
    numbered(module)
    text = module_text(without_roles(module))
    head = re.search(r"\((%0: .*)\) ->", text)
    assert head is not None
    arguments = re.split(r", (?=%)", head[1])
    return text.replace(head[1], ", ".join(arguments[i] for i in order))


def test_arguments_in_another_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither names nor places say what an argument is; the check is by MindSpore."""
    graph = tmp_path / "graph.mlir"
    graph.write_text(permuted([4, 2, 0, 3, 1]))
    found = command(capsys, "run", str(graph), "--direction", "both", "--check")
    assert all("passed against MindSpore" in line for line in found)


UNWEIGHTED = """
!route = !moe.route<24 tokens, top 2, 8 experts over 2 ranks, 96 rows>
!x = tensor<?x64xbf16, #moe.tokens<24 rows>>
!gate = tensor<?x2xf32, #moe.tokens<24 rows>>
!ids = tensor<?x2xi32, #moe.tokens<24 rows>>
!rows = tensor<?x64xbf16, #moe.grouped<96 rows>>
!half = tensor<?x32xbf16, #moe.grouped<96 rows>>
!back = tensor<?x64xbf16, #moe.sent<48 rows>>
!w13 = tensor<4x64x64xbf16, #moe.experts<8 over 2 ranks>>
!w2 = tensor<4x32x64xbf16, #moe.experts<8 over 2 ranks>>
func.func @layer(%0: !x, %1: !ids, %gate: !gate ROLE, %3: !w13, %4: !w2) -> !x {
  %5 = moe.route %1 : !ids -> !route
  %6 = moe.dispatch %0 by %5 : !x, !route -> !rows
  %7 = moe.grouped_matmul %6, %3 by %5 : !rows, !w13, !route -> !rows
  %8 = moe.swiglu %7 : !rows -> !half
  %9 = moe.grouped_matmul %8, %4 by %5 : !half, !w2, !route -> !rows
  %10 = moe.collect %9 by %5 : !rows, !route -> !back
  %11 = moe.sum_copies %10 by %5 : !back, !route -> !x
  func.return %11 : !x
}
"""


def test_an_argument_that_nothing_uses() -> None:
    """What it is must be stated; its name does not say it."""

    def graph(role: str) -> ModuleOp:
        text = UNWEIGHTED.replace("ROLE", role)
        return parse_module(make_context(), text.encode(), "graph.mlir")

    with pytest.raises(InputError) as refused:
        graph_layer(graph(""))
    assert str(refused.value) == (
        "graph.mlir:11:1: error: @layer: argument 2: expected it to be gate_weights, its use "
        "doesn't say it; add its role, as in {moe.role = #moe.role<gate_weights>}"
    )
    assert not graph_layer(graph("{moe.role = #moe.role<gate_weights>}")).is_textbook
