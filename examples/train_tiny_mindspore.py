"""The model of `train_tiny.py` in plain MindSpore, trained in float32, as the reference.

    python train_tiny_mindspore.py START.npz RESULT.npz

START has the data, the first weights and the settings, RESULT gets the loss of each step before its
update (`losses`) and the experts of each token (`ids`). A program of its own because MindSpore
leaves files in the working directory and may end its process.
"""

# pyright: basic
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import sys
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops


def route(x: Tensor, router: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Returns the experts [n, K] of each token, and their softmax weights, which sum to 1."""
    probabilities = ops.softmax(ops.matmul(x, router.T), -1)
    # `sort` is stable, `topk` is not: where experts are equal, the first one wins.
    ordered, ids = ops.sort(-probabilities, -1)
    weights = -ordered[:, :top_k]
    return ids[:, :top_k], weights / weights.sum(-1, keepdims=True)


def experts(x: Tensor, ids: Tensor, gates: Tensor, w13: Tensor, w2: Tensor) -> Tensor:
    """Returns the weighted sum of each token's experts, by a loop over all experts."""
    width = w2.shape[1]
    out = ops.zeros_like(x)
    for expert in range(w13.shape[0]):
        gate, up = ops.split(ops.matmul(x, w13[expert]), width, 1)
        y = ops.matmul(ops.silu(gate) * up, w2[expert])
        weight = (gates * ops.equal(ids, expert).astype(ms.float32)).sum(-1, keepdims=True)
        out = out + weight * y
    return out


def train(start: dict[str, np.ndarray]) -> tuple[list[float], list[np.ndarray]]:
    """Trains; returns the losses and routings of each step."""
    data, target = Tensor(start["data"]), Tensor(start["target"])
    names = ("projection", "router", "w13", "w2")
    weights = tuple(Tensor(start[name]) for name in names)
    rate, top_k = float(start["rate"]), int(start["top_k"])

    def loss(projection: Tensor, router: Tensor, w13: Tensor, w2: Tensor):
        x = ops.matmul(data, projection)
        ids, gates = route(x, router, top_k)
        out = experts(x, ids, gates, w13, w2)
        return ((out - target) ** 2).mean(), ids

    every: Any = (0, 1, 2, 3)
    step = ms.value_and_grad(loss, every, has_aux=True)
    losses, routings = [], []
    for _ in range(int(start["steps"])):
        results: Any = step(*weights)
        (value, ids), gradients = results
        losses.append(float(value.asnumpy()))
        routings.append(ids.asnumpy())
        weights = tuple(w - rate * g for w, g in zip(weights, gradients, strict=True))
    return losses, routings


def main() -> None:
    """Reads the setup from the file of the first argument, trains, and writes the result."""
    ms.set_device("CPU")
    ms.runtime.launch_blocking()
    with np.load(sys.argv[1]) as file:
        start = {name: file[name] for name in file.files}
    losses, routings = train(start)
    np.savez(sys.argv[2], losses=np.array(losses), ids=np.stack(routings))


if __name__ == "__main__":
    main()
