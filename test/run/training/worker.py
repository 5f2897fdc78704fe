"""One process of a distributed run; `test_processes.py` starts it by msrun.

    python worker.py DIRECTORY

DIRECTORY has `case.json`, what to do, and `machine.toml`; each process writes `rank-R.npz` there,
or `rank-R.txt` with the error that it has ended with.
"""

# pyright: basic
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("GLOG_v", "3")
sys.path.insert(0, str(Path(__file__).parents[2]))

import mindspore as ms
import numpy as np
from mindspore import Tensor
from mindspore.communication import GlobalComm, create_group, get_group_size, get_rank, init
from moe_net import HIDDEN, TwoLayers, micro_batch, own_experts

DIRECTORY = Path(sys.argv[1])


class Sums(ms.nn.Cell):
    """The sum of two micro-batches' losses: both forward calls come before the backward calls."""

    def __init__(self, net: TwoLayers) -> None:
        super().__init__()
        self.net = net

    def construct(self, x, target, counts, x2, target2, counts2):
        return self.net.loss(x, target, counts) + self.net.loss(x2, target2, counts2)


def step(case: dict, group: str, rank: int, ranks: int, batch: int) -> dict[str, np.ndarray]:
    """Runs a step of two micro-batches with each setting; returns gradients by setting and name."""
    found = {}
    for recompute in case["recompute"]:
        net = TwoLayers(
            width=16,
            tokens=16,
            ep_group=group,
            dtype=ms.float16,
            schedule="depth-first",
            machine=str(DIRECTORY / "machine.toml"),
            recompute=tuple(recompute),
            wait_seconds=case["wait_seconds"],
        )
        own_experts(net, rank, ranks)
        parameters = net.trainable_params()
        names = [parameter.name for parameter in parameters]
        calls = [micro_batch(batch, micro, case["tokens"][micro][batch]) for micro in range(2)]
        if case["outstanding"]:
            sums = Sums(net)
            gradients = ms.grad(sums, None, parameters)(*calls[0], *calls[1])
        else:
            each = [ms.grad(net.loss, None, parameters)(*call) for call in calls]
            gradients = [a + b for a, b in zip(*each, strict=True)]
        for name, gradient in zip(names, gradients, strict=True):
            found[f"{','.join(recompute)}/{name}"] = gradient.asnumpy()
        for experts in net.experts:
            experts.close()
    return found


class RankErrors(Exception):
    """What went wrong on a rank, a line for each launch."""


def fault(case: dict, group: str, rank: int) -> None:
    """Does what the case says goes wrong on one rank; all ranks then launch."""
    which = case["fault"]
    odd = rank == case["fault_rank"]
    net = TwoLayers(
        width=16,
        tokens=16,
        ep_group=group,
        dtype=ms.float16,
        schedule="depth-first",
        machine=str(DIRECTORY / "machine.toml"),
        recompute=("swiglu",) if which == "other kernels" and odd else (),
        capacity=30 if which == "capacity" else None,
        wait_seconds=case["wait_seconds"],
    )
    own_experts(net, rank, get_group_size(group))
    call = micro_batch(rank, 0, 8)
    net.loss(*call).asnumpy()
    if odd and which == "sleeps":
        time.sleep(3 * case["wait_seconds"])
    if odd and which == "dies":
        os._exit(9)
    experts = net.first.experts
    ids = [2, 3] if which == "capacity" else [0, 2]
    rows = 40 if odd and which == "too many tokens" else 13
    x, gates = Tensor(np.ones((rows, HIDDEN), np.float32)), Tensor(np.ones((rows, 2), np.float32))
    errors = []
    for again in (ids, [0, 2]):
        try:
            out = experts(x, Tensor(np.tile(np.array(again, np.int32), (rows, 1))), gates)
            errors.append(f"right {np.isfinite(out.asnumpy()).all()}")
        except Exception as error:
            errors.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")
    raise RankErrors("\n".join(errors))


def main() -> None:
    case = json.loads((DIRECTORY / "case.json").read_text())
    init("mccl")
    rank, size = get_rank(), get_group_size()
    ms.set_context(mode=ms.GRAPH_MODE if case["mode"] == "graph" else ms.PYNATIVE_MODE)
    ranks = case["ranks"]
    group, first = GlobalComm.WORLD_COMM_GROUP, rank // ranks * ranks
    if ranks < size:
        group = f"experts-{first}"
        create_group(group, list(range(first, first + ranks)))
    try:
        if case["fault"]:
            fault(case, group, rank)
        else:
            found = step(case, group, rank - first, ranks, rank)
            with (DIRECTORY / f"partial-{rank}").open("wb") as file:
                np.savez(file, **found)
            Path(file.name).replace(DIRECTORY / f"rank-{rank}.npz")
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        partial = DIRECTORY / f"partial-{rank}"
        partial.write_text(str(error) if isinstance(error, RankErrors) else text)
        partial.replace(DIRECTORY / f"rank-{rank}.txt")


if __name__ == "__main__":
    main()
