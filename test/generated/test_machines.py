"""Drawn machine descriptions: a sample, and code for another machine's memories is seen."""

from __future__ import annotations

import pytest

from generated.machines import drawn_numbers, judge_machine
from hpmoe_ir.lowering.ascendc import source
from hpmoe_ir.machines.machine import Machine, load_machine

REFUSED = {
    2: "convert-comm-to-tile: tile 16x16x16 needs 1024 bytes of L0B, machine-2 has 922",
    4: "target ascendc: machine machine-4: [memory] counter_line: expected 64, for which the "
    "device code is written, found 128",
    6: "convert-comm-to-tile: option 'machine': machine-6.toml: [memory] ub_reserved: expected 288 "
    "to 8191, less than ub, found 9216",
    9: "verify-queues: @count, kernel 'count_tokens': needs 2 flag ids of a pair of pipes, "
    "machine-9 has 1",
}
"""`make fuzz` judges two hundred."""

SMALL_L1 = 1


@pytest.mark.parametrize("number", [SMALL_L1, 5])
def test_both_directions_run_right(number: int) -> None:
    assert judge_machine(number) == ("right", f"machine-{number}")


@pytest.mark.parametrize(
    "numbers",
    [
        {"memory.l1": 256 * 1024},
        {"memory.l0c": 256 * 1024},
        {"memory.l0a": 32 * 1024, "memory.l0b": 128 * 1024, "memory.ub": 64 * 1024},
    ],
    ids=str,
)
def test_a_chip_with_other_memories_runs_both_directions_right(numbers: dict[str, int]) -> None:
    assert judge_machine(3, {"cores.aic": 2, **numbers}) == ("right", "machine-3")


@pytest.mark.parametrize("number", REFUSED)
def test_what_no_kernel_can_serve_is_refused(number: int) -> None:
    assert judge_machine(number) == ("refused", REFUSED[number])


def test_code_for_the_memories_of_another_machine_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = source.memory_definitions
    other = load_machine("ascend-a3")
    assert drawn_numbers(SMALL_L1)["memory.l1"] < other.l1_bytes

    def wrong(_: Machine) -> str:
        return right(other)

    monkeypatch.setattr(source, "memory_definitions", wrong)
    outcome, text = judge_machine(SMALL_L1)
    assert outcome == "failed"
    assert "capacity: LocalTensor: read of L1 bytes 522240 to 522272, usable are 56064" in text
