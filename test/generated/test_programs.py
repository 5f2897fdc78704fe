"""Generated tile programs: right ones are neither refused nor reported, and wrong ones are."""

from __future__ import annotations

import os

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from generated.programs import Plan, judge, judge_many
from generated.tile_programs import tile_program
from hpmoe_ir.dialects import queue
from hpmoe_ir.dialects.queue import WaitOp
from hpmoe_ir.driver.compiler import module_text
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.lowering.ascendc.target import AscendCCode
from hpmoe_ir.lowering.plan.program import ProgramPlan
from hpmoe_ir.passes.verify_queues import VerifyQueuesPass

COUNT = 20
"""`make fuzz` runs 500."""


def test_right_programs_are_accepted() -> None:
    rates = judge_many(COUNT, 1000, os.cpu_count() or 1)
    assert not rates.failed(), "\n".join(rates.lines())
    assert len(rates.verdicts) == COUNT


@pytest.mark.parametrize("seed", range(6))
def test_programs_are_text(seed: int) -> None:
    text = module_text(tile_program(seed).module)
    assert module_text(parse_module(make_context(), text.encode(), "program.mlir")) == text
    assert module_text(tile_program(seed).module) == text


def queues(seed: int) -> ModuleOp:
    """The queues of a program."""
    program, plan = tile_program(seed), Plan.of(seed)
    plan.apply(program.module)
    plan.queues(program.module)
    return program.module


def test_a_wait_less_is_refused() -> None:
    """Of the waits that a program has after `elide-dependencies`, hardly one may go."""
    refused = waits = 0
    for seed in range(0, 40, 4):
        module = queues(seed)
        (program,) = module.ops
        assert isinstance(program, queue.ProgramOp)
        last = [op for op in program.body.block.ops if isinstance(op, WaitOp)][-1]
        last.detach()
        last.erase()
        waits += 1
        try:
            VerifyQueuesPass().apply(Context(), module)
        except DiagnosticException:
            refused += 1
    assert refused > waits / 2


def test_a_wrong_kernel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated code that adds a row too few has other results, or reads what nobody wrote."""
    right = AscendCCode.source

    def source(self: AscendCCode, plan: ProgramPlan) -> str:
        return right(self, plan).replace(
            "hpmoe::AddRows<bfloat16_t>(read0, read1", "hpmoe::AddRows<bfloat16_t>(read0, read0"
        )

    monkeypatch.setattr(AscendCCode, "source", source)
    verdicts = (judge(seed) for seed in range(12))
    assert any(v.wrong.startswith("code") or v.alarm for v in verdicts)
