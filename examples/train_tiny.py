"""Trains a tiny Mixture-of-Experts layer through generated code, beside plain MindSpore.

    python examples/train_tiny.py [--picture docs/train-tiny.svg] [--table docs/train-tiny.txt]

The model is a projection, a softmax router that picks two of eight experts, and the experts, spread
over two ranks; the task is to fit fixed random targets. Both directions of the experts run as
generated code on the CPU model, in bf16 (or f16) with weights kept in float32. The projection, the
router and plain gradient descent are NumPy: the router needs `dgate` of the generated backward
kernel, the projection `dx`. The same model in MindSpore, float32 throughout, starts from the same
weights and data (`train_tiny_mindspore.py`). docs/train-tiny.md has the tolerance.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from train_tiny_report import changed, picture, table

from hpmoe_ir.driver.compiler import Compiled, compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.dtypes import Dtype, Float32Array, RawArray, to_bits
from hpmoe_ir.frontends.build_layer import FUNCTION, layer_module
from hpmoe_ir.frontends.mindspore_process import (
    MINDSPORE_MISSING,
    mindspore_environment,
    mindspore_installed,
)
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RankRouting
from hpmoe_ir.layer.values import LayerValues
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.run.directions import (
    OUTPUT,
    backward_arguments,
    forward_arguments,
    layer_gradients,
)
from hpmoe_ir.run.execution import build_program
from hpmoe_ir.run.levels import run_level
from hpmoe_ir.run.signature import Signature, backward_of, signatures

Ids: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]
Weights: TypeAlias = dict[str, Float32Array]

STEPS = 50
RATE = 1.0
"""Learning rate. At three times this, a few tokens with other experts are enough for the loss to be
another one by up to 31% within 50 steps, with either element type."""

ROUNDING: dict[Dtype, float] = {"bf16": 2.0**-7, "f16": 2.0**-10}
"""What rounding alone may change the loss by, relative to it: two unit roundoffs."""

LARGEST = 0.03
"""No step may be farther off than this, whatever tokens go elsewhere."""

ELSEWHERE = 1 / 8
"""Largest part of the tokens that may have other experts than in MindSpore."""

REFERENCE = Path(__file__).with_name("train_tiny_mindspore.py")


@dataclass(frozen=True)
class Task:
    """What both sides are given: data and targets [n, H] of all ranks' tokens, first weights."""

    config: LayerConfig
    data: Float32Array
    target: Float32Array
    weights: Weights
    """projection [H, H], router [E, H], w13 [E, H, 2I], w2 [E, I, H]."""


@dataclass(frozen=True)
class Training:
    """Loss of each step before its update, and the experts of each token then."""

    losses: list[float]
    routings: list[Ids]


def make_task(dtype: Dtype, seed: int = 0) -> Task:
    """A fixed regression task, and weights to begin with."""
    config = LayerConfig(
        "tiny", hidden=32, width=32, experts=8, top_k=2, ranks=2, tokens=64, dtype=dtype
    )
    hidden, width, count = config.hidden, config.width, config.experts
    rng = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 1.0) -> Float32Array:
        return rng.standard_normal(shape, np.float32) * np.float32(scale)

    data = normal(config.ranks * config.tokens, hidden)
    target = np.tanh(data @ normal(hidden, hidden, scale=2 * hidden**-0.5))
    weights = {
        "projection": normal(hidden, hidden, scale=hidden**-0.5),
        "router": normal(count, hidden, scale=hidden**-0.5),
        "w13": normal(count, hidden, 2 * width, scale=hidden**-0.5),
        "w2": normal(count, width, hidden, scale=width**-0.5),
    }
    return Task(config, data, target, weights)


class GeneratedExperts:
    """The expert part of the layer: the generated kernels of both directions, on the CPU model."""

    def __init__(self, config: LayerConfig) -> None:
        self.compiled: Compiled = compile_module(
            make_context(), layer_module(config), LowerMoePass(), backward=DeriveBackwardPass()
        )
        self.executables = {
            name: build_program(kernel.program, kernel.source)
            for name, kernel in self.compiled.kernels.items()
        }

        known = signatures(self.compiled.modules["moe"])
        self.layer = known[FUNCTION]
        gradients = backward_of(known, FUNCTION)
        assert gradients is not None
        self.gradients = gradients

    def forward(self, values: LayerValues) -> list[list[Float32Array]]:
        """The output and the saved values of each rank."""
        return self._run(self.layer, forward_arguments(self.layer, values))

    def backward(
        self, values: LayerValues, results: list[list[Float32Array]]
    ) -> list[dict[str, Float32Array]]:
        """dx, dgate, dw13 and dw2 of each rank, from what the forward direction returned."""
        given = backward_arguments(self.gradients, self.layer, values, results)
        found = self._run(self.gradients, given)
        return [layer_gradients(self.gradients, self.layer, rank) for rank in found]

    def _run(
        self, function: Signature, values: list[list[np.ndarray[Any, Any]]]
    ) -> list[list[Float32Array]]:
        executable = self.executables[function.name]
        return run_level("code", self.compiled, function.name, [values], 0, executable)[0]


def route(x: Float32Array, router: Float32Array, top_k: int) -> RankRouting:
    """The top experts by softmax, and their probabilities made to sum to 1."""
    logits = x @ router.T
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    ids = np.argsort(-probabilities, axis=1, kind="stable")[:, :top_k]
    chosen = np.take_along_axis(probabilities, ids, axis=1)
    return RankRouting(ids.astype(np.int32), chosen / chosen.sum(axis=1, keepdims=True))


