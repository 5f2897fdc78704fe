"""Common parts of the sections of the comparison: the request, and cases of several sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from case_tables import Table
from timed_cases import Case

from hpmoe_ir.machines.machine import Machine

CANN_LIKE = "matmul_kernels"
"""The option by which `published` and `serial` run CANN-like matrix kernels."""


@dataclass(frozen=True)
class Options:
    """The request of the command line."""

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
    """A section: its runs, and the table of their results."""

    title: str
    text: str
    """Description of the runs and of the columns."""
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
"""Link bandwidths in GB/s each way: below that of communication kernels, measured, nominal."""


def link_rates(rate: int) -> tuple[tuple[str, float], ...]:
    return tuple((f"shared_bandwidth.{name}", rate * 1e9) for name in ("link_out", "link_in"))
