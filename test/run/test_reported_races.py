"""Reported faults of signals and of what they announce, each with its right and wrong version.

Three watchers are asked: `verify-queues`, which sees the queue program; the CPU model, which sees
the generated code run; and the comparison of its results with the reference and between orders.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled_layers import LayerTests, broken, changed, failure, hpmoe

from hpmoe_ir.diagnostics import RefusedError, verify_module
from hpmoe_ir.driver.compiler import compile_program
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.frontends.build_layer import FUNCTION
from hpmoe_ir.lowering.targets import code_target
from hpmoe_ir.passes.verify_queues import VerifyQueuesPass
from hpmoe_ir.run.execution import DEVICE_INCLUDE, RankInputs, Raw, build_program, run_program
from hpmoe_ir.runtime.cpu_model import MemoryModel
from hpmoe_ir.runtime.device_fault import DeviceFault
from hpmoe_ir.tools.hpmoe_opt import main as hpmoe_opt

DATA = Path(__file__).parents[1] / "data"

NO_BARRIER = ("    AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>();\n", "")
"""The change of counters.h by which a signal may overtake what it announces."""

PACKED = [
    (f"{head} {{\n", f"{head} {{\n  if (reinterpret_cast<uint64_t>(counter) & 64) counter -= 8;\n")
    for head in (
        "inline void WaitCounter(__gm__ int32_t* counter, uint32_t target)",
        "inline void SignalCounter(__gm__ int32_t* counter)",
    )
]
"""The change of counters.h that packs two counters into each line."""


def own_counters(source: str, changes: Sequence[tuple[str, str]]) -> str:
    """A device source with a changed `hpmoe/counters.h` in the place of the right one."""
    header = (DEVICE_INCLUDE / "hpmoe" / "counters.h").read_text()
    for old, new in changes:
        assert old in header, old
        header = header.replace(old, new)
    first = source.index('#include "hpmoe/')
    return source[:first] + header + source[first:]


def with_counters(right: Path, directory: Path, changes: Sequence[tuple[str, str]]) -> Path:
    """The layer with a changed `hpmoe/counters.h` in its forward direction."""
    return changed(right, directory, FUNCTION, lambda source: own_counters(source, changes))


class TestSignals(LayerTests):
    """A signal that comes before what it announces; two counters in one line."""

    SIZES = "--ranks 2 --experts 4 --tokens 12 --hidden 32 --width 16"
    RUN = ["--edited-code", "--check", "--interleavings", "8", "--launches", "2"]

    @pytest.mark.parametrize("memory", ["strong", "weak"])
    def test_right(self, memory: str, layer: Path):
        assert hpmoe("run", str(layer), *self.RUN, "--memory", memory) == 0

    def test_a_right_header_in_the_place_of_the_right_one(self, layer: Path, tmp_path: Path):
        """What the wrong versions below start from."""
        same = with_counters(layer, tmp_path / "layer", [])
        assert hpmoe("run", str(same), *self.RUN) == 0

    def test_a_signal_before_the_rows(
        self, layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        first = "const hpmoe::Route route ="
        signal = (
            "env.SignalPeer(env.Size(kDispatchDone) + e * env.Size(kDispatchDoneDim1)"
            " + env.Rank(), peer);"
        )
        wrong = broken(layer, tmp_path / "a", FUNCTION, "Dispatch", signal, "")
        wrong = broken(wrong, tmp_path / "b", FUNCTION, "Dispatch", first, f"{signal}\n  {first}")
        message = failure(capsys, "run", str(wrong), *self.RUN)
        assert re.search(
            r"uninitialised: .* 'windows' of rank \d \+ \d+ was never written in this launch.*\n"
            r"  in @(matmul|save_recv) \([\d, ]+\) on rank \d ai[cv]",
            message,
        ), message

    def test_a_signal_before_the_rows_are_there(
        self, layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        """Without the barrier for memory, rows may reach another die after their signal."""
        wrong = with_counters(layer, tmp_path / "layer", [NO_BARRIER])
        message = failure(capsys, "run", str(wrong), *self.RUN)
        assert re.search(
            r"drain: .* was sent before the write by \w+ at [\w/.:]+ \(rank \d aiv\d+\) was .*"
            r"DataSyncBarrier.*\n  in @\w+ .*\n  the other in @\w+ ",
            message,
        ), message

    def test_two_counters_in_one_line(
        self, layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        """Each second counter lies in the other half of the line before its own."""
        wrong = with_counters(layer, tmp_path / "layer", PACKED)
        message = failure(capsys, "run", str(wrong), *self.RUN)
        assert re.search(
            r"line: .* shares a cache line with the counter at .*\n  in @\w+ .*\n  the other in @",
            message,
        ), message


class TestOneWindowTwice:
    """Two exchanges through one window; nothing but an event keeps the second from the first."""

    LAUNCHES = 3
    WAIT = "  queue.wait @put2 (p) for @take1_done (p)\n"
    TEXT = (DATA / "two_puts_one_window.mlir").read_text()

    def refusal(self, text: str) -> str:
        """What verify-queues says, empty where it accepts the program."""
        ctx = make_context()
        module = parse_module(ctx, text.encode(), "two_puts.mlir")
        try:
            VerifyQueuesPass().apply(ctx, module)
        except RefusedError as e:
            return str(e)
        return ""

    @staticmethod
    def rows(launch: int, rank: int, which: int) -> Raw:
        """Rows of one rank for both ranks; no two of them alike."""
        first = ((launch * 2 + rank) * 2 + which) * 512
        return np.arange(first, first + 512, dtype=np.uint16).reshape(2, 8, 32)

    def run(
        self,
        text: str,
        seed: int,
        late: tuple[int, ...] = (),
        *,
        counters: Sequence[tuple[str, str]] = (),
        memory: MemoryModel = "strong",
        checks: bool = True,
    ) -> bool:
        """Whether every rank took the rows that its peer had put, in one order of the cores."""
        module = parse_module(make_context(), text.encode(), "two_puts.mlir")
        verify_module(module)
        kernel = compile_program(module, code_target())
        executable = build_program(kernel.program, own_counters(kernel.source, counters))
        inputs = [
            [
                RankInputs({f"x{i}": self.rows(launch, rank, i) for i in (1, 2)}, 0)
                for rank in range(2)
            ]
            for launch in range(self.LAUNCHES)
        ]
        results = run_program(
            kernel.program,
            executable,
            kernel.table,
            inputs,
            seed,
            late=late,
            memory=memory,
            checks=checks,
        )
        return all(
            (results[launch][rank][f"out{i}"][s] == self.rows(launch, s, i)[rank]).all()
            for launch in range(self.LAUNCHES)
            for rank in range(2)
            for s in range(2)
            for i in (1, 2)
        )

    def wrong_orders(self, text: str, late: tuple[int, ...] = (), **options: Any) -> int:
        """In how many of 12 orders rows or counters were wrong, without detectors of order."""
        wrong = 0
        for seed in range(12):
            try:
                wrong += not self.run(text, seed, late, checks=False, **options)
            except DeviceFault as fault:
                if fault.kind != "counter":
                    raise
                wrong += 1
        return wrong

    def race(self, text: str, late: tuple[int, ...] = ()) -> str:
        """The report of the detector of races, which has to see it in the first order."""
        with pytest.raises(DeviceFault) as raised:
            self.run(text, 0, late)
        assert raised.value.kind == "race"
        return str(raised.value)

    @pytest.mark.parametrize("late", [(), (0,), (1,)], ids=str)
    def test_right(self, late: tuple[int, ...]):
        assert self.refusal(self.TEXT) == ""
        for memory in ("strong", "weak"):
            assert all(self.run(self.TEXT, seed, late, memory=memory) for seed in range(10))

    def test_without_the_event(self):
        text = self.TEXT.replace(self.WAIT, "")
        message = self.refusal(text)
        assert message.startswith("verify-queues: @put2 (0) on rank 0 writes @recv on 0 [0, :, :]")
        assert "it may start before that has ended" in message
        assert self.wrong_orders(text) > 0
        report = self.race(text)
        assert re.search(r"in @\w+ \(\d\) on rank \d aiv\d\n  the other in @\w+ \(\d\)", report)
        assert "of @recv + " in report

    def test_with_an_event_of_another(self):
        """The second put waits for the peer's first, which says nothing of what it has taken."""
        wait = "  queue.wait @put2 (p) for @put1_done (p)\n"
        text = self.TEXT.replace(self.WAIT, wait)
        assert "verify-queues: @put2 (1) on rank 0 writes @recv on 1" in self.refusal(text)
        assert self.wrong_orders(text, (1,)) > 0
        assert "@put2" in self.race(text, (1,))

    def test_one_copy_for_all_launches(self):
        """Within a launch all is in order; the next one overwrites what a late rank has to take."""
        text = self.TEXT.replace("window copies 2 at", "window at")
        message = self.refusal(text)
        assert "@put1 (0) on rank 1 may write @recv on 0 [1, :, :] in launch n + 1" in message
        assert "while @take2 (1) on rank 0 has not read" in message
        assert self.wrong_orders(text, (1,)) > 0
        report = self.race(text, (1,))
        assert "@take2 (0) on rank 1" in report
        assert "@put1 (1) on rank 0" in report

    def test_a_signal_before_the_rows_are_there(self):
        """Right on a memory that keeps writes in order, wrong in some order on the chip's."""
        assert self.wrong_orders(self.TEXT, counters=[NO_BARRIER]) == 0
        assert self.wrong_orders(self.TEXT, counters=[NO_BARRIER], memory="weak") > 0
        with pytest.raises(DeviceFault, match=r"the signal at .* was sent before") as raised:
            self.run(self.TEXT, 0, counters=[NO_BARRIER])
        assert raised.value.kind == "drain"

    def test_two_counters_in_one_line(self):
        text = self.TEXT.replace("@take1_done (2) count 1 line 2", "@take1_done (2) count 1 line 1")
        message = self.refusal(text)
        assert "@take1_done" in message
        assert "@put1_done" in message
        assert "line 1" in message

    @pytest.mark.parametrize("line", [7, 100, 100_000])
    def test_lines_without_a_counter(self, line: int):
        """A pass that drops an event after `allocate-events` leaves lines that no counter has."""
        text = self.TEXT.replace(
            "@put2_done (2) count 1 line 4", f"@put2_done (2) count 1 line {line}"
        )
        assert self.refusal(text) == ""
        assert all(self.run(text, seed, memory="weak") for seed in range(3))

    @pytest.mark.parametrize(("core", "cores", "idle"), [("aic", 24, 24), ("aiv", 48, 40)])
    def test_more_workers_than_cores(
        self, core: str, cores: int, idle: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        """A core that does not exist never comes to its tasks: refused before anything is made."""
        text = self.TEXT.replace(f"[] times {idle}", f"[] times {idle + 1}")
        source, layer = tmp_path / "two_puts.mlir", tmp_path / "device.cpp"
        source.write_text(text)
        with pytest.raises(SystemExit) as stop:
            hpmoe_opt([str(source), "-t", "ascendc", "-o", str(layer)])
        assert stop.value.code == 1
        message = capsys.readouterr().err
        assert message.startswith(f"{source}:4:1: error: queue.program: ")
        assert f"'ascend-a3' has {cores} {core} cores, the order has {cores + 1}" in message
        assert not layer.exists()
