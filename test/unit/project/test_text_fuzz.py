"""Mutated inputs in small, and a fuzzer that sees what is broken on purpose."""

from __future__ import annotations

import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from text_fuzz import __main__ as fuzz
from text_fuzz import watch
from text_fuzz.seeds import Seeds
from text_fuzz.watch import PREVIOUS, Case, Ending, run_apart, run_here

from hpmoe_ir.dialects.queue import ProgramOp

TEST = Path(__file__).parents[2]
GOOD = b'queue.program @p ranks 1 machine "ascend-a3" {\n}\n'
CASE = Case("queue", "hpmoe-opt", ("in.mlir", "-o", "out"), {"in.mlir": GOOD}, "", "out")
REFUSED = Case(
    "queue",
    "hpmoe-opt",
    ("in.mlir", "-o", "out"),
    {"in.mlir": GOOD.replace(b"1 machine", b"0 machine"), "out": PREVIOUS},
    "",
    "out",
    place=r"in\.mlir:1:1: error: ",
)


def test_good_and_refused_inputs_are_in_order(tmp_path: Path):
    for run in (run_here, run_apart):
        assert run(CASE, tmp_path).problems == []
        ending = run(REFUSED, tmp_path)
        assert (ending.status, ending.problems) == (1, [])


def test_a_full_disk_is_the_same_in_a_process_of_its_own(tmp_path: Path):
    for run in (run_here, run_apart):
        for limit, status in ((10, 1), (10000, 0)):
            ending = run(replace(CASE, file_limit=limit), tmp_path)
            assert (ending.status, ending.problems) == (status, [])


def test_a_traceback_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def verify(self: ProgramOp) -> NoReturn:
        raise IndexError("planted")

    monkeypatch.setattr(ProgramOp, "verify_", verify)
    (problem,) = run_here(CASE, tmp_path).problems
    assert problem.startswith("traceback: IndexError: planted")


def test_a_hang_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def verify(self: ProgramOp) -> None:
        while True:
            pass

    monkeypatch.setattr(ProgramOp, "verify_", verify)
    monkeypatch.setattr(watch, "SECONDS", 0.2)
    (problem,) = run_here(CASE, tmp_path).problems
    assert problem.startswith("hang: ")


def test_waiting_for_a_loaded_machine_is_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def verify(self: ProgramOp) -> None:
        time.sleep(1.5)

    monkeypatch.setattr(ProgramOp, "verify_", verify)
    monkeypatch.setattr(watch, "SECONDS", 1.0)
    assert run_here(CASE, tmp_path).problems == []


@pytest.mark.parametrize("asleep", [True, False])
def test_a_worker_that_no_signal_reaches_is_seen(
    monkeypatch: pytest.MonkeyPatch, asleep: bool
) -> None:
    def work(*args: object) -> None:
        while True:
            time.sleep(60 * asleep)

    monkeypatch.setattr(fuzz, "_work", work)
    monkeypatch.setattr(fuzz, "ASLEEP", 0.5 if asleep else 1e9)
    monkeypatch.setattr(fuzz, "SECONDS", 0.02)
    worker = fuzz.Worker(Seeds(), Namespace(), [1])
    try:
        while not (problem := worker.hang()):
            time.sleep(0.05)
    finally:
        worker.process.kill()
    assert problem == ("asleep for 0.5 s" if asleep else "no signal reaches it")


def run_main(
    monkeypatch: pytest.MonkeyPatch,
    directory: Path,
    case: Case,
    files: dict[str, str],
    text: str,
    status: int = 1,
) -> Ending:
    """A case whose command writes `files` and `text`, and fails, or has another status."""

    def main(args: Sequence[str]) -> None:
        for name, content in files.items():
            Path(name).write_text(content)
        print(text, file=sys.stderr)
        sys.exit(status)

    monkeypatch.setitem(watch.MAINS, "hpmoe-opt", main)
    return run_here(case, directory)


MESSAGE = "in.mlir:1:1: error: planted"


@pytest.mark.parametrize(
    ("case", "files", "text", "problem"),
    [
        (CASE, {"out": "half"}, MESSAGE, "status 1, and left out"),
        (CASE, {".out.tmp": "half"}, MESSAGE, "status 1, and left .out.tmp"),
        (REFUSED, {"out": "half"}, MESSAGE, "status 1, and changed out"),
        (CASE, {}, "", "status 1 without a message"),
        (CASE, {}, "error: unexpected IndexError: x", "an unexpected error: "),
        (CASE, {}, "it went wrong", "no message: 'it went wrong'"),
        (REFUSED, {}, "error: planted", "no place: 'error: planted'"),
    ],
)
def test_what_a_failed_command_leaves_is_seen(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: Case,
    files: dict[str, str],
    text: str,
    problem: str,
):
    (found,) = run_main(monkeypatch, tmp_path, case, files, text).problems
    assert found.startswith(problem)


ALL_OR_NONE = Case(
    "simulate", "hpmoe-opt", ("in.mlir",), {"b": PREVIOUS}, "", more_outputs=("a", "b")
)


@pytest.mark.parametrize(
    ("status", "files", "problems"),
    [
        (0, {"a": "new", "b": "new"}, []),
        (0, {"a": "new"}, ["status 0, and nothing in b"]),
        (0, {"b": "new"}, ["status 0, and nothing in a"]),
        (1, {}, []),
        (1, {"a": "new"}, ["status 1, and left a"]),
        (1, {"b": "new"}, ["status 1, and changed b"]),
    ],
)
def test_one_of_several_outputs_is_seen(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    files: dict[str, str],
    problems: list[str],
):
    text = MESSAGE if status else ""
    found = run_main(monkeypatch, tmp_path, ALL_OR_NONE, files, text, status)
    assert found.problems == problems


def test_a_failed_command_that_leaves_nothing_is_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert run_main(monkeypatch, tmp_path, CASE, {}, MESSAGE).problems == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["--cases", "400", "--without", "table", "--apart", "100"],
        ["--cases", "40", "--kind", "simulate", "--apart", "20"],
        ["--cases", "20", "--kind", "tune", "--apart", "20"],
    ],
)
def test_some_mutated_inputs(words: list[str]):
    command = [sys.executable, "-m", "text_fuzz", "--seed", "1", *words]
    done = subprocess.run(command, cwd=TEST, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
