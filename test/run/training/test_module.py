"""The module of experts: tokens of ranks, padding, recomputation, errors, the end of its use."""

# pyright: basic
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportOptionalMemberAccess=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hpmoe_ir.layer.config import LayerError
from hpmoe_ir.mindspore import HpMoeExperts
from hpmoe_ir.run.levels import CapacityError
from hpmoe_ir.training.launch import LauncherClosed

SIZES: dict[str, Any] = {"hidden": 32, "width": 16, "experts": 4, "top_k": 2, "tokens": 16}


def module(machine: str, **changes: Any) -> HpMoeExperts:
    sizes = SIZES | {"ranks": 2, "dtype": ms.float16, "machine": machine} | changes
    ms.set_seed(1)
    return HpMoeExperts(**{"schedule": "depth-first", **sizes})


def inputs(rows: int, hidden: int = 32, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens, ids, router weights and a gradient of the output."""
    rng = np.random.default_rng(seed)
    x, dout = rng.standard_normal((2, rows, hidden), np.float32)
    ids = np.stack([rng.permutation(4)[:2] for _ in range(rows)]).astype(np.int32)
    gates = rng.uniform(0.5, 1, (rows, 2)).astype(np.float32)
    return Tensor(x), Tensor(ids), Tensor(gates), Tensor(dout)


def gradients(experts: HpMoeExperts, x, ids, gates, dout, *counts):
    """The output, and the gradients of x, router weights and both weights."""

    def weighted(x, gates):
        out = experts(x, ids, gates, *counts)
        return (out * dout).sum(), out

    step = ms.value_and_grad(weighted, (0, 1), experts.trainable_params(), has_aux=True)
    (_, out), ((dx, dgates), (dw1, dw2)) = step(x, gates)
    return [a.asnumpy() for a in (out, dx, dgates, dw1, dw2)]


@pytest.fixture(autouse=True)
def pynative() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)


def assert_close(found, expected) -> None:
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, atol=4e-3 * np.abs(other).max(initial=1e-30))


@pytest.mark.parametrize("counts", [(5, 8), (13, 0), (0, 7)])
def test_uneven_tokens(machine: str, counts: tuple[int, int]) -> None:
    """Rows after the last rank's are not used: they get zeros, as do their gradients."""
    x, ids, gates, dout = inputs(13)
    found = gradients(module(machine), x, ids, gates, dout, Tensor(np.array(counts, np.int32)))
    used = sum(counts)
    for rows in found[:3]:
        assert not rows[used:].any()
    plain = module(machine, backend="reference")
    expected = gradients(plain, x[:used], ids[:used], gates[:used], dout[:used])
    assert_close([a[:used] for a in found[:3]] + found[3:], expected)


def test_forward_calls_may_be_outstanding(machine: str) -> None:
    """Two calls before their backward calls, other tokens in each, give the sum of gradients."""
    experts = module(machine)
    first, second = inputs(9, seed=1), inputs(12, seed=2)

    def both():
        return sum((experts(*call[:3]) * call[3]).sum() for call in (first, second))

    _, together = ms.value_and_grad(both, None, experts.trainable_params())()
    apart = [gradients(experts, *call)[3:] for call in (first, second)]
    for own, one, two in zip(together, *apart, strict=True):
        np.testing.assert_array_equal(own.asnumpy(), one + two)


@pytest.mark.parametrize("recompute", [("swiglu",), ("swiglu", "up"), ("dispatch",)])
def test_recomputation_gives_the_same_bits(machine: str, recompute: tuple[str, ...]) -> None:
    call = inputs(13)
    kept, again = module(machine), module(machine, recompute=recompute)
    assert len(again.launcher.experts.saved_shapes) < len(kept.launcher.experts.saved_shapes)
    for own, other in zip(gradients(kept, *call), gradients(again, *call), strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
@pytest.mark.parametrize("width", [16, 12])
def test_accumulation(machine: str, mode: int, width: int) -> None:
    """Two micro-batches add to the buffers what their gradients are, and to what was there."""
    ms.set_context(mode=mode)
    calls = [inputs(9, seed=1), inputs(12, seed=2)]
    buffers = np.ones((4 * 32, 2 * width), np.float32), np.ones((4 * width, 32), np.float32)
    experts = module(machine, width=width, accumulate=buffers)
    expected = [array.copy() for array in buffers]
    for call in calls:
        plain = gradients(module(machine, width=width), *call)
        found = gradients(experts, *call)
        for own, other in zip(found[:3], plain[:3], strict=True):
            np.testing.assert_array_equal(own, other)
        assert not found[3].any()
        assert not found[4].any()
        for total, part in zip(expected, plain[3:], strict=True):
            total += part
    for own, total in zip(buffers, expected, strict=True):
        np.testing.assert_allclose(own, total, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("hidden, width", [(24, 16), (32, 20), (40, 10)])
def test_sizes_that_are_no_multiples_of_the_block(machine: str, hidden: int, width: int) -> None:
    call = inputs(13, hidden)
    experts = module(machine, hidden=hidden, width=width)
    assert experts.weight1.shape == (4 * hidden, 2 * width)
    assert experts.weight2.shape == (4 * width, hidden)
    padded, launcher = experts.launcher.experts.config, experts.launcher
    assert (padded.hidden % 16, padded.width % 16) == (0, 0)
    outs, all_gradients = [], []
    forward, backward = launcher.forward, launcher.backward
    launcher.forward = lambda *a: outs.append(forward(*a)) or outs[-1]
    launcher.backward = lambda *a: all_gradients.append(backward(*a)) or all_gradients[-1]
    found = gradients(experts, *call)
    plain = module(machine, hidden=hidden, width=width, backend="reference")
    assert_close(found, gradients(plain, *call))
    for own in outs[0]:
        assert not own.out[:, hidden:].any()
    for own in all_gradients[0]:
        assert not own.dx[:, hidden:].any()
        halves = own.dw13.reshape(-1, padded.hidden, 2, padded.width)
        assert not halves[:, hidden:].any()
        assert not halves[..., width:].any()
        assert not own.dw2[:, width:].any()
        assert not own.dw2[..., hidden:].any()


def test_modules_of_one_layer_share_a_handle(machine: str) -> None:
    first, second = module(machine), module(machine)
    other = module(machine, recompute=("swiglu",))
    assert first.launcher.launcher is second.launcher.launcher
    assert first.launcher.launcher is not other.launcher.launcher
    first.close()
    first.close()
    call = inputs(13)
    with pytest.raises(LauncherClosed, match="found one after it"):
        first(*call[:3]).asnumpy()
    assert np.isfinite(second(*call[:3]).asnumpy()).all()
    second.close()
    assert np.isfinite(module(machine)(*call[:3]).asnumpy()).all()


OVER_CAPACITY = (
    "rank 1 would receive 26 rows, its capacity is 20 rows; every rank stopped before anything was "
    "sent"
)


def test_over_capacity(machine: str) -> None:
    """The call ends with the rank and its rows; a later one that fits is right."""
    experts = module(machine, capacity=20)
    x, ids, gates, _ = inputs(13)
    everyone = Tensor(np.tile(np.array([2, 3], np.int32), (13, 1)))
    with pytest.raises(CapacityError) as error:
        experts(x, everyone, gates).asnumpy()
    assert str(error.value) == OVER_CAPACITY
    plain = module(machine, backend="reference")
    assert_close([experts(x, ids, gates).asnumpy()], [plain(x, ids, gates).asnumpy()])


def test_over_capacity_in_graph_mode(machine: str) -> None:
    """The same message; MindSpore refuses later runs of a process whose graph has failed."""
    script = Path(__file__).with_name("over_capacity_in_graph_mode.py")
    run = subprocess.run([sys.executable, script, machine], capture_output=True, text=True)
    first, second = run.stdout.splitlines()
    assert first == f"CapacityError: {OVER_CAPACITY}"
    assert second.startswith("RuntimeError: An error occurred in the previous step"), run.stdout


def test_more_tokens_than_the_kernels_are_made_for(machine: str) -> None:
    with pytest.raises(ValueError, match=r"rank 0: expected at most 16 tokens, .*, found 20"):
        module(machine)(*inputs(40)[:3]).asnumpy()


def test_an_expert_that_does_not_exist(machine: str) -> None:
    x, _, gates, _ = inputs(13)
    with pytest.raises(ValueError, match="rank 0, token 0: expected experts 0 to 3, found 9"):
        module(machine)(x, Tensor(np.full((13, 2), 9, np.int32)), gates).asnumpy()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"ranks": 3}, "layer 'experts': experts: expected a multiple of the 3 ranks, found 4"),
        ({"backend": "gpu"}, "backend: expected one of cpu-model, reference, found 'gpu'"),
        ({"dtype": ms.float32}, "dtype: expected mindspore.bfloat16 or float16, found Float32"),
        (
            {"accumulate": (np.zeros((128, 32), np.float32), np.zeros((64, 32)))},
            "accumulate: expected float32 (64, 32) for weight2, found float64 (64, 32)",
        ),
        ({"top_k": 5}, "layer 'experts': top_k: expected at most the 4 experts, found 5"),
    ],
)
def test_what_the_constructor_refuses(machine: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises((LayerError, ValueError)) as error:
        module(machine, **changes)
    assert str(error.value) == message


@pytest.mark.slow
def test_auto_chooses_a_schedule(machine: str) -> None:
    """Its bits are those of any other."""
    chosen, call = module(machine, schedule="auto"), inputs(13)
    assert "lower-moe" in chosen.launcher.experts.compiled.pipeline
    out = module(machine)(*call[:3]).asnumpy()
    np.testing.assert_array_equal(chosen(*call[:3]).asnumpy(), out)


def test_without_mindspore() -> None:
    """Importing the package says in one line what to install."""
    program = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'mindspore' else find(name, *rest)\n"
        "import hpmoe_ir.training.experts\n"
        "import hpmoe_ir.mindspore\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == (
        "ImportError: hpmoe_ir.mindspore needs MindSpore: pip install 'hpmoe-ir[mindspore]'"
    )
