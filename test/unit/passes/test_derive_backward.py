"""Derived gradients against finite differences of the forward function, and textbook formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from hpmoe_ir.dialects.moe import Role, RoleKind, forward_of, stated_roles
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.dtypes import Dtype, round_to
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.interpreter.module import run_module
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.passes.convert_moe_to_comm import ConvertMoeToCommPass
from hpmoe_ir.passes.derive_backward import RECOMPUTABLE, DeriveBackwardPass

Array = np.ndarray[Any, np.dtype[Any]]
Values = dict[str, list[Array]]
"""By name: a value's array on each rank."""

CHOICES = [c for n in range(len(RECOMPUTABLE) + 1) for c in combinations(RECOMPUTABLE, n)]


@dataclass(frozen=True)
class Case:
    """R ranks, E experts, K of them for each token, tokens of each rank."""

    ranks: int
    experts: int
    top: int
    tokens: tuple[int, ...]

    def layer(self, dtype: Dtype = "f64") -> LayerConfig:
        return LayerConfig(
            "case",
            hidden=4,
            width=3,
            experts=self.experts,
            top_k=self.top,
            ranks=self.ranks,
            tokens=max(*self.tokens, 1),
            dtype=dtype,
        )


CASES = [
    Case(1, 1, 1, (3,)),
    Case(1, 3, 2, (4,)),
    Case(2, 6, 2, (5, 2)),
    Case(2, 4, 3, (0, 4)),
    Case(4, 8, 2, (3, 0, 1, 4)),
    Case(4, 4, 4, (1, 2, 0, 0)),
    Case(2, 4, 2, (0, 0)),
]


def inputs(config: LayerConfig, tokens: Sequence[int], seed: int = 5) -> Values:
    """Seeded inputs; expert 1 gets no tokens where there are enough others."""
    rng = np.random.default_rng(seed)
    float_type = np.float64 if config.dtype == "f64" else np.float32
    experts = np.arange(config.experts)
    if config.experts > config.top_k:
        experts = np.delete(experts, 1)

    def draw(*shape: int) -> Array:
        values = rng.standard_normal(shape)
        if config.dtype in ("bf16", "f16"):
            return round_to(values.astype(np.float32), config.dtype)
        return values.astype(float_type)

    local, hidden, width, top = config.local_experts, config.hidden, config.width, config.top_k
    ids = [experts[np.argsort(rng.random((t, experts.size)), axis=1)[:, :top]] for t in tokens]
    return {
        "x": [draw(t, hidden) for t in tokens],
        "ids": [own.astype(np.int32) for own in ids],
        "gate": [rng.random((t, top)).astype(float_type) for t in tokens],
        "w13": [draw(local, hidden, 2 * width) for _ in tokens],
        "w2": [draw(local, width, hidden) for _ in tokens],
        "dout": [draw(t, hidden) for t in tokens],
    }


def functions(module: ModuleOp) -> tuple[FuncOp, FuncOp]:
    forward, backward = (op for op in module.ops if isinstance(op, FuncOp))
    assert forward_of(backward) == forward.sym_name.data
    return forward, backward


def derive(module: ModuleOp, level: str = "moe", **options: Any) -> ModuleOp:
    module = module.clone()
    DeriveBackwardPass(**options).apply(Context(), module)
    module.verify()
    if level == "comm":
        ConvertMoeToCommPass().apply(Context(), module)
        module.verify()
    return module


def gradients(module: ModuleOp, values: Values) -> Values:
    """Gradients by the two functions of a derived module, wired by roles and positions.

    `values` are by the names of the forward function's arguments, `dout` and `dNAME_acc`.
    """
    forward, backward = functions(module)
    names = [arg.name_hint or "" for arg in forward.args]
    given = [values[name] for name in names]
    results = run_module(module, forward.sym_name.data, given)

    def array(role: Role | None) -> list[Array]:
        assert role is not None
        assert role.number is not None
        match role.kind:
            case RoleKind.ARGUMENT:
                return given[role.number]
            case RoleKind.RESULT:
                return results[role.number]
            case RoleKind.ACCUMULATOR:
                return values[f"d{names[role.number]}_acc"]
            case _:
                assert role == Role(RoleKind.RESULT_GRADIENT, 0)
                return values["dout"]

    arguments, gradients = stated_roles(backward)
    found = run_module(module, backward.sym_name.data, [array(role) for role in arguments])
    of = [role.number for role in gradients if role and role.kind is RoleKind.ARGUMENT_GRADIENT]
    return {
        names[number]: arrays
        for number, arrays in zip(of, found, strict=True)
        if number is not None
    }


