"""Faults that users of such systems have reported, each with its right and its wrong version.

Three watchers are asked: `verify-queues`, which sees the queue program; the CPU model, which sees
the generated code run; and the comparison of its results with the reference and between orders.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from compiled_layers import BACKWARD, PRESET, LayerTests, broken, failure, hpmoe, routed_by

from hpmoe_ir.frontends.build_layer import FUNCTION

NAMES_A_TASK = re.compile(r"@\w+ \([\d, ]*\)")
"""A family and a grid point."""


class TestRanksWithoutRows(LayerTests):
    """4 ranks, all tokens to experts 0 and 1 of rank 0: ranks 1 to 3 receive nothing."""

    SIZES = "--ranks 4 --experts 8 --tokens 4 --top-k 2 --hidden 32 --width 16"
    RUN = ["--direction", "both", "--launches", "2", "--check"]

    @pytest.mark.parametrize(
        "order", [["--interleavings", "15"], ["--late", "0"], ["--late", "1,2,3"]], ids=str
    )
    def test_right(self, order: list[str], layer: Path, capsys: pytest.CaptureFixture[str]):
        assert hpmoe("run", str(layer), "--routing", "one-expert", *self.RUN, *order) == 0
        out = capsys.readouterr().out
        assert "0 to 32 rows a rank" in out
        assert "check     passed" in out
        assert "gradients passed" in out

    @pytest.mark.parametrize(
        ("name", "reader"), [(FUNCTION, "weighted_sum"), (BACKWARD, "sum_copies")]
    )
    def test_empty_puts_that_nobody_counts(
        self,
        name: str,
        reader: str,
        layer: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ):
        credit = "CreditReturnDone(env);"
        wrong = broken(layer, tmp_path / "layer", name, "BuildRoute", credit, "")
        assert hpmoe("run", str(wrong), "--edited-code", "--routing", "balanced", *self.RUN) == 0
        message = failure(
            capsys, "run", str(wrong), "--edited-code", "--routing", "one-expert", *self.RUN
        )
        assert "deadlock: no core can run" in message
        assert re.search(
            rf"@{reader} \(\d\) on rank 1 aiv\d+ waits for event 0 of @return_done: \d signals so "
            r"far, 8 in each launch; signalled by 8 tasks, such as @return \(0, \d, 0\) on rank "
            r"\d; @build_route on rank 1 counts those without rows",
            message,
        ), message


class TestCountersOfLaterLaunches(LayerTests):
    """The same routing three times with other values, one rank as late as it can be."""

    SIZES = "--ranks 3 --experts 6 --tokens 6 --top-k 2 --hidden 32 --width 16"

    @pytest.fixture
    def run(self, tmp_path: Path) -> list[str]:
        rng = np.random.default_rng(3)
        ids = [np.argsort(rng.random((t, 6)), axis=1)[:, :2].astype(np.int32) for t in (6, 2, 5)]
        options = ["--launches", "3", "--direction", "both", "--check", "--interleavings", "4"]
        return [*routed_by(tmp_path / "routing.npz", ids), *options]

    @pytest.mark.parametrize("late", ["0", "1", "2", "0,2"])
    def test_right(self, late: str, layer: Path, run: list[str]):
        assert hpmoe("run", str(layer), *run, "--late", late) == 0

    @pytest.mark.parametrize("name", [FUNCTION, BACKWARD])
    def test_counters_that_start_at_what_the_last_launch_left(
        self,
        name: str,
        layer: Path,
        run: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ):
        """Each launch waits for its thresholds once, as if the counters had been reset to 0."""
        wrong = broken(layer, tmp_path / "layer", name, name, "tokens, launch)", "tokens, 1)")
        message = failure(capsys, "run", str(wrong), "--edited-code", *run, "--late", "1")
        assert "uninitialised: " in message
        assert "was never written in this launch" in message
        assert NAMES_A_TASK.search(message)


@pytest.mark.usefixtures("planted_faults")
class TestThresholds:
    """A fan-in threshold one too high, and one too low."""

    SIZES = "--ranks 2 --experts 4 --tokens 6 --hidden 32 --width 16".split()

    def command(self, event: str, by: int, *words: str) -> list[str]:
        """A run with the threshold of an event changed by so much."""
        passes = f"lower-moe{{source-groups=2}},change-threshold{{event={event} by={by}}}"
        if "--verify" in words:
            passes += ",verify-queues"
        options = [w for w in words if w != "--verify"]
        return ["run", *PRESET, *self.SIZES, "-p", passes, "--launches", "2", *options]

    def test_right(self):
        words = self.command("return_done", 0, "--verify", "--check", "--interleavings", "20")
        assert hpmoe(*words) == 0

    @pytest.mark.parametrize(
        ("event", "by", "found"),
        [
            ("return_done", 1, "has threshold 5, 4 tasks signal it, such as @return (0, 0, 0) "),
            ("return_done", -1, "has threshold 3, 4 tasks signal it, such as @return (0, 0, 0) "),
            ("dispatch_done", 1, "has threshold 2, @dispatch (0, 0, 0) on rank 0 signals it"),
        ],
    )
    def test_refused(self, event: str, by: int, found: str, capsys: pytest.CaptureFixture[str]):
        message = failure(capsys, *self.command(event, by, "--verify"))
        assert f"error: verify-queues: @{event}[" in message
        assert found in message
        end = "would wait for ever" if by > 0 else "may start before all of them have ended"
        assert end in message

    @pytest.mark.parametrize("level", ["queue", "code"])
    def test_too_high_hangs(self, level: str, capsys: pytest.CaptureFixture[str]):
        message = failure(capsys, *self.command("return_done", 1, "--level", level))
        assert "deadlock: " in message
        assert re.search(
            r"@weighted_sum \(0\) on rank [01] .*waits for event 0 of @?return_done", message
        )

    def test_too_low_is_counted(self, capsys: pytest.CaptureFixture[str]):
        message = failure(capsys, *self.command("return_done", -1, "--level", "queue"))
        assert re.search(
            r"@return \([\d, ]+\) on rank [01] signals event 0 of return_done on rank [01] once "
            "more than its threshold 3",
            message,
        )

    def test_too_low_reads_early(self, capsys: pytest.CaptureFixture[str]):
        """Rows that are not back yet; in other orders the counter exceeds its threshold first."""
        message = failure(capsys, *self.command("return_done", -1, "--order-seed", "3"))
        assert "uninitialised: " in message
        assert re.search(
            r"in @weighted_sum \(\d\) on rank \d aiv\d+\n  at @back \+ \d+ of", message
        )


class TestAnExpertThatNobodyChose(LayerTests):
    """1 and 5 tokens, expert 2 of 4 never chosen, outputs full of NaN before each step."""

    SIZES = "--ranks 2 --experts 4 --tokens 5 --top-k 1 --hidden 32 --width 16"

    @pytest.fixture
    def run(self, tmp_path: Path) -> list[str]:
        ids = [np.array([[0]], np.int32), np.array([[1], [3], [0], [1], [3]], np.int32)]
        options = ["--direction", "both", "--launches", "2", "--check"]
        return [*routed_by(tmp_path / "routing.npz", ids), *options]

    def test_right(self, layer: Path, run: list[str], capsys: pytest.CaptureFixture[str]):
        assert hpmoe("run", str(layer), *run, "--interleavings", "10") == 0
        assert "gradients passed" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("function", "result", "buffer"),
        [("WeightGradient", "down_weights", "dw2"), ("WeightGradient1", "up_weights", "dw13")],
    )
    def test_an_empty_product_that_is_left_out(
        self,
        function: str,
        result: str,
        buffer: str,
        layer: Path,
        run: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ):
        call = "hpmoe::WeightGradient<"
        wrong = broken(
            layer, tmp_path / "layer", BACKWARD, function, call, f"if (rows0.count != 0) {call}"
        )
        message = failure(capsys, "run", str(wrong), "--edited-code", *run)
        assert "gradients failed: launch 1: " in message
        assert f"rank 1, gradient of {result}[0, 0, 0]: expected 0, found nan, against" in message
        assert f"(0, 0, 0) on rank 1: @{buffer}, [0, 0] of its tile" in message
