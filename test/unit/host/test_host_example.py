"""The example program of a host project, run against fakes: buffers from and to files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from .conftest import HostBuild

TOKENS = 5
SIZES = {"x": TOKENS * 128, "ids": TOKENS * 8, "gate": TOKENS * 8, "w13": 16384, "w2": 8192}
"""Bytes of the inputs."""

PAGE = 2 << 20


def inputs(folder: Path, **sizes: int) -> Path:
    """A data directory with inputs for rank 1, some of other sizes."""
    own = folder / "rank1"
    own.mkdir()
    for name, size in (SIZES | sizes).items():
        (own / f"{name}.bin").write_bytes(bytes(size))
    return folder


def run(
    host_build: HostBuild, *arguments: str, fail: str = "", **environment: str
) -> tuple[int, list[str], str]:
    """Exit status, record of the fakes, standard error."""
    variables = {k: v for k, v in os.environ.items() if k not in ("RANK_ID", "FAKE_CANN_FAIL")}
    variables |= environment
    if fail:
        variables["FAKE_CANN_FAIL"] = fail
    done = subprocess.run(
        [host_build.example, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=host_build.folder,
        env=variables,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_one_launch_from_files_to_files(host_build: HostBuild, tmp_path: Path):
    data = inputs(tmp_path)
    status, record, errors = run(host_build, str(data), "--address", "tcp://h:1", RANK_ID="1")
    assert (status, errors) == (0, "")
    heap = -(-(host_build.program.window_bytes + 512) // PAGE) * PAGE
    assert record[:3] == [
        "aclInit",
        "aclrtSetDevice 1",
        f"aclshmemx_init_attr 1 of 2 at tcp://h:1 {heap}",
    ]
    kernel = next(line for line in record if line.startswith("kernel"))
    assert kernel == (
        "kernel launch=1 tokens=5 x=mem1 ids=mem2 gate=mem3 w13=mem4 w2=mem5 out=mem6 "
        "status=mem10 table=mem8 workspace=mem9 windows=symmetric11"
    )
    assert record[-3:] == ["aclshmem_finalize", "aclrtResetDevice 1", "aclFinalize"]
    uploads = [line for line in record if line.startswith("aclrtMemcpy") and " to mem" in line]
    assert uploads[:5] == [
        f"aclrtMemcpy {size} of {size} to mem{i}" for i, size in enumerate(SIZES.values(), start=1)
    ]
    assert everything_freed(record)
    # No kernel has written the output, so it has the content of fresh device memory, 0xA5.
    out = np.fromfile(data / "rank1" / "out.bin", dtype=np.uint8)
    assert out.size == TOKENS * 128
    assert (out == 0xA5).all()


def everything_freed(record: list[str]) -> bool:
    """Returns whether all device memory was freed."""
    made = {line.split()[-1] for line in record if line.startswith("  is ")}
    calls = ("aclrtFree ", "aclshmem_free ", "aclrtDestroyStream ")
    freed = {line.split()[1] for line in record if line.startswith(calls)}
    return bool(made) and made == freed


def test_a_rank_without_tokens(host_build: HostBuild, tmp_path: Path):
    data = inputs(tmp_path, x=0, ids=0, gate=0)
    status, record, errors = run(host_build, str(data), "--rank", "1", "--device", "4")
    assert (status, errors) == (0, "")
    assert record[1] == "aclrtSetDevice 4"
    kernel = next(line for line in record if line.startswith("kernel"))
    assert "tokens=0 x=null ids=null gate=null w13=mem1 w2=mem2 out=null" in kernel
    assert (data / "rank1" / "out.bin").read_bytes() == b""


FAILURES: list[tuple[str, list[str]]] = [
    ("aclInit", []),
    ("aclrtSetDevice", ["aclFinalize"]),
    ("aclshmemx_init_attr", ["aclrtResetDevice 1", "aclFinalize"]),
    ("aclrtCreateStream", ["aclshmem_finalize", "aclrtResetDevice 1", "aclFinalize"]),
    ("aclrtMalloc", ["aclshmem_finalize", "aclrtResetDevice 1", "aclFinalize"]),
    ("aclrtMemset", ["aclshmem_finalize", "aclrtResetDevice 1", "aclFinalize"]),
    ("aclrtSynchronizeStream", ["aclshmem_finalize", "aclrtResetDevice 1", "aclFinalize"]),
    ("aclshmem_finalize", ["aclrtResetDevice 1", "aclFinalize"]),
    ("aclrtResetDevice", ["aclFinalize"]),
    ("aclFinalize", []),
]


@pytest.mark.parametrize(("call", "undone"), FAILURES)
def test_a_failing_call_ends_it_in_order(
    host_build: HostBuild, tmp_path: Path, call: str, undone: list[str]
):
    data = inputs(tmp_path)
    status, record, errors = run(host_build, str(data), "--rank", "1", fail=f"{call} 507 0")
    assert status == 1
    assert errors.startswith("error: ")
    assert len(errors.splitlines()) == 1
    assert call in errors
    assert "507" in errors
    failed = next(i for i, line in enumerate(record) if line.endswith(" fails"))
    after = [line for line in record[failed + 1 :] if line in FAILURES[3][1]]
    assert after == undone
    if any(line.startswith("  is ") for line in record):
        assert everything_freed(record)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"x": 130}, "rank1/x.bin: expected rows of 128 bytes, found 130 bytes"),
        ({"ids": 41}, "rank1/ids.bin: expected 40 bytes, found 41"),
        ({"w2": 8190}, "rank1/w2.bin: expected 8192 bytes, found 8190"),
        ({"x": 65 * 128, "ids": 65 * 8, "gate": 65 * 8}, "expected at most 64 tokens, found 65"),
    ],
)
def test_inputs_that_do_not_fit(
    host_build: HostBuild, tmp_path: Path, sizes: dict[str, int], text: str
):
    status, record, errors = run(host_build, str(inputs(tmp_path, **sizes)), "--rank", "1")
    assert status == 1
    assert errors.endswith(f"{text}\n")
    assert record[-1] == "aclFinalize"
    assert not (tmp_path / "rank1" / "out.bin").exists()


def test_a_missing_file(host_build: HostBuild, tmp_path: Path):
    status, record, errors = run(host_build, str(tmp_path), "--rank", "1")
    assert (status, record[-1]) == (1, "aclFinalize")
    assert errors == f"error: {tmp_path}/rank1/x.bin: can't be opened\n"


LONG = "t" * 64


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "expected the directory of the buffers"),
        (["a", "b"], "expected one directory, found also 'b'"),
        (["a", "--ranks", "2"], "unknown option '--ranks'"),
        (["a", "--rank"], "--rank: expected a value after it"),
        (["a", "--rank", "1x"], "rank: expected a number, found '1x'"),
        (["a", "--device", "-1"], "device: expected a number, found '-1'"),
        (["a", "--address", LONG], f"address: expected less than 64 characters, found '{LONG}'"),
    ],
)
def test_a_wrong_command_line(host_build: HostBuild, arguments: list[str], text: str):
    status, record, errors = run(host_build, *arguments)
    assert (status, record) == (1, [])
    assert errors == f"error: {text}\n"