def textbook(values: Values) -> Values:
    """Token by token and expert by expert, in f64: no routes, no rows."""
    x, gate, dout = values["x"], values["gate"], values["dout"]
    w13, w2 = (np.concatenate(values[name]).astype(np.float64) for name in ("w13", "w2"))
    dw13, dw2 = np.zeros(w13.shape), np.zeros(w2.shape)
    dx, dgate = [np.zeros(own.shape) for own in x], [np.zeros(own.shape) for own in gate]
    for rank, ids in enumerate(values["ids"]):
        for t, chosen in enumerate(ids):
            row, upstream = x[rank][t].astype(np.float64), dout[rank][t].astype(np.float64)
            for k, e in enumerate(chosen):
                g, u = np.split(row @ w13[e], 2)
                s = 1 / (1 + np.exp(-g))
                a = g * s * u
                dgate[rank][t, k] = (a @ w2[e]) @ upstream
                dy = gate[rank][t, k] * upstream
                da = w2[e] @ dy
                dw2[e] += np.outer(a, dy)
                dh = np.concatenate([da * u * (s + g * s * (1 - s)), da * g * s])
                dw13[e] += np.outer(row, dh)
                dx[rank][t] += w13[e] @ dh
    ranks = len(x)
    return {
        "x": dx,
        "gate": dgate,
        "w13": list(np.split(dw13, ranks)),
        "w2": list(np.split(dw2, ranks)),
    }


def check_close(found: Values, expected: Values, tolerance: float) -> None:
    assert list(found) == list(expected)
    for name, arrays in expected.items():
        for rank, (own, wanted) in enumerate(zip(found[name], arrays, strict=True)):
            assert own.shape == wanted.shape
            scale = np.abs(wanted).max(initial=1)
            np.testing.assert_allclose(
                own / scale, wanted / scale, atol=tolerance, rtol=0, err_msg=f"{name}, rank {rank}"
            )


