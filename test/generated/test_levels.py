"""Generated graphs: all levels agree on them, and a wrong level is seen."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from generated.cases import Backward, Case, Launch, Lowering, case_of
from generated.graphs import Graph, Step
from generated.levels import check
from generated.run import run_cases
from hpmoe_ir.dialects.moe import DispatchOp
from hpmoe_ir.dialects.moe.gradient_trait import Gradient, GradientBuilder
from hpmoe_ir.dialects.tile import DependenceOp
from hpmoe_ir.interpreter import moe as moe_interpreter
from hpmoe_ir.kernels import registry
from hpmoe_ir.kernels.kernel import TileView
from hpmoe_ir.kernels.registry import find_kernel
from hpmoe_ir.lowering.ascendc.target import AscendCCode
from hpmoe_ir.lowering.plan.program import ProgramPlan
from hpmoe_ir.passes.gradient.rules import MOE_RULES, dispatch
from hpmoe_ir.passes.insert_dependencies import InsertDependenciesPass

SEED = 4
CASES = 48
"""`make fuzz` runs a thousand."""


def test_generated_cases_agree() -> None:
    report = run_cases(CASES, SEED, os.cpu_count() or 1)
    for case, failure in report.failures:
        print(f"{failure}\npython -m generated replay '{case}'")
    assert not report.failures
    assert len(report.cases) > 0.8 * CASES
    assert {"forward", "both", "over capacity"} <= set(report.kinds)


@pytest.mark.parametrize("accumulate", [False, True])
def test_weights_that_are_used_three_times_have_gradients(accumulate: bool) -> None:
    """The second and third product add into the first's, with or without an argument for it."""
    steps = (
        Step("dispatch", (0,)),
        Step("combine", (1,)),
        Step("swiglu", (1,)),
        Step("matmul", (3,), 32),
        Step("shared", (4,), -1),
        Step("shared", (5,), -1),
    )
    case = Case(
        Graph((64,), steps, (2, 6, 1)),
        ranks=2,
        local=2,
        top=2,
        capacity=None,
        dtype="bf16",
        launches=(Launch((5, 7), "uniform", 1), Launch((3, 0), "uniform", 2)),
        lowering=Lowering(2),
        backward=Backward(accumulate=accumulate),
        orders=(0, 1),
    )
    assert check(case).kind == "both"


def of_kernel(
    name: str, change: Callable[[Sequence[TileView], Sequence[TileView]], None]
) -> Callable[[pytest.MonkeyPatch], None]:
    """A kernel's NumPy reference that does `change` after its work."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = find_kernel(name)

        def reference(
            reads: Sequence[TileView],
            writes: Sequence[TileView],
            options: Mapping[str, int],
            scalars: Sequence[int],
        ) -> None:
            right.reference(reads, writes, options, scalars)
            change(reads, writes)

        patch.setitem(registry._registry, name, replace(right, reference=reference))  # pyright: ignore[reportPrivateUsage]

    return plant


def last_row(reads: Sequence[TileView], writes: Sequence[TileView]) -> None:
    """The last row of a tile is the first one's."""
    writes[0].array[-1:] = writes[0].array[:1]


def next_position(reads: Sequence[TileView], writes: Sequence[TileView]) -> None:
    """A list of rows begins with its second."""
    writes[1].array[:1] = writes[1].array[-1:]


