"""Cores and ranks together: order by seed, symmetric memory, streams, deadlock reports."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hpmoe_ir.runtime.cpu_model import PATTERN, RankLaunch
from hpmoe_ir.runtime.device_fault import DeviceFault

WINDOWS = 4096


@pytest.fixture(scope="module")
def ranks(program: Any) -> Any:
    return program("ranks", "out workspace windows", "which launch")


def run(
    ranks: Any, which: int, *, count: int = 2, launches: int = 1, aics: int = 2, **options: Any
) -> list[list[dict[str, npt.NDArray[np.int32]]]]:
    """Outputs as int32, by launch and rank."""
    persistent = {"windows": bytes(WINDOWS), "workspace": 4096}
    outputs = ranks.launch(
        [
            [RankLaunch({"out": 256}, {"which": which, "launch": n + 1}) for _ in range(count)]
            for n in range(launches)
        ],
        persistent=persistent,
        aics=aics,
        read_back=("windows", "workspace"),
        **options,
    )
    return [
        [{k: v.view(np.int32) for k, v in rank.items()} for rank in launch] for launch in outputs
    ]


@pytest.mark.parametrize("seed", range(8))
def test_counters_over_ranks_and_launches(ranks: Any, seed: int):
    """Atomic adds of all cores of all ranks arrive; counters keep growing over launches."""
    results = run(ranks, 0, count=3, launches=3, aics=4, seed=seed)
    for launch, by_rank in enumerate(results, 1):
        for rank in by_rank:
            assert (rank["out"][:8] == launch * 24).all()
            assert rank["windows"][0] >= launch * 24
    assert all(rank["windows"][0] == 72 for rank in results[-1])


def arrival(ranks: Any, seed: int) -> list[int]:
    return run(ranks, 1, count=2, aics=4, seed=seed)[0][0]["windows"][16:32].tolist()


def test_a_seed_fixes_the_order(ranks: Any):
    """The same seed gives the same order, other seeds other orders."""
    orders = [arrival(ranks, seed) for seed in range(12)]
    assert orders == [arrival(ranks, seed) for seed in range(12)]
    assert len({tuple(order) for order in orders}) > 8


@pytest.mark.parametrize("seed", range(8))
def test_a_late_rank_begins_when_the_others_have_ended(ranks: Any, seed: int):
    """All three launches of the other rank come first if they need nothing of the late rank."""
    for late in (0, 1):
        window = run(ranks, 1, launches=3, aics=4, seed=seed, late=[late])[2][0]["windows"]
        first, second = window[16:24], window[24:32]  # the last turns of each rank's cores
        if late == 0:
            assert window[0] == 6 * 8
            assert second.max() < 3 * 8 <= first.min()
        else:  # as rank 0 leaves it
            assert window[0] == 3 * 8
            assert not second.any()


def test_a_late_rank_that_does_not_exist(ranks: Any):
    with pytest.raises(ValueError, match="late: expected ranks 0 to 1, found 2"):
        run(ranks, 1, late=[2])


@pytest.mark.parametrize("seed", range(6))
def test_flags_between_cores(ranks: Any, seed: int):
    """Modes 0, 1 and 2 and both kinds of SyncAll."""
    out = run(ranks, 2, aics=3, seed=seed)[0][1]["out"]
    np.testing.assert_array_equal(out[:6], [101, 102, 103, 104, 105, 100])


@pytest.mark.parametrize("seed", range(4))
def test_deadlock_report(ranks: Any, seed: int):
    """A deadlock report lists waiting cores, the word and the value read; no finished cores."""
    with pytest.raises(DeviceFault) as raised:
        run(ranks, 3, seed=seed)
    fault = raised.value
    assert fault.kind == "deadlock"
    assert fault.message == "no core can run: 2 cores wait"
    assert [(w.rank, w.core, w.marker, w.allocation, w.offset, w.value) for w in fault.waiting] == [
        (0, "aiv0", 42, "windows", 192, 0),
        (1, "aiv0", 42, "windows", 192, 1),
    ]
    place = fault.waiting[0].location
    assert place.startswith("ranks.cpp:")
    assert str(fault).splitlines()[1:] == [
        f"  rank {rank} aiv0 at 42 waits in GetValue for windows + 192, saw {rank} ({place})"
        for rank in (0, 1)
    ]


def test_stale_cache_line(ranks: Any):
    """A core that keeps a stale line never sees the change; the report has both values."""
    with pytest.raises(DeviceFault) as raised:
        run(ranks, 4, count=1)
    (waiting,) = raised.value.waiting
    assert (waiting.value, waiting.memory) == (0, 7)
    assert "windows + 0, saw 0, memory holds 7" in str(raised.value)


def test_flag_that_nobody_sets(ranks: Any):
    """Cores in CrossCoreWaitFlag are in the report."""
    with pytest.raises(DeviceFault) as raised:
        run(ranks, 5, count=1)
    (waiting,) = raised.value.waiting
    assert (waiting.core, waiting.reason, waiting.offset) == ("aiv0", "CrossCoreWaitFlag", 5)
    assert "rank 0 aiv0 waits in CrossCoreWaitFlag for flag 5 (ranks.cpp:" in str(raised.value)


def test_barrier_that_not_all_reach(ranks: Any):
    """One AIV of four is in SyncAll."""
    with pytest.raises(DeviceFault) as raised:
        run(ranks, 6, count=1)
    assert "rank 0 aiv0 waits in SyncAll for all cores" in str(raised.value)


@pytest.mark.parametrize("seed", range(4))
def test_polling_by_dma(ranks: Any, seed: int):
    """A loop of short copies polls like a loop of scalar reads, and is a deadlock like it."""
    run(ranks, 7, seed=seed)
    persistent = {"windows": bytes(WINDOWS), "workspace": 4096}
    with pytest.raises(DeviceFault, match="waits in DataCopyPad for windows") as raised:
        ranks.run({"out": 256}, {"which": 7, "launch": 2}, ranks=2, persistent=persistent)
    assert raised.value.kind == "deadlock"
    assert [w.value for w in raised.value.waiting] == [0, 0]


def test_a_loop_with_an_end_is_no_deadlock(ranks: Any):
    """Repeated reads of a word are no poll if the loop ends."""
    assert run(ranks, 8, count=1)[0][0]["out"][0] == 0
    assert run(ranks, 12, count=1)[0][0]["out"][0] == 0


@pytest.mark.parametrize("seed", range(4))
def test_library_signals(ranks: Any, seed: int):
    """Set and wait around a ring of four ranks."""
    results = run(ranks, 9, count=4, launches=2, seed=seed)
    assert [rank["out"][0] for rank in results[1]] == [2] * 4


@pytest.mark.parametrize("seed", range(4))
def test_ranks_are_not_in_step(ranks: Any, seed: int):
    """Rank 1 can only end its first launch once rank 0 is past its third."""
    results = run(ranks, 10, launches=3, seed=seed)
    assert [launch[1]["out"][0] for launch in results] == [1, 1, 1]


def test_fresh_memory_between_launches(ranks: Any):
    """A launch starts with uninitialised workspace and outputs; windows keep their content."""
    results = run(ranks, 11, count=1, launches=2)
    fresh = np.frombuffer(PATTERN, np.int32)[0]
    assert [launch[0]["workspace"][0] for launch in results] == [1, 2]
    for launch in results:
        assert (launch[0]["workspace"][1:] == fresh).all()
        assert (launch[0]["out"] == fresh).all()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"arrays": {}}, "kernel 'ranks': no memory for argument 'out'"),
        ({"arrays": {"out": 4, "more": 4}}, "kernel 'ranks': there is no argument 'more'"),
        ({"scalars": {"which": 0}}, "kernel 'ranks': scalars are ['launch', 'which'], found"),
        ({"aics": 25}, "aics: expected 1 to 24, found 25"),
        ({"windows": [b"1", b"2"]}, "persistent 'windows': expected 1 contents, found 2"),
    ],
)
def test_arguments_that_do_not_fit(ranks: Any, change: dict[str, Any], message: str):
    """Refused before anything runs."""
    launch = RankLaunch(
        change.get("arrays", {"out": 4}), change.get("scalars", {"which": 0, "launch": 1})
    )
    persistent = {"windows": change.get("windows", bytes(64)), "workspace": 64}
    with pytest.raises(ValueError, match=re.escape(message)):
        ranks.launch([[launch]], persistent=persistent, aics=change.get("aics", 1))
