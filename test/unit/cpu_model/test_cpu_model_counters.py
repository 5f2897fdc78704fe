"""Checks of declared event counters: their values when launches start, after signals and at the
end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.runtime.cpu_model import Counters, EventCounter, RankLaunch
from hpmoe_ir.runtime.device_fault import DeviceFault

RANKS, AICS = 2, 2
SIGNALS = RANKS * AICS * 2
RIGHT, ONE_TOO_MANY, ONE_TOO_FEW = 0, 13, 14
SEEDS = range(6)


@pytest.fixture(scope="module")
def ranks(program: Any) -> Any:
    return program("ranks", "out workspace windows", "which launch")


def run(
    ranks: Any,
    which: int,
    *,
    numbers: Sequence[int] = (1, 2, 3),
    first: Sequence[int] = (0, 0),
    threshold: int = SIGNALS,
    seed: int = 0,
    memory: str = "weak",
    unwaited: tuple[int, ...] = (),
) -> None:
    """Every vector core adds one to the counter of every rank, in each launch.

    numbers: what the launches are given as their numbers; first: the counters before them.
    """
    windows = [np.full(1024, value, np.int32).tobytes() for value in first]
    ranks.launch(
        [
            [RankLaunch({"out": 256}, {"which": which, "launch": n}) for _ in range(RANKS)]
            for n in numbers
        ],
        persistent={"windows": windows, "workspace": 4096},
        aics=AICS,
        counters=Counters(
            "windows", "launch", (EventCounter("all_done", 5, 0, threshold, unwaited),)
        ),
        seed=seed,
        memory=memory,
    )


def fault_of(ranks: Any, which: int, **options: Any) -> DeviceFault:
    with pytest.raises(DeviceFault) as raised:
        run(ranks, which, **options)
    assert raised.value.kind == "counter", str(raised.value)
    return raised.value


@pytest.mark.parametrize("seed", SEEDS)
def test_right_counts(ranks: Any, seed: int):
    """Three launches, each waiting for its own signals only; words 1 to 7 have any values."""
    run(ranks, RIGHT, seed=seed)
    run(ranks, RIGHT, seed=seed, memory="strong")


def test_counters_that_were_not_reset(ranks: Any):
    """A counter that is not 0 before the first launch is refused, also at a launch's total."""
    for value in (1, SIGNALS, -1):
        fault = fault_of(ranks, RIGHT, first=(0, value))
        assert fault.message == (
            f"the counter of event 5 of @all_done on rank 1 is {value} before the first launch,"
            f" expected 0: each launch adds {SIGNALS}"
        )


def test_wrong_launch_number(ranks: Any):
    """Numbers of launches must be 1, 2, ...; without the check only some of these hang."""
    for numbers, launch, given in (((1, 1), 2, 1), ((1, 3), 2, 3), ((2, 3), 1, 2), ((0,), 1, 0)):
        fault = fault_of(ranks, RIGHT, numbers=numbers)
        assert fault.message.replace("rank 1", "rank 0") == (
            f"launch {launch} of rank 0 is given {given} as its number: it waits for {given} times"
            f" the threshold of an event, expected {launch} times"
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_one_signal_too_many(ranks: Any, seed: int):
    """A surplus signal is reported at the signal if no rank is a launch ahead."""
    fault = fault_of(ranks, ONE_TOO_MANY, numbers=(1,), seed=seed)
    assert fault.message == (
        f"the counter of event 5 of @all_done on rank 0 is {SIGNALS + 1} after this signal,"
        f" expected at most {SIGNALS}: each launch adds {SIGNALS}, and no rank has started launch 2"
    )
    assert fault.location.startswith("ranks.cpp:")
    fault_of(ranks, ONE_TOO_MANY, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_signal_too_few(ranks: Any, seed: int):
    """No core hangs; the value is reported at the next launch or at the end."""
    fault = fault_of(ranks, ONE_TOO_FEW, numbers=(1,), seed=seed)
    assert fault.message == (
        f"the counter of event 5 of @all_done on rank 0 is {SIGNALS - 1} at the end of 1 launches,"
        f" expected {SIGNALS}: each launch adds {SIGNALS}"
    )
    # If the other rank is a launch ahead, its signals hide a missing one for a while.
    assert "starts there, expected" in fault_of(ranks, ONE_TOO_FEW, seed=seed).message


@pytest.mark.parametrize("seed", SEEDS)
def test_late_signals_that_nobody_waits_for(ranks: Any, seed: int):
    """A missing signal of an event without waits is reported at the end only."""
    fault = fault_of(ranks, ONE_TOO_FEW, unwaited=(0, 1), seed=seed)
    assert "at the end of 3 launches" in fault.message


def test_wrong_threshold(ranks: Any):
    """A declared threshold that differs from the number of signals is reported."""
    assert f"expected {SIGNALS + 1}" in fault_of(ranks, RIGHT, threshold=SIGNALS + 1).message
    message = fault_of(ranks, RIGHT, threshold=SIGNALS + 1, numbers=(1,)).message
    assert "at the end of 1 launches" in message
