"""Ranks that are processes, started by msrun: gradients, and errors that end or don't end a job."""

# pyright: basic
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportOptionalIterable=false, reportOptionalMemberAccess=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor
from moe_net import FEW_CORES, TwoLayers, micro_batch, own_experts

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("worker.py")
MSRUN = Path(sys.executable).with_name("msrun")
SECONDS = 100


def msrun(directory: Path, processes: int, **case) -> None:
    """Runs a case in as many processes; each leaves its result in the directory."""
    settings = {
        "ranks": processes,
        "mode": "pynative",
        "tokens": [[8] * processes] * 2,
        "recompute": [[]],
        "outstanding": False,
        "wait_seconds": 30,
        "fault": "",
        "fault_rank": 1,
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "machine.toml").write_text(FEW_CORES)
    (directory / "case.json").write_text(json.dumps(settings | case))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [MSRUN, f"--worker_num={processes}", f"--local_worker_num={processes}"]
    command += [f"--master_port={port}", f"--log_dir={directory / 'log'}", "--join=True"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MS_", "RANK_"))}
    path = f"{MSRUN.parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.Popen(
        [*command, WORKER, directory],
        cwd=directory,
        env=environment | {"GLOG_v": "3", "OMP_NUM_THREADS": "1", "PATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + SECONDS
    live = set(range(processes)) - ({1} if case.get("fault") == "dies" else set())
    try:
        while time.monotonic() < end and run.poll() is None:
            if all(any(directory.glob(f"rank-{rank}.*")) for rank in live):
                break
            time.sleep(0.05)
    finally:
        # MindSpore waits half a minute for processes that have not ended as they should.
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def gradients(directory: Path, rank: int) -> dict[str, np.ndarray]:
    text = directory / f"rank-{rank}.txt"
    assert not text.exists(), text.read_text()
    with np.load(directory / f"rank-{rank}.npz") as file:
        return dict(file)


def expected(batches: range, tokens) -> dict[str, np.ndarray]:
    """Gradients of one process of plain MindSpore, for the tokens of some ranks."""
    ms.set_context(mode=ms.GRAPH_MODE)
    net = TwoLayers(width=16, tokens=16, dtype=ms.float16, backend="reference")
    own_experts(net, 0, 1)
    parameters = net.trainable_params()
    total = []
    for micro, counts in enumerate(tokens):
        parts = [micro_batch(rank, micro, counts[rank]) for rank in batches if counts[rank]]
        x, target = (Tensor(np.concatenate([p[i].asnumpy() for p in parts])) for i in range(2))
        count = Tensor(np.array([len(x)], np.int32))
        total.append([g.asnumpy() for g in ms.grad(net.loss, None, parameters)(x, target, count)])
    return {p.name: a + b for p, a, b in zip(parameters, *total, strict=True)}


def assert_gradients(directory: Path, ranks: int, groups: int, tokens, settings) -> None:
    for group in range(groups):
        batches = range(group * ranks, (group + 1) * ranks)
        plain = expected(batches, tokens)
        found = [gradients(directory, rank) for rank in batches]
        for name, array in plain.items():
            key = f"{settings[0]}/{name}"
            parts = [own[key] for own in found]
            whole = np.concatenate(parts) if "weight" in name else sum(parts)
            np.testing.assert_allclose(
                whole, array, atol=4e-3 * np.abs(array).max(), err_msg=f"{name} of group {group}"
            )
            for other in settings[1:]:
                for own in found:
                    np.testing.assert_array_equal(own[f"{other}/{name}"], own[key])


@pytest.mark.parametrize(
    "processes, ranks, mode",
    [(2, 2, "pynative"), (2, 2, "graph"), (4, 2, "graph"), (4, 4, "pynative")],
)
def test_gradients(tmp_path: Path, processes: int, ranks: int, mode: str) -> None:
    """Uneven tokens, none on a rank, two micro-batches, outstanding, recomputed or not."""
    tokens = [[13, 0, 7, 5][:processes], [3, 9, 0, 16][:processes]]
    msrun(
        tmp_path,
        processes,
        ranks=ranks,
        mode=mode,
        tokens=tokens,
        outstanding=mode == "graph",
        recompute=[[], ["swiglu", "up"]],
    )
    assert_gradients(tmp_path, ranks, processes // ranks, tokens, ["", "swiglu,up"])


def errors(directory: Path, rank: int) -> list[str]:
    return (directory / f"rank-{rank}.txt").read_text().splitlines()


def test_other_kernels_on_a_rank(tmp_path: Path) -> None:
    """All ranks end with the same message before anything is launched."""
    msrun(tmp_path, 2, fault="other kernels")
    (first,), (second,) = errors(tmp_path, 0), errors(tmp_path, 1)
    assert first == second
    start = "DifferentKernelsError: expected the same kernels on all ranks of the group, found "
    assert first.startswith(start)
    assert " on rank 0; " in first or " on rank 1; " in first


def test_over_capacity(tmp_path: Path) -> None:
    """Every rank raises with the rank and its rows; the next launch is right."""
    msrun(tmp_path, 2, fault="capacity")
    for rank in range(2):
        assert errors(tmp_path, rank) == [
            "CapacityError: rank 1 would receive 52 rows, its capacity is 30 rows; every rank "
            "stopped before anything was sent",
            "right True",
        ]


STOPPED = {
    "sleeps": "rank 0 has waited 2 s for the forward launch 3 of rank 1",
    "dies": "rank 1 has ended, rank 0 was waiting for its forward launch 3",
    "too many tokens": "rank 1: rank 0: expected at most 16 tokens, for which the kernels are "
    "made, found 40",
}


@pytest.mark.parametrize("fault", STOPPED)
def test_a_rank_that_does_not_launch(tmp_path: Path, fault: str) -> None:
    """All ranks that live end with one message, and refuse a later launch."""
    msrun(tmp_path, 4 if fault == "dies" else 2, fault=fault, wait_seconds=2)
    expected = f"GroupStoppedError: the ranks have stopped: {STOPPED[fault]}"
    assert errors(tmp_path, 0) == [expected] * 2
    if fault != "dies":
        assert errors(tmp_path, 1)[-1] == expected
