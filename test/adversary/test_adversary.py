"""A sample of what `make fuzz` runs in full, and faults planted in the proof, all of them found."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from adversary.campaign import BLOCK, Asked, Tally, ask, ask_block, counted, program_of
from adversary.planted import COMMON_FAULTS, Fault, misses, next_launch_may_overwrite
from adversary.reduce import reduced
from hpmoe_ir.dialects.tile import TasksOp

SEED = 8
BLOCKS = 4
MOST_BLOCKS = 20
"""A planted fault is found in the first blocks, or, as the compiler changes, in some more."""


class Sample:
    """Programs of all sources, and what is said of them, as many as are asked for."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.asked: list[Asked] = []
        self.blocks = 0

    def grow(self) -> None:
        """Adds a block of programs."""
        programs = ask_block(SEED, self.blocks, self.tally)
        self.asked += counted(programs, self.tally)
        self.blocks += 1

    def all(self) -> Iterator[Asked]:
        """Yields the programs of all blocks."""
        at = 0
        while self.blocks < MOST_BLOCKS or at < len(self.asked):
            if at == len(self.asked):
                self.grow()
            yield self.asked[at]
            at += 1


@pytest.fixture(scope="module")
def sample() -> Sample:
    found = Sample()
    while found.blocks < BLOCKS:
        found.grow()
    return found


def test_no_harmful_program_is_accepted(sample: Sample) -> None:
    tally = sample.tally
    report = "\n".join(tally.lines())
    assert not tally.accepted_harmful, report
    assert tally.refused_share < 0.12, report  # 0.05 of the many programs of `make fuzz`
    assert len(sample.asked) == tally.count == sample.blocks * BLOCK
    # Right and wrong programs, of each source.
    for source in tally.programs:
        of_source = [a for a in sample.asked if a.source == source]
        harmful = sum(a.verdict.harmful for a in of_source)
        assert 0.1 < harmful / len(of_source) < 0.9, f"{source}: {harmful} of {len(of_source)}"


@pytest.mark.parametrize("fault", COMMON_FAULTS, ids=lambda f: f.__name__)
def test_a_planted_fault_is_found(fault: Fault, sample: Sample) -> None:
    """A harmful program passes the proof once a part of it is gone."""
    assert any(misses(fault, asked) for asked in sample.all())


def test_a_wrong_program_is_reduced(sample: Sample) -> None:
    """To a put, whom it races with, and hardly anything else."""
    asked = next(a for a in sample.all() if misses(next_launch_may_overwrite, a))

    def is_wrong(module: ModuleOp) -> bool:
        other = ask(replace(asked, module=module), 0)
        return other is not None and misses(next_launch_may_overwrite, other)

    small = reduced(asked.module, is_wrong)
    assert is_wrong(small)
    families = [op for op in program_of(small).body.block.ops if isinstance(op, TasksOp)]
    assert len(families) == 2


@pytest.mark.parametrize("name", ["accesses", "judge", "orders", "routings", "view"])
def test_the_judge_is_independent(name: str) -> None:
    """What executes programs shares no code with what compiles, proves or interprets them."""
    tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
    imported = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    ours = [m for m in imported if m.startswith("hpmoe_ir")]
    assert all(m.startswith("hpmoe_ir.dialects") for m in ours), ours
    assert not {"hpmoe_ir.dialects.tile.contract", "hpmoe_ir.dialects.tile.capacity"} & set(ours)