def interpreter(patch: pytest.MonkeyPatch) -> None:
    """At the graph levels, SwiGLU without its slope: x * u."""

    def wrong(
        h: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        gate, up = np.split(h, 2, axis=1)
        return gate * up

    patch.setattr(moe_interpreter, "_swiglu", wrong)


def device(old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Generated code with one text for another."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = AscendCCode.source

        def source(self: AscendCCode, plan: ProgramPlan) -> str:
            return right(self, plan).replace(old, new)

        patch.setattr(AscendCCode, "source", source)

    return plant


def dependence(patch: pytest.MonkeyPatch) -> None:
    """`insert-dependencies` forgets the last of the dependences."""
    right = InsertDependenciesPass.apply

    def wrong(self: InsertDependenciesPass, ctx: Context, op: ModuleOp) -> None:
        right(self, ctx, op)
        last = [d for d in op.walk() if isinstance(d, DependenceOp)][-1]
        last.detach()
        last.erase()

    patch.setattr(InsertDependenciesPass, "apply", wrong)


def rule(patch: pytest.MonkeyPatch) -> None:
    """A dispatch hands no gradient to the tokens but that of one of their copies: twice the sum."""

    def wrong(op: DispatchOp, gradient: SSAValue, builder: GradientBuilder) -> Sequence[Gradient]:
        (pair,) = dispatch(op, gradient, builder)
        return [pair, pair]

    patch.setitem(MOE_RULES, DispatchOp, wrong)


DEFECTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "copies": (of_kernel("copy_rows", last_row), "tile"),
    "positions": (of_kernel("place_tokens", next_position), "tile"),
    "swiglu of the graph levels": (interpreter, "moe"),
    "rows of another expert": (device("route.Grouped(e,", "route.Grouped(0,"), "code"),
    "a block of columns too early": (device("n * env.Size(", "0 * env.Size("), "code"),
    "a forgotten dependence": (dependence, "verify-queues|before the route is built"),
    "a gradient rule": (rule, "gradient"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, where = DEFECTS[name]
    plant(monkeypatch)
    report = run_cases(150, SEED, os.cpu_count() or 1, shrink=False)
    assert report.failures, f"{len(report.cases)} cases agree"
    (_, failure) = report.failures[0]
    assert re.search(where, failure) or "DeviceFault" in failure, failure


FOUND = {
    "a product of rows with themselves, cut into blocks of two sizes": (
        '{"graph":{"widths":[64],"steps":[{"op":"dispatch","operands":[0],"number":0},'
        '{"op":"weight_gradient","operands":[1,1],"number":0}],"results":[2]},"ranks":2,"local":1,'
        '"top":1,"capacity":null,"dtype":"bf16","launches":[{"tokens":[5,3],"routing":"uniform",'
        '"seed":64,"scale":1.0}],"lowering":{"cores":1,"options":[["task_cols",48],["tile_m",32],'
        '["tile_n",32],["tile_k",64]]},"backward":null,"orders":[1]}'
    ),
    "two dispatches, whose gradients return through windows of names that were taken": (
        '{"graph":{"widths":[16,16],"steps":[{"op":"dispatch","operands":[0],"number":0},'
        '{"op":"dispatch","operands":[1],"number":0},{"op":"add","operands":[2,3],"number":0},'
        '{"op":"combine","operands":[4],"number":0}],"results":[5]},"ranks":2,"local":1,'
        '"top":1,"capacity":null,"dtype":"f16","launches":[{"tokens":[5,3],"routing":"uniform",'
        '"seed":64,"scale":1.0}],"lowering":{"cores":1,"options":[]},"backward":{"recompute":[],'
        '"accumulate":false,"weight_gradients":"f32"},"orders":[1]}'
    ),
    "a sum of tokens in a launch over the capacity, which has none": (
        '{"graph":{"widths":[16],"steps":[{"op":"dispatch","operands":[0],"number":0},'
        '{"op":"combine","operands":[1],"number":0},{"op":"add","operands":[2,2],"number":0}],'
        '"results":[3]},"ranks":2,"local":1,"top":1,"capacity":1,"dtype":"bf16","launches":'
        '[{"tokens":[4,4],"routing":"balanced","seed":1,"scale":1.0}],"lowering":{"cores":1,'
        '"options":[]},"backward":null,"orders":[0]}'
    ),
}
"""Cases that found something wrong once."""


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    case = case_of(FOUND[name])
    assert case_of(case.text()) == case
    agreed = check(case)
    assert agreed.elements > 0 or agreed.kind == "over capacity"


def test_a_case_is_its_text() -> None:
    """Cases of a run can be run again, the same."""
    report = run_cases(4, SEED + 9, 1)
    again = run_cases(4, SEED + 9, 1)
    assert report.cases == again.cases
    for text in report.cases:
        case = case_of(text)
        assert isinstance(case, Case)
        assert case.text() == text
