"""What the sections of the comparison have in common: what was asked for, and cases of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from case_tables import Table
from timed_cases import Case

from hpmoe_ir.machines.machine import Machine

NEITHER = "both changes"
"""Of `published`: no pauses between polls, tasks on both vector cores of each pair."""

CANN_LIKE = "matmul_kernels"
"""The option by which `published` and `serial` run CANN-like matrix kernels."""


@dataclass(frozen=True)
class Options:
    """What the command was asked for."""

    preset: str
    models: Sequence[str]
    ranks: Sequence[int]
    directions: Sequence[str]
    schedules: Sequence[str]
    best: str
    """The schedule beside `published` in the sensitivity table."""
    machine: Machine


@dataclass(frozen=True)
class Section:
    """Runs and the table that is made of them."""

    title: str
    text: str
    """What was run, and what the columns mean."""
    cases: Sequence[Case]
    table: Table


IMBALANCES = (1, 2, 4, 7)


def skewed_cases(options: Options, direction: str, schedule: str) -> list[Case]:
    """All imbalances on the first number of ranks, the smallest real one on the others."""
    at = [(options.ranks[0], x) for x in IMBALANCES]
    at += [(ranks, IMBALANCES[1]) for ranks in options.ranks[1:]]
    return [
        Case(options.preset, ranks, schedule, direction, f"imbalance:{x}", all_ranks=True)
        for ranks, x in at
    ]


LINKS = (100, 167, 196)
"""GB/s each way: below what communication kernels get, what was measured, what is on paper."""


def link_rates(rate: int) -> tuple[tuple[str, float], ...]:
    return tuple((f"shared_bandwidth.{name}", rate * 1e9) for name in ("link_out", "link_in"))
