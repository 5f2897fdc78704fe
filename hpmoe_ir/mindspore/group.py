"""Groups of MindSpore whose processes share the experts of a layer."""

# pyright: basic
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import hashlib
import socket
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.communication import (
    GlobalComm,
    get_group_size,
    get_rank,
    get_world_rank_from_group_rank,
)

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.training.compiled import CompiledExperts, LayerRequest
from hpmoe_ir.training.group_launch import GroupLauncher
from hpmoe_ir.training.meeting import Meeting, check_same_kernels, new_directory
from hpmoe_ir.training.shared import SharedLauncher, shared_launcher

DIGEST_BYTES = hashlib.sha256().digest_size
PATH_BYTES = 192


def group_launcher(request: LayerRequest, group: str, wait_seconds: float) -> SharedLauncher:
    """Returns a use of the launcher of the rank of this process in a group.

    All processes must call it in the same order, each for its group: the ranks of a group compare
    the kernels that they would run, by an AllGather of MindSpore, before anything is launched.
    Raises DifferentKernelsError on all ranks if these differ, InputError if the processes are on
    several hosts.
    """

    def make(experts: CompiledExperts) -> GroupLauncher:
        rank, ranks = get_rank(group), get_group_size(group)
        path = str(new_directory()) if rank == 0 else ""
        words = _words(experts.digest, path)
        world = [get_world_rank_from_group_rank(group, other) for other in range(ranks)]
        rows = _gathered(words)[world].astype(np.uint8)
        digests = [row[:DIGEST_BYTES].tobytes().hex() for row in rows]
        check_same_kernels(digests)
        hosts = [row[DIGEST_BYTES : 2 * DIGEST_BYTES].tobytes() for row in rows]
        for other, host in enumerate(hosts):
            if host != hosts[0]:
                raise InputError(
                    f"backend 'cpu-model': expected all ranks of {group} on one host, rank {other} "
                    "is on another than rank 0"
                )
        directory = Path(rows[0, 2 * DIGEST_BYTES :].tobytes().rstrip(b"\0").decode())
        return GroupLauncher(experts, Meeting(directory, rank, ranks, wait_seconds))

    return shared_launcher(request, group, make)


def _words(digest: str, path: str) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Returns what a rank tells the others: digests of its kernels and host, the directory."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    name = socket.gethostname() + (boot.read_text() if boot.is_file() else "")
    text = bytes.fromhex(digest) + hashlib.sha256(name.encode()).digest() + path.encode()
    padded = text.ljust(2 * DIGEST_BYTES + PATH_BYTES, b"\0")
    return np.frombuffer(padded, np.uint8).astype(np.int32)


def _gathered(words: np.ndarray[Any, np.dtype[np.int32]]) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Returns the words of each process; on a CPU, MindSpore gathers in the world group only."""
    mode = ms.get_context("mode")
    try:
        ms.set_context(mode=ms.PYNATIVE_MODE)
        found: Any = ops.AllGather(group=GlobalComm.WORLD_COMM_GROUP)(Tensor(words))
        return found.asnumpy().reshape(get_group_size(), -1)
    finally:
        ms.set_context(mode=mode)