def route_gradient(routing: RankRouting, dgate: Float32Array, experts: int) -> Float32Array:
    """Gradient of the logits [n, E].

    The weights of the chosen experts are the softmax of their own logits: what the others have
    cancels when the sum is made 1.
    """
    gates = routing.gates
    chosen = gates * (dgate - (gates * dgate).sum(axis=1, keepdims=True))
    result = np.zeros((len(gates), experts), np.float32)
    np.put_along_axis(result, routing.ids, chosen, axis=1)
    return result


def train_generated(task: Task, steps: int) -> Training:
    """Trains with the generated kernels."""
    config = task.config
    experts = GeneratedExperts(config)
    weights = dict(task.weights)
    losses: list[float] = []
    routings: list[Ids] = []
    # Gradients of a mean are small, and f16 has no small numbers: the kernels compute gradients of
    # the loss times half the number of elements.
    scale = np.float32(task.target.size / 2)

    def parts(array: Float32Array) -> tuple[RawArray, ...]:
        return tuple(to_bits(part, config.dtype) for part in np.split(array, config.ranks))

    for _ in range(steps):
        x = task.data @ weights["projection"]
        routing = route(x, weights["router"], config.top_k)
        values = LayerValues(
            config,
            x=parts(x),
            routing=tuple(
                RankRouting(ids, gates)
                for ids, gates in zip(
                    np.split(routing.ids, config.ranks),
                    np.split(routing.gates, config.ranks),
                    strict=True,
                )
            ),
            w13=parts(weights["w13"]),
            w2=parts(weights["w2"]),
            dout=(),
        )
        results = experts.forward(values)
        out = experts.layer.result(OUTPUT)
        error = np.concatenate([rank[out] for rank in results]) - task.target
        losses.append(float((error.astype(np.float64) ** 2).mean()))
        routings.append(routing.ids)
        by_rank = experts.backward(replace(values, dout=parts(error)), results)
        gradients = {
            name: np.concatenate([g[name] for g in by_rank]) for name in ("dx", "dgate")
        } | {name: np.concatenate([g[f"d{name}"] for g in by_rank]) for name in ("w13", "w2")}
        dlogits = route_gradient(routing, gradients.pop("dgate"), config.experts)
        dx = gradients.pop("dx") + dlogits @ weights["router"]
        gradients |= {"router": dlogits.T @ x, "projection": task.data.T @ dx}
        for name, gradient in gradients.items():
            weights[name] = weights[name] - np.float32(RATE) / scale * gradient
    return Training(losses, routings)


def train_mindspore(task: Task, steps: int) -> Training:
    """Trains with MindSpore, in a process of its own."""
    settings = {"rate": RATE, "top_k": task.config.top_k, "steps": steps}
    arrays: dict[str, Any] = {"data": task.data, "target": task.target, **task.weights, **settings}
    with tempfile.TemporaryDirectory(prefix="train-tiny-") as directory:
        start, result = Path(directory, "start.npz"), Path(directory, "result.npz")
        np.savez(start, **arrays)
        subprocess.run(
            [sys.executable, str(REFERENCE), str(start), str(result)],
            cwd=directory,
            env=mindspore_environment(),
            check=True,
        )
        with np.load(result) as file:
            return Training(file["losses"].tolist(), list(file["ids"].astype(np.int32)))


def tolerances(dtype: Dtype, ours: Training, theirs: Training) -> list[float]:
    """How far the losses of each step may be apart, relative to MindSpore's.

    Rounding, and for tokens whose experts were not the same at some step up to here, as many at
    once as there were: a token's loss is then another one, which moves the mean of n tokens by
    about 1/n, up or down.
    """
    result: list[float] = []
    most = 0
    for a, b in zip(ours.routings, theirs.routings, strict=True):
        most = max(most, changed(a, b))
        result.append(min(ROUNDING[dtype] + most**0.5 / len(a), LARGEST))
    return result


def main() -> None:
    """Trains both and compares; ends with status 1 where a step is too far off."""
    parser = argparse.ArgumentParser(description="Trains a tiny layer through generated code.")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--dtype", choices=("bf16", "f16"), default="bf16")
    parser.add_argument("--seed", type=int, default=0, help="of the task and the first weights")
    parser.add_argument("--picture", type=Path, help="SVG file for both loss curves")
    parser.add_argument("--table", type=Path, help="text file for what is printed")
    args = parser.parse_args()
    if not mindspore_installed():
        sys.exit(f"train_tiny.py: {MINDSPORE_MISSING}")
    dtype: Literal["bf16", "f16"] = args.dtype
    task = make_task(dtype, args.seed)
    ours, theirs = train_generated(task, args.steps), train_mindspore(task, args.steps)
    allowed = tolerances(dtype, ours, theirs)
    text = table(ours.losses, theirs.losses, ours.routings, theirs.routings, allowed)
    print(text, end="")
    if args.table is not None:
        args.table.write_text(text)
    if args.picture is not None:
        args.picture.write_text(picture(ours.losses, theirs.losses, dtype))
    for step, (a, b) in enumerate(zip(ours.losses, theirs.losses, strict=True)):
        if not abs(a - b) <= allowed[step] * b:
            sys.exit(
                f"step {step}: expected a loss within {allowed[step]:.3%} of {b:.6g}, found {a:.6g}"
            )
        most = int(ELSEWHERE * len(task.data))
        other = changed(ours.routings[step], theirs.routings[step])
        if other > most:
            sys.exit(
                f"step {step}: expected at most {most} tokens with other experts than in "
                f"MindSpore, found {other}"
            )


if __name__ == "__main__":
    main()