@pytest.mark.parametrize("level", ["moe", "comm"])
@pytest.mark.parametrize("recompute", CHOICES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_the_textbook_formula(case: Case, recompute: tuple[str, ...], level: str):
    config = case.layer()
    values = inputs(config, case.tokens)
    module = derive(layer_module(config), level, recompute=recompute)
    check_close(gradients(module, values), textbook(values), 1e-12)


def finite_differences(module: ModuleOp, values: Values, wanted: Sequence[str]) -> Values:
    """`(f(v + e) - f(v - e)) / 2e` for each element of each value, f = sum of out * dout."""
    (forward,) = (op for op in module.ops if isinstance(op, FuncOp))
    step = 1e-6

    def loss() -> float:
        given = [values[arg.name_hint or ""] for arg in forward.args]
        (out,) = run_module(module, None, given)
        pairs = zip(out, values["dout"], strict=True)
        return float(sum((own * weight).sum() for own, weight in pairs))

    found: Values = {}
    for name in wanted:
        found[name] = [np.zeros(own.shape) for own in values[name]]
        for own, slopes in zip(values[name], found[name], strict=True):
            for at in np.ndindex(own.shape):
                middle = own[at]
                own[at] = middle + step
                above = loss()
                own[at] = middle - step
                slopes[at] = (above - loss()) / (2 * step)
                own[at] = middle
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_the_slopes_of_the_layer(case: Case):
    config = case.layer()
    values = inputs(config, case.tokens)
    module = layer_module(config)
    expected = finite_differences(module, values, ("x", "gate", "w13", "w2"))
    check_close(gradients(derive(module), values), expected, 1e-7)


@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "f16"])
def test_experts_without_tokens_have_gradients_of_zero(dtype: Dtype):
    config = Case(2, 6, 2, (5, 2)).layer(dtype)
    values = inputs(config, (5, 2))
    idle = set(range(6)) - {int(e) for own in values["ids"] for e in own.reshape(-1)}
    assert 1 in idle
    found = gradients(derive(layer_module(config)), values)
    for expert in range(6):
        for name in ("w13", "w2"):
            own = found[name][expert // 3][expert % 3]
            assert (own == 0).all() == (expert in idle)


@pytest.mark.parametrize("recompute", CHOICES, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_levels_and_choices_agree_bit_by_bit(dtype: Dtype, recompute: tuple[str, ...]):
    config = Case(4, 8, 2, (3, 0, 1, 4)).layer(dtype)
    values = inputs(config, (3, 0, 1, 4))
    expected = gradients(derive(layer_module(config)), values)
    check_close(expected, textbook(values), {"f32": 1e-5, "f16": 4e-3, "bf16": 3e-2}[dtype])
    for level in ("moe", "comm"):
        found = gradients(derive(layer_module(config), level, recompute=recompute), values)
        for name, arrays in expected.items():
            for a, b in zip(arrays, found[name], strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("level", ["moe", "comm"])
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16"])
def test_gradients_are_added_to_accumulators(dtype: Dtype, level: str):
    config = Case(2, 6, 2, (5, 2)).layer(dtype)
    values = inputs(config, (5, 2))
    rng = np.random.default_rng(2)
    earlier = {
        name: [rng.standard_normal(own.shape).astype(own.dtype) for own in values[name]]
        for name in ("w13", "w2")
    }
    expected = gradients(derive(layer_module(config)), values)
    for name, arrays in earlier.items():
        expected[name] = [a + b for a, b in zip(arrays, expected[name], strict=True)]
        values[f"d{name}_acc"] = arrays
    found = gradients(derive(layer_module(config), level, accumulate=True), values)
    for name, arrays in expected.items():
        for a, b in zip(arrays, found[name], strict=True):
            np.testing.assert_array_equal(a, b)


def test_gradients_of_weights_are_f32_or_rounded_to_their_type():
    config = Case(2, 6, 2, (5, 2)).layer("bf16")
    values = inputs(config, (5, 2))
    wide = gradients(derive(layer_module(config)), values)
    narrow = gradients(derive(layer_module(config), weight_gradients="activation"), values)
    for name in ("w13", "w2"):
        for a, b in zip(wide[name], narrow[name], strict=True):
            assert (a != round_to(a, "bf16")).any()
            np.testing.assert_array_equal(round_to(a, "bf16"), b)


TYPES = """
!route = !moe.route<5 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!x = tensor<?x4xf64, #moe.tokens<5 rows>>
!ids = tensor<?x2xi32, #moe.tokens<5 rows>>
!gate = tensor<?x2xf64, #moe.tokens<5 rows>>
!rows = tensor<?x4xf64, #moe.grouped<20 rows>>
!sent = tensor<?x4xf64, #moe.sent<10 rows>>
!w = tensor<3x4x4xf64, #moe.experts<6 over 2 ranks>>
"""

GRAPHS = {
    # Tokens, weights and rows used twice, and tokens that pass by the experts.
    "twice": """
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
  %y = moe.grouped_matmul %recv, %w by %route : !rows, !w, !route -> !rows
  %z = moe.grouped_matmul %y, %w by %route : !rows, !w, !route -> !rows
  %sum = moe.add %y, %z : !rows
  %both = moe.combine %sum, %gate by %route : !rows, !gate, !route -> !x
  %out = moe.add %both, %x : !x
""",
    # One value as both terms.
    "doubled": """
  %two = moe.add %x, %x : !x
  %recv = moe.dispatch %two by %route : !x, !route -> !rows
  %y = moe.grouped_matmul %recv, %w by %route {transpose_rhs} : !rows, !w, !route -> !rows
  %out = moe.combine %y, %gate by %route : !rows, !gate, !route -> !x
""",
    # What came back is used by two sums.
    "back": """
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
  %back = moe.collect %recv by %route : !rows, !route -> !sent
  %weighted = moe.weighted_sum %back, %gate by %route : !sent, !gate, !route -> !x
  %plain = moe.sum_copies %back by %route : !sent, !route -> !x
  %out = moe.add %weighted, %plain : !x
""",
    # Gradients of what gradients are made of.
    "gradients": """
  %dy = moe.dispatch_weighted %x, %gate by %route : !x, !gate, !route -> !rows
  %dw = moe.grouped_matmul %dy, %dy into %w by %route {transpose_lhs}
    : !rows, !rows, !route, !w -> !w
  %dz = moe.grouped_matmul %dy, %dw by %route {transpose_rhs} : !rows, !w, !route -> !rows
  %back = moe.collect %dz by %route : !rows, !route -> !sent
  %dgate = moe.gate_gradient %back, %x by %route : !sent, !x, !route -> !gate
  %out = moe.weighted_sum %back, %dgate by %route : !sent, !gate, !route -> !x
""",
}


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("level", ["moe", "comm"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_gradients_are_the_slopes_of_other_graphs(graph: str, level: str, accumulate: bool):
    text = (
        f"{TYPES}func.func @graph(%x: !x, %ids: !ids, %gate: !gate, %w: !w) -> !x {{\n"
        f"  %route = moe.route %ids : !ids -> !route\n{GRAPHS[graph]}  func.return %out : !x\n}}\n"
    )
    module = parse_module(make_context(), text.encode(), "test")
    module.verify()
    layer = inputs(Case(2, 6, 2, (5, 2)).layer(), (5, 2))
    rng = np.random.default_rng(9)
    values = {name: layer[name] for name in ("x", "ids", "gate", "dout")}
    values["w"] = [rng.standard_normal((3, 4, 4)) / 2 for _ in range(2)]
    if graph == "gradients":
        values["x"] = [own / 4 for own in values["x"]]
    wanted = ("x", "gate") if graph == "back" else ("x", "gate", "w")
    expected = finite_differences(module, values, wanted)
    if accumulate and "w" in wanted:
        values["dw_acc"] = [rng.standard_normal((3, 4, 4)) for _ in range(2)]
        pairs = zip(values["dw_acc"], expected["w"], strict=True)
        expected["w"] = [a + b for a, b in pairs]
    derived = derive(module, level, accumulate=accumulate)
    check_close(gradients(derived, values), expected, 1e-6)
