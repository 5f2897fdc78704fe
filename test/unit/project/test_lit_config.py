"""The lit configuration refuses a test file that compares nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FILECHECK = Path(__file__).parents[2] / "filecheck"


def run_lit(folder: Path, text: str) -> str:
    (folder / "case.test").write_text(text)
    for name in ("lit.cfg", "rejected.py", "checked_format.py"):
        (folder / name).symlink_to(FILECHECK / name)
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from lit.main import main; main()",
            "-v",
            str(folder / "case.test"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    return run.stdout + run.stderr


def test_a_file_that_compares_nothing_is_refused(tmp_path: Path):
    found = run_lit(tmp_path, "// RUN: echo hello\n")
    assert "UNRESOLVED: hpmoe_ir :: case.test" in found
    assert (
        "no RUN line compares output: pipe into filecheck or diff, or say 'UNCHECKED-TEST: reason'"
    ) in found


def test_a_marked_file_runs(tmp_path: Path):
    found = run_lit(tmp_path, "// RUN: echo hello\n// UNCHECKED-TEST: shows the marker\n")
    assert "PASS: hpmoe_ir :: case.test" in found


def test_a_command_that_accepts_its_input_is_no_rejection(tmp_path: Path):
    found = run_lit(tmp_path, "// RUN: REJECTED echo hello | filecheck %s\n// CHECK-NOT: x\n")
    assert "FAIL: hpmoe_ir :: case.test" in found
    assert "expected exit status 1, found 0" in found
