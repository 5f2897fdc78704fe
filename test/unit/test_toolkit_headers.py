"""Device code against the real headers, where checkouts of them are at hand.

Set HPMOE_ASC_DEVKIT and HPMOE_SHMEM to the checkouts of asc-devkit and shmem.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECK = ROOT / "test" / "toolkit" / "type_check.py"
SOURCES = sorted((ROOT / "test" / "unit").glob("*/*.cpp"))


@pytest.fixture(scope="module")
def toolkit() -> list[str]:
    """Options that name the checkouts."""
    asc, shmem = os.environ.get("HPMOE_ASC_DEVKIT"), os.environ.get("HPMOE_SHMEM")
    if not asc or not shmem:
        pytest.skip("HPMOE_ASC_DEVKIT and HPMOE_SHMEM do not name checkouts of the headers")
    return ["--asc", asc, "--shmem", shmem]


def check(options: list[str], *sources: Path) -> subprocess.CompletedProcess[str]:
    include = ["--include", str(ROOT / "hpmoe_ir" / "runtime" / "device")]
    command = [sys.executable, str(CHECK), *options, *include, *map(str, sources)]
    return subprocess.run(command, capture_output=True, text=True)


def test_device_code_type_checks(toolkit: list[str]):
    """Every program of the tests, which call every tile kernel, as vector and as cube code."""
    done = check(toolkit, *SOURCES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": 0 errors") == 2 * len(SOURCES)


@pytest.mark.parametrize(
    "statement, message",
    [
        ("frobnicate(f);", "'frobnicate' was not declared"),
        ("Adds(f, f, 1, 64);", "no matching function for call to 'Adds("),
        ("DataCopy(f, g, Nd2NzParams(1, 2));", "no matching function for call to 'AscendC::Nd2Nz"),
    ],
)
def test_the_check_sees_mistakes(toolkit: list[str], tmp_path: Path, statement: str, message: str):
    """Names and signatures that do not exist."""
    source = tmp_path / "kernel.cpp"
    source.write_text(
        '#include "kernel_operator.h"\nusing namespace AscendC;\n'
        "void kernel(LocalTensor<float> f, GlobalTensor<float> g) {\n"
        f"  {statement}\n}}\n"
    )
    done = check(toolkit, source)
    assert done.returncode == 1
    assert message in done.stderr
