"""A sample of what `make fuzz` runs in full, and faults planted in the proof, all of them found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdsl.dialects.builtin import ModuleOp

from adversary.campaign import BLOCK, Asked, Tally, ask_block, counted
from adversary.planted import COMMON_FAULTS, Fault, accepts

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

    def harmful(self) -> Iterator[ModuleOp]:
        """Yields harmful programs that are refused."""
        at = 0
        while self.blocks < MOST_BLOCKS or at < len(self.asked):
            if at == len(self.asked):
                self.grow()
            asked = self.asked[at]
            at += 1
            if asked.verdict.harmful and asked.refusal:
                yield asked.module


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
    assert tally.refused_share < 0.05, report
    assert len(sample.asked) == tally.count == sample.blocks * BLOCK
    # Right and wrong programs, of each source.
    for source in tally.programs:
        of_source = [a for a in sample.asked if a.source == source]
        harmful = sum(a.verdict.harmful for a in of_source)
        assert 0.2 < harmful / len(of_source) < 0.8, f"{source}: {harmful} of {len(of_source)}"


@pytest.mark.parametrize("fault", COMMON_FAULTS, ids=lambda f: f.__name__)
def test_a_planted_fault_is_found(
    fault: Fault, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A harmful program passes the proof once a part of it is gone."""
    programs = sample.harmful()
    found = False
    for module in programs:
        with monkeypatch.context() as patch:
            fault(patch)
            found = accepts(module)
        if found:
            break
    assert found
