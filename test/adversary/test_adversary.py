"""A sample of what `make fuzz` runs in full: nothing that goes wrong is accepted."""

from __future__ import annotations

import pytest

from adversary.campaign import run_campaign

PROGRAMS = 200


def test_no_harmful_program_is_accepted() -> None:
    total = run_campaign(PROGRAMS, 7, 2)
    assert not total.accepted_harmful, "\n".join(total.lines())
    assert total.refused_share < 0.05, "\n".join(total.lines())
    assert total.count == PROGRAMS
    # Both sides are asked questions of both kinds.
    assert total.outcomes["accepted", "harmless"] > PROGRAMS / 5
    assert total.outcomes["refused", "harmful"] > PROGRAMS / 5


_ = pytest
