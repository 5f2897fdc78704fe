"""Lines that enter data caches early: a reader that does not drop them is seen, no other is.

The kernel's start drops all lines, so nothing is stale unless a line is loaded between that and
the write: without early fills, no order of the cores does so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpmoe_ir.runtime.cpu_model import MemoryModel, RankLaunch
from hpmoe_ir.runtime.device_fault import DeviceFault

SEEDS = range(12)


@pytest.fixture(scope="module")
def early(program: Any) -> Any:
    return program("early", "out windows", "drop launch")


def read(early: Any, drop: bool, seed: int, memory: MemoryModel, checks: bool = True) -> list[int]:
    """The payload as two launches have read it."""
    launches = [[RankLaunch({"out": 64}, {"drop": int(drop), "launch": n})] for n in (1, 2)]
    found = early.launch(
        launches,
        persistent={"windows": bytes(4096)},
        seed=seed,
        memory=memory,
        checks=checks,
    )
    return [int(launch[0]["out"].view(np.int32)[0]) for launch in found]


@pytest.mark.parametrize("memory", ["strong", "weak", "early"])
def test_a_reader_that_drops_the_line_reads_what_was_written(early: Any, memory: MemoryModel):
    assert all(read(early, True, seed, memory) == [100, 200] for seed in SEEDS)


@pytest.mark.parametrize("memory", ["strong", "weak"])
def test_without_early_fills_nobody_notices_a_missing_drop(early: Any, memory: MemoryModel):
    assert all(read(early, False, seed, memory) == [100, 200] for seed in SEEDS)


def test_early_fills_show_a_missing_drop(early: Any):
    """As a fault, or without the detectors as an old value; not in every order."""
    faults: list[DeviceFault] = []
    for seed in SEEDS:
        try:
            read(early, False, seed, "early")
        except DeviceFault as fault:
            faults.append(fault)
    assert 0 < len(faults) < len(SEEDS)
    assert {fault.kind for fault in faults} == {"cache"}
    assert all("DataCacheCleanAndInvalid is missing" in fault.message for fault in faults)
    values = [read(early, False, seed, "early", checks=False) for seed in SEEDS]
    assert any(found != [100, 200] for found in values)
    assert values == [read(early, False, seed, "early", checks=False) for seed in SEEDS]
