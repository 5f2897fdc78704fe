"""Trains two Mixture-of-Experts layers in MindSpore, with generated experts and with plain ones.

    python examples/mindspore_train.py [--picture docs/mindspore-train.svg]

Each layer is a softmax router that picks two of eight experts, and the experts, spread over two
ranks in this process; the task is to fit fixed random targets. Both models start from the same
weights and are trained by AdamW for 20 steps with the same data. They differ in one argument, the
`backend` of the experts: in one of them both directions are generated kernels that run on the CPU
model, in bf16; the other computes with MindSpore's operators in float32. docs/training.md says how
to use the module.
"""

# pyright: basic
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportOptionalIterable=false, reportArgumentType=false, reportAssignmentType=false
# pyright: reportGeneralTypeIssues=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

# Read when MindSpore is imported: only errors are logged.
os.environ.setdefault("GLOG_v", "3")

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from train_tiny_report import picture

from hpmoe_ir.mindspore import HpMoeExperts

HIDDEN, WIDTH, EXPERTS, TOP_K, RANKS, TOKENS = 64, 32, 8, 2, 2, 64
STEPS = 20
RATE = 5e-4

LARGEST = 0.03
"""Largest relative difference of the losses of a step; docs/train-tiny.md explains the bound."""

DTYPES = {"bf16": ms.bfloat16, "f16": ms.float16}


class MoeLayer(nn.Cell):
    """A softmax router, the experts, and the residual around them."""

    def __init__(self, rng: np.random.Generator, backend: str, dtype: str) -> None:
        super().__init__()
        self.router = Parameter(_normal(rng, HIDDEN, EXPERTS), name="router")
        self.experts = HpMoeExperts(
            HIDDEN,
            WIDTH,
            EXPERTS,
            TOP_K,
            TOKENS,
            ranks=RANKS,
            schedule="depth-first",
            dtype=DTYPES[dtype],
            backend=backend,
        )
        self.experts.weight1.set_data(_normal(rng, EXPERTS * HIDDEN, 2 * WIDTH, inputs=HIDDEN))
        self.experts.weight2.set_data(_normal(rng, EXPERTS * WIDTH, HIDDEN, inputs=WIDTH))

    def construct(self, x):
        # `sort` is stable, `topk` is not: where experts are equal, the first one wins.
        ordered, ids = ops.sort(-ops.matmul(x, self.router), -1)
        weights = ops.softmax(-ordered[:, :TOP_K], -1)
        return x + self.experts(x, ids[:, :TOP_K], weights)


class Model(nn.Cell):
    """The mean square error of two layers."""

    def __init__(self, backend: str, dtype: str, seed: int) -> None:
        super().__init__()
        rng = np.random.default_rng(seed)
        self.first = MoeLayer(rng, backend, dtype)
        self.second = MoeLayer(rng, backend, dtype)

    def construct(self, x, target):
        return ((self.second(self.first(x)) - target) ** 2).mean()


def _normal(rng: np.random.Generator, rows: int, columns: int, inputs: int = 0) -> Tensor:
    scale = (inputs or rows) ** -0.5
    return Tensor(rng.standard_normal((rows, columns), np.float32) * np.float32(scale))


def train(backend: str, dtype: str, seed: int, steps: int) -> list[float]:
    """Returns the loss of each step before its update."""
    model = Model(backend, dtype, seed)
    rng = np.random.default_rng(seed + 1)
    data = rng.standard_normal((RANKS * TOKENS, HIDDEN), np.float32)
    target = np.tanh(data @ rng.standard_normal((HIDDEN, HIDDEN), np.float32) / 4)
    parameters = model.trainable_params()
    optimizer = nn.AdamWeightDecay(parameters, RATE)
    # Gradients of a mean may be below the range of f16.
    scaler = ms.amp.StaticLossScaler(data.size / 2)

    def loss(x, target):
        return scaler.scale(model(x, target))

    step = ms.value_and_grad(loss, None, parameters)
    losses = []
    for _ in range(steps):
        value, gradients = step(Tensor(data), Tensor(target))
        optimizer(scaler.unscale(gradients))
        losses.append(float(scaler.unscale(value).asnumpy()))
    return losses


def main() -> None:
    """Trains both and compares the losses; exits with status 1 if a step differs too much."""
    parser = argparse.ArgumentParser(description="Trains two layers in MindSpore.")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--dtype", choices=tuple(DTYPES), default="bf16")
    parser.add_argument("--mode", choices=("pynative", "graph"), default="graph")
    parser.add_argument("--seed", type=int, default=0, help="of the task and the first weights")
    parser.add_argument("--picture", type=Path, help="SVG file for both loss curves")
    args = parser.parse_args()
    drawing = args.picture.resolve() if args.picture is not None else None
    ms.set_context(mode=ms.GRAPH_MODE if args.mode == "graph" else ms.PYNATIVE_MODE)
    curves = {}
    # MindSpore leaves files in the working directory.
    with tempfile.TemporaryDirectory(prefix="mindspore-train-") as directory:
        os.chdir(directory)
        for backend in ("cpu-model", "reference"):
            start = time.perf_counter()
            curves[backend] = train(backend, args.dtype, args.seed, args.steps)
            print(f"{backend}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
        os.chdir("/")
    ours, theirs = curves["cpu-model"], curves["reference"]
    print("step  generated  MindSpore   apart")
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        print(f"{i:4} {a:10.6f} {b:10.6f} {abs(a - b) / b:7.3%}")
    if drawing is not None:
        drawing.write_text(picture(ours, theirs, args.dtype))
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if not abs(a - b) <= LARGEST * b:
            sys.exit(f"step {i}: expected a loss within {LARGEST:.0%} of {b:.6g}, found {a:.6g}")


if __name__ == "__main__":
    main()
