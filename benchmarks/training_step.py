"""The time of a step of the module of experts, beside that of its kernels on the CPU model.

    python benchmarks/training_step.py [--tokens 1024] [--steps 5]

A step is a forward and a backward call of `hpmoe_ir.mindspore.HpMoeExperts`. The kernels' time is
that of the processes in which they run. Prints both, medians over the steps, and their ratio.
"""

# pyright: basic
# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportArgumentType=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from typing import Any

# Read when MindSpore is imported: only errors are logged.
os.environ.setdefault("GLOG_v", "3")

import mindspore as ms
import numpy as np
from mindspore import Tensor

from hpmoe_ir.mindspore import HpMoeExperts
from hpmoe_ir.runtime import cpu_model

HIDDEN, WIDTH, EXPERTS, TOP_K, RANKS = 256, 128, 8, 2, 2


def main() -> None:
    """Times the steps in both modes."""
    parser = argparse.ArgumentParser(description="Times a step of the module of experts.")
    parser.add_argument("--tokens", type=int, default=1024, help="tokens of each of two ranks")
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    seconds: list[float] = []
    start_process = cpu_model.subprocess.run

    def timed(*words: Any, **options: Any) -> Any:
        start = time.perf_counter()
        done = start_process(*words, **options)
        seconds.append(time.perf_counter() - start)
        return done

    experts = HpMoeExperts(
        HIDDEN, WIDTH, EXPERTS, TOP_K, args.tokens, ranks=RANKS, schedule="depth-first"
    )
    cpu_model.subprocess.run = timed
    rng = np.random.default_rng(0)
    rows = RANKS * args.tokens
    x = Tensor(rng.standard_normal((rows, HIDDEN), np.float32))
    ids = Tensor(np.stack([rng.permutation(EXPERTS)[:TOP_K] for _ in range(rows)]).astype(np.int32))
    gates = Tensor(np.full((rows, TOP_K), 1 / TOP_K, np.float32))
    with tempfile.TemporaryDirectory(prefix="training-step-") as directory:
        os.chdir(directory)
        for name, mode in (("pynative", ms.PYNATIVE_MODE), ("graph", ms.GRAPH_MODE)):
            ms.set_context(mode=mode)

            def loss(x: Tensor, gates: Tensor) -> Tensor:
                return experts(x, ids, gates).sum()

            step: Any = ms.value_and_grad(loss, (0, 1), experts.trainable_params())
            whole, kernels = [], []
            for _ in range(args.steps + 1):
                seconds.clear()
                start = time.perf_counter()
                value, ((dx, _), (dw1, _)) = step(x, gates)
                for array in (value, dx, dw1):
                    array.asnumpy()
                whole.append(time.perf_counter() - start)
                kernels.append(sum(seconds))
            # The first step compiles.
            own, other = statistics.median(whole[1:]), statistics.median(kernels[1:])
            print(
                f"{name:9} step {own * 1e3:.0f} ms, kernels {other * 1e3:.0f} ms, "
                f"ratio {own / other:.2f}"
            )
        os.chdir("/")


if __name__ == "__main__":
    main()
