"""Parameters as MindFormers has them: checkpoints, other numbers of ranks, replacement."""

# pyright: basic
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportOptionalMemberAccess=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindformers_like import Config, ExchangedHalves, GroupedExperts, Model
from mindspore import Parameter, Tensor, nn

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.mindspore import HpMoeExperts, replace_experts, reshard_checkpoints

X = np.random.default_rng(0).standard_normal((6, 2, 32)).astype(np.float32)
"""Tokens [sequence, batch, H]."""


def replaced(machine: str, config: Config | None = None, ranks: int = 1, **options) -> nn.Cell:
    model = Model(config or Config())
    return replace_experts(
        model, tokens=16, ranks=ranks, schedule="depth-first", machine=machine, **options
    )


def step(model: nn.Cell) -> None:
    """One step of AdamW."""
    optimizer = nn.AdamWeightDecay(model.trainable_params(), 1e-2)
    weights = model.trainable_params()
    _, gradients = ms.value_and_grad(lambda: (model(Tensor(X)) ** 2).sum(), None, weights)()
    optimizer(gradients)


def arrays(parameters) -> dict[str, np.ndarray]:
    return {name: p.asnumpy() for name, p in parameters.items()}


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.fixture(autouse=True)
def pynative() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_replaced_experts_compute_the_same(machine: str, mode: int) -> None:
    """In the place of experts that no CPU can run: compared with plain operators."""
    ms.set_context(mode=mode)
    generated, plain = replaced(machine, ranks=2), replaced(machine, backend="reference")
    found, expected = generated(Tensor(X)).asnumpy(), plain(Tensor(X)).asnumpy()
    np.testing.assert_allclose(found, expected, atol=2e-2 * np.abs(expected).max())
    assert generated.layers[0].experts.launcher.experts.config.ranks == 2


@pytest.mark.parametrize("params_dtype", [ms.float32, ms.bfloat16])
def test_names_values_and_types_stay(machine: str, params_dtype) -> None:
    config = Config(params_dtype=params_dtype)
    before = Model(config).parameters_dict()
    after = replaced(machine, config).parameters_dict()
    assert list(after) == list(before)
    for name, parameter in before.items():
        assert after[name].dtype == parameter.dtype
        raw = [p.astype(ms.float32).asnumpy() for p in (after[name], parameter)]
        np.testing.assert_array_equal(*raw)


def test_checkpoints_both_ways(machine: str, tmp_path: Path) -> None:
    """From MindFormers' layout, a step, and back."""
    theirs = Model(Config())
    for parameter in theirs.get_parameters():
        parameter.set_data(Tensor(parameter.asnumpy() * np.float32(1.5)))
    ms.save_checkpoint(theirs, "theirs.ckpt")
    ours = replaced(machine)
    missing = ms.load_param_into_net(ours, ms.load_checkpoint("theirs.ckpt"))
    assert missing == ([], [])
    assert_equal(arrays(ours.parameters_dict()), arrays(theirs.parameters_dict()))
    step(ours)
    ms.save_checkpoint(ours, "ours.ckpt")
    back = Model(Config())
    assert ms.load_param_into_net(back, ms.load_checkpoint("ours.ckpt")) == ([], [])
    trained = arrays(ours.parameters_dict())
    assert_equal(arrays(back.parameters_dict()), trained)
    before = arrays(theirs.parameters_dict())
    assert all((trained[name] != before[name]).any() for name in trained)


def test_other_numbers_of_ranks() -> None:
    """EP 2 to EP 4 and back, with the states of the optimizer."""
    model = Model(Config())
    whole = {p.name: p for p in model.get_parameters()}
    optimizer = nn.AdamWeightDecay(model.trainable_params(), 1e-2)
    for parameter in optimizer.moments1:
        drawn = np.random.default_rng(len(parameter.name)).standard_normal(parameter.shape)
        parameter.set_data(Tensor(drawn.astype(np.float32)))
    whole |= {p.name: p for p in optimizer.moments1}
    two = reshard_checkpoints([whole], 2)
    four = reshard_checkpoints(two, 4)
    name = "layers.1.experts.weight1"
    assert [part[name].shape for part in four] == [(32, 32)] * 4
    assert [part[f"adam_m.{name}"].shape for part in four] == [(32, 32)] * 4
    np.testing.assert_array_equal(four[3][name].asnumpy(), whole[name].asnumpy()[96:])
    for own, other in zip(reshard_checkpoints(four, 2), two, strict=True):
        assert_equal(arrays(own), arrays(other))
    (joined,) = reshard_checkpoints(four, 1)
    assert_equal(arrays(joined), arrays(whole))


def test_checkpoints_that_do_not_fit() -> None:
    model = Model(Config())
    whole = {p.name: p for p in model.get_parameters()}
    with pytest.raises(ValueError, match=r"experts\.weight1: expected rows for 3 ranks, found 128"):
        reshard_checkpoints([whole], 3)
    one, two = reshard_checkpoints([whole], 2)
    router = "layers.0.router"
    two[router] = Parameter(Tensor(two[router].asnumpy() + 1), name=router)
    with pytest.raises(ValueError, match=f"{router}: expected the same on all ranks, rank 1 diff"):
        reshard_checkpoints([one, two], 1)
    del two[router]
    with pytest.raises(ValueError, match=f"{router}: expected it in all checkpoints, or none; ran"):
        reshard_checkpoints([one, two], 1)


class Plain(nn.Cell):
    """A cell without experts."""

    def construct(self, x):
        return x


class WrongSizes(GroupedExperts):
    """Experts whose configuration says another width."""

    def __init__(self, config: Config, seed: int = 0) -> None:
        super().__init__(config, seed)
        self.config = Config(num_moe_experts=4, moe_ffn_hidden_size=32)


@pytest.mark.parametrize(
    "model, message",
    [
        (Plain, "expected cells named 'experts' with parameters weight1 and weight2, found none"),
        (lambda: Model(Config(), ExchangedHalves), "silu of the second half of the first matmul"),
        (
            lambda: Model(Config(), WrongSizes),
            r"layers.0.experts: its configuration has hidden, width, experts and top k of "
            r"\(32, 32, 4, 2\), its graph \(32, 16, 4, 2\)",
        ),
    ],
)
def test_models_that_are_not_replaced(machine: str, model, message: str) -> None:
    net = model()
    with pytest.raises(InputError, match=message):
        replace_experts(net, tokens=16, machine=machine)
    assert not any(isinstance(cell, HpMoeExperts) for cell in net.cells())
