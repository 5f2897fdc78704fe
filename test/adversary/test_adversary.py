"""A sample of what `make fuzz` runs in full, and faults planted in the proof, all of them found."""

from __future__ import annotations

import pytest

from adversary.campaign import BLOCK, Asked, Tally, ask_block, counted
from adversary.planted import COMMON_FAULTS, Fault, accepts

SEED = 7
BLOCKS = 5


@pytest.fixture(scope="module")
def sample() -> tuple[Tally, list[Asked]]:
    """Programs of all sources, and what is said of them."""
    tally = Tally()
    asked = [a for block in range(BLOCKS) for a in counted(ask_block(SEED, block, tally), tally)]
    return tally, asked


def test_no_harmful_program_is_accepted(sample: tuple[Tally, list[Asked]]) -> None:
    tally, asked = sample
    report = "\n".join(tally.lines())
    assert not tally.accepted_harmful, report
    assert tally.refused_share < 0.05, report
    assert len(asked) == tally.count == BLOCKS * BLOCK
    # Right and wrong programs, of each source.
    for source in tally.programs:
        of_source = [a for a in asked if a.source == source]
        harmful = sum(a.verdict.harmful for a in of_source)
        assert 0.2 < harmful / len(of_source) < 0.8, f"{source}: {harmful} of {len(of_source)}"


@pytest.mark.parametrize("fault", COMMON_FAULTS, ids=lambda f: f.__name__)
def test_a_planted_fault_is_found(
    fault: Fault, sample: tuple[Tally, list[Asked]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the harmful programs passes the proof once a part of it is gone."""
    harmful = [a.module for a in sample[1] if a.verdict.harmful and a.refusal]
    fault(monkeypatch)
    assert any(accepts(module) for module in harmful)
