"""A MindSpore model of two Mixture-of-Experts layers, and a recorder of what its kernels do."""

# pyright: basic
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false, reportOptionalIterable=false
# pyright: reportOptionalMemberAccess=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from hpmoe_ir.layer.values import LayerValues
from hpmoe_ir.mindspore import HpMoeExperts
from hpmoe_ir.training.arrays import RankGradients, RankInput, RankOutput

HIDDEN, EXPERTS, TOP_K = 32, 4, 2

RATE = 2e-3
"""Learning rate of AdamW."""

SCALE = 1024.0
"""Factor of the loss: gradients of a mean would be below the range of f16."""

FEW_CORES = """\
name = "few-cores"
base = "ascend-a3"
[cores]
aic = { value = 2, unit = "cores", source = "few cores, for short runs of the CPU model" }
"""
"""Description of a machine on which a launch takes little time."""


class MoeLayer(nn.Cell):
    """A softmax router that picks two experts, and the experts.

    There is no residual: the sum of three gradients of x would have other bits in another order,
    and the modes of MindSpore add in different orders.
    """

    def __init__(self, experts: nn.Cell, router: np.ndarray) -> None:
        super().__init__()
        self.router = Parameter(Tensor(router), name="router")
        self.experts = experts

    def construct(self, x, counts=None):
        # `sort` is stable, `topk` is not. The softmax of the best logits is that of all, made a sum
        # of 1.
        ordered, ids = ops.sort(-ops.matmul(x, self.router), -1)
        weights = ops.softmax(-ordered[:, :TOP_K], -1)
        return self.experts(x, ids[:, :TOP_K], weights, counts)


class TwoLayers(nn.Cell):
    """The mean square error of two layers' output, times `SCALE`."""

    def __init__(self, seed: int = 0, **sizes: Any) -> None:
        super().__init__()
        layers = []
        for number in range(2):
            rng = np.random.default_rng([seed, number])
            router = rng.standard_normal((HIDDEN, EXPERTS), np.float32) * np.float32(HIDDEN**-0.5)
            experts = HpMoeExperts(hidden=HIDDEN, experts=EXPERTS, top_k=TOP_K, **sizes)
            for weight in (experts.weight1, experts.weight2):
                drawn = rng.standard_normal(weight.shape, np.float32) * np.float32(0.2)
                weight.set_data(Tensor(drawn))
            layers.append(MoeLayer(experts, router))
        self.first, self.second = layers

    def construct(self, x, target, counts=None):
        out = self.second(self.first(x, counts), counts)
        return SCALE * ((out - target) ** 2).mean()

    def loss(self, x, target, counts):
        """The sum of square errors of the tokens that `counts` [1] counts."""
        out = self.second(self.first(x, counts), counts)
        used = ops.less(ops.arange(x.shape[0]), counts[0]).astype(ms.float32).expand_dims(-1)
        return (used * (out - target) ** 2).sum()

    @property
    def experts(self) -> list[HpMoeExperts]:
        return [self.first.experts, self.second.experts]


@dataclass
class Calls:
    """The calls of one layer's kernels, in order."""

    inputs: list[list[RankInput]] = field(default_factory=list)
    outputs: list[list[RankOutput]] = field(default_factory=list)
    dout: list[list[Any]] = field(default_factory=list)
    gradients: list[list[RankGradients]] = field(default_factory=list)

    def values(self, experts: HpMoeExperts, step: int) -> LayerValues:
        """The inputs of both kernels at a step."""
        given = self.inputs[step]
        return LayerValues(
            experts.launcher.experts.config,
            tuple(own.x for own in given),
            tuple(own.routing for own in given),
            tuple(own.w13 for own in given),
            tuple(own.w2 for own in given),
            tuple(self.dout[step]),
        )


def record(experts: HpMoeExperts, change=lambda gradients: gradients) -> Calls:
    """Records all calls of a layer's kernels; `change` alters the gradients of all ranks."""
    calls, launcher = Calls(), experts.launcher
    forward, backward = launcher.forward, launcher.backward

    def recorded_forward(inputs):
        calls.inputs.append([_copied(own) for own in inputs])
        calls.outputs.append(forward(inputs))
        return calls.outputs[-1]

    def recorded_backward(inputs, saved, dout, accumulators=None):
        calls.dout.append([part.copy() for part in dout])
        calls.gradients.append(change(backward(inputs, saved, dout, accumulators)))
        return calls.gradients[-1]

    launcher.forward, launcher.backward = recorded_forward, recorded_backward
    return calls


def _copied(own: RankInput) -> RankInput:
    """MindSpore reuses the memory of an operator's inputs."""
    routing = type(own.routing)(own.routing.ids.copy(), own.routing.gates.copy())
    return RankInput(own.x.copy(), routing, own.w13.copy(), own.w2.copy())


def micro_batch(rank: int, micro: int, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, targets and the number of tokens of a rank; memory is for at least one token."""
    rng = np.random.default_rng([rank, micro])
    x, target = rng.standard_normal((2, max(tokens, 1), HIDDEN), np.float32)
    return Tensor(x), Tensor(target), Tensor(np.array([tokens], np.int32))


def own_experts(net: TwoLayers, rank: int, ranks: int) -> None:
    """Sets the weights of a rank to those that one process would have."""
    rng = np.random.default_rng(7)
    for experts in net.experts:
        for weight in (experts.weight1, experts.weight2):
            rows, columns = weight.shape
            drawn = rng.standard_normal((rows * ranks, columns), np.float32) * np.float32(0.2)
            weight.set_data(Tensor(np.split(drawn, ranks)[rank]))


def data(tokens: int, seed: int = 3) -> tuple[Tensor, Tensor]:
    """Tokens and targets of all ranks."""
    rng = np.random.default_rng(seed)
    x, target = rng.standard_normal((2, tokens, HIDDEN), np.float32)
    return Tensor(x), Tensor(target)


def train(net: TwoLayers, steps: int, x: Tensor, target: Tensor, *counts: Tensor, each=None):
    """Trains by AdamW; returns the loss of each step, and the gradients of the last one.

    `each` is called with the parameters before each step.
    """
    parameters = net.trainable_params()
    optimizer = nn.AdamWeightDecay(parameters, RATE)
    step = ms.value_and_grad(net, None, parameters)
    losses, gradients = [], ()
    for _ in range(steps):
        if each is not None:
            each([p.asnumpy().copy() for p in parameters])
        loss, gradients = step(x, target, *counts)
        losses.append(loss.asnumpy())
        optimizer(tuple(g / SCALE for g in gradients))
    return np.array(losses) / SCALE, [g.asnumpy() for g in gradients]
