"""Twenty steps of AdamW on two layers: bounds of plain MindSpore, and the same bits in both modes.

Outputs and gradients of a layer are compared with MindSpore in float64 on the same inputs, within
the bounds that are derived for these; the loss of each step with that of plain MindSpore in float32
from the same weights.
"""

# pyright: basic
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from layer_bounds import compare, compare_gradients, gradient_tolerance, tolerance
from mindspore import Tensor
from moe_net import SCALE, TOP_K, Calls, TwoLayers, data, record, train

from hpmoe_ir.dtypes import from_bits
from hpmoe_ir.mindspore import HpMoeExperts
from hpmoe_ir.run.oracle import Oracle
from hpmoe_ir.run.tolerance import Comparison
from hpmoe_ir.training.arrays import RankGradients

STEPS = 20
CHECKED = STEPS // 2
"""Step of which each output and gradient is compared."""

TOKENS = 8
"""Tokens of a rank."""

ROUNDING = {ms.bfloat16: 2.0**-6, ms.float16: 2.0**-9}
"""Relative difference of the losses that rounding alone may cause: two unit roundoffs a layer, as
docs/train-tiny.md has it."""


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as found:
        yield found


def two_layers(machine: str, ranks: int, dtype, backend: str = "cpu-model") -> TwoLayers:
    return TwoLayers(
        width=16,
        tokens=16,
        ranks=ranks,
        dtype=dtype,
        backend=backend,
        schedule="depth-first",
        machine=machine,
    )


def compared(
    oracle: Oracle, experts: HpMoeExperts, calls: Calls, step: int
) -> tuple[Comparison, Comparison]:
    """Compares output and gradients of a step with MindSpore's."""
    values = calls.values(experts, step)
    dtype = values.config.dtype
    out = [from_bits(own.out, dtype) for own in calls.outputs[step]]
    found = [
        {"dx": from_bits(own.dx, dtype), "dgate": own.dgate, "dw13": own.dw13, "dw2": own.dw2}
        for own in calls.gradients[step]
    ]
    return (
        compare(out, oracle.layer(values), tolerance(values)),
        compare_gradients(found, oracle.gradients(values), gradient_tolerance(values)),
    )


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16], ids=["f16", "bf16"])
def test_twenty_steps(machine: str, oracle: Oracle, ranks: int, dtype) -> None:
    x, target = data(ranks * TOKENS)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net = two_layers(machine, ranks, dtype)
    calls = [record(own) for own in net.experts]
    losses, gradients = train(net, STEPS, x, target)

    ms.set_context(mode=ms.GRAPH_MODE)
    plain, weights = two_layers(machine, ranks, dtype, "reference"), []
    other = two_layers(machine, ranks, dtype)
    graph_losses, graph_gradients = train(other, STEPS, x, target, each=weights.append)
    assert losses.tobytes() == graph_losses.tobytes()
    for own, found in zip(gradients, graph_gradients, strict=True):
        np.testing.assert_array_equal(own, found)

    assert losses[-1] < 0.7 * losses[0]
    for step, (loss, arrays) in enumerate(zip(losses, weights, strict=True)):
        for parameter, array in zip(plain.trainable_params(), arrays, strict=True):
            parameter.set_data(Tensor(array))
        expected = plain(x, target).asnumpy() / SCALE
        # A token whose second experts are others has another loss.
        second = plain.second.router.asnumpy()
        logits = plain.first(x).asnumpy() @ second
        ids = np.argsort(-logits, axis=1, kind="stable")[:, :TOP_K]
        own = np.concatenate([rank.routing.ids for rank in calls[1].inputs[step]])
        other = int((np.sort(ids, axis=1) != np.sort(own, axis=1)).any(axis=1).sum())
        assert other <= len(ids) // 8
        assert abs(loss - expected) <= (ROUNDING[dtype] + other**0.5 / len(ids)) * expected

    for experts, own in zip(net.experts, calls, strict=True):
        for comparison in compared(oracle, experts, own, CHECKED):
            assert comparison.passed, comparison
            assert comparison.elements


def no_gate_gradient(gradients: Sequence[RankGradients]) -> list[RankGradients]:
    return [replace(own, dgate=np.zeros_like(own.dgate)) for own in gradients]


def swapped_halves(gradients: Sequence[RankGradients]) -> list[RankGradients]:
    return [replace(own, dw13=np.roll(own.dw13, 16, axis=-1)) for own in gradients]


def wrong_owner(gradients: Sequence[RankGradients]) -> list[RankGradients]:
    others = [*gradients[1:], gradients[0]]
    return [
        replace(own, dw13=other.dw13, dw2=other.dw2)
        for own, other in zip(gradients, others, strict=True)
    ]


@pytest.mark.parametrize("mutant", [no_gate_gradient, swapped_halves, wrong_owner])
def test_wrong_gradients_are_outside_after_one_step(
    machine: str,
    oracle: Oracle,
    mutant: Callable[[Sequence[RankGradients]], list[RankGradients]],
) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net = two_layers(machine, 2, ms.bfloat16)
    calls = [record(own, mutant) for own in net.experts]
    train(net, 1, *data(2 * TOKENS))
    for experts, own in zip(net.experts, calls, strict=True):
        out, gradients = compared(oracle, experts, own, 0)
        assert out.passed, out
        assert not gradients.passed
