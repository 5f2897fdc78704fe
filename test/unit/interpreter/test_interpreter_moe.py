"""The moe and comm levels in NumPy against textbook formulas, and against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.dtypes import round_to
from hpmoe_ir.interpreter.module import run_module
from hpmoe_ir.interpreter.route import RankRoute, count_tokens, make_route
from hpmoe_ir.kernels.route_layout import RouteLayout
from hpmoe_ir.passes.convert_moe_to_comm import ConvertMoeToCommPass

Array = np.ndarray[Any, np.dtype[Any]]

HIDDEN, WIDTH = 12, 5


@dataclass(frozen=True)
class Sizes:
    """R ranks, E experts, K of them for each token, tokens of each rank, element type."""

    ranks: int
    experts: int
    top: int
    tokens: tuple[int, ...]
    dtype: str = "f64"

    @property
    def most(self) -> int:
        return max(*self.tokens, 1)

    @property
    def route(self) -> RouteType:
        return RouteType(self.most, self.top, self.experts, self.ranks)


SIZES = [
    Sizes(1, 3, 1, (4,)),
    Sizes(1, 1, 1, (3,)),
    Sizes(2, 6, 2, (7, 7)),
    Sizes(2, 6, 2, (0, 5)),
    Sizes(4, 8, 3, (6, 0, 1, 9)),
    Sizes(4, 4, 4, (2, 3, 0, 0)),
    Sizes(3, 6, 2, (0, 0, 0)),
    Sizes(2, 4, 2, (9, 3), "f32"),
    Sizes(2, 4, 2, (9, 3), "bf16"),
    Sizes(2, 4, 2, (9, 3), "f16"),
]


def types(sizes: Sizes) -> dict[str, str]:
    route, dtype = sizes.route, sizes.dtype
    tokens, grouped, experts = route.token_rows, route.grouped_rows, route.placement
    local = route.local_experts
    gate = "f64" if dtype == "f64" else "f32"
    return {
        "route": str(route),
        "x": f"tensor<?x{HIDDEN}x{dtype}, {tokens}>",
        "ids": f"tensor<?x{sizes.top}xi32, {tokens}>",
        "gate": f"tensor<?x{sizes.top}x{gate}, {tokens}>",
        "w13": f"tensor<{local}x{HIDDEN}x{2 * WIDTH}x{dtype}, {experts}>",
        "w2": f"tensor<{local}x{WIDTH}x{HIDDEN}x{dtype}, {experts}>",
        "recv": f"tensor<?x{HIDDEN}x{dtype}, {grouped}>",
        "h": f"tensor<?x{2 * WIDTH}x{dtype}, {grouped}>",
        "a": f"tensor<?x{WIDTH}x{dtype}, {grouped}>",
    }


LAYER = """
func.func @layer(%x: {x}, %ids: {ids}, %gate: {gate}, %w13: {w13}, %w2: {w2}) -> {x} {{
  %route = moe.route %ids : {ids} -> {route}
  %recv = moe.dispatch %x by %route : {x}, {route} -> {recv}
  %h = moe.grouped_matmul %recv, %w13 by %route : {recv}, {w13}, {route} -> {h}
  %a = moe.swiglu %h : {h} -> {a}
  %y = moe.grouped_matmul %a, %w2 by %route : {a}, {w2}, {route} -> {recv}
  %out = moe.combine %y, %gate by %route : {recv}, {gate}, {route} -> {x}
  func.return %out : {x}
}}
"""


def module_of(text: str, sizes: Sizes, level: str = "moe"):
    context = make_context()
    module = parse_module(context, text.format(**types(sizes)).encode(), "test")
    module.verify()
    if level == "comm":
        ConvertMoeToCommPass().apply(context, module)
        module.verify()
    return module


def draw(shape: Sequence[int], sizes: Sizes, rng: np.random.Generator) -> Array:
    """Normal numbers that the element type holds exactly."""
    values = rng.standard_normal(tuple(shape))
    match sizes.dtype:
        case "f64":
            return values
        case "bf16":
            return round_to(values.astype(np.float32), "bf16")
        case "f16":
            return round_to(values.astype(np.float32), "f16")
        case _:
            return values.astype(np.float32)


def inputs(sizes: Sizes, seed: int = 3) -> list[list[Array]]:
    rng = np.random.default_rng(seed)
    local = sizes.experts // sizes.ranks
    ranks = range(sizes.ranks)
    gate_type = np.float64 if sizes.dtype == "f64" else np.float32
    pick = [
        np.argsort(rng.random((t, sizes.experts)), axis=1)[:, : sizes.top] for t in sizes.tokens
    ]
    return [
        [draw((t, HIDDEN), sizes, rng) for t in sizes.tokens],
        [ids.astype(np.int32) for ids in pick],
        [rng.random((t, sizes.top)).astype(gate_type) for t in sizes.tokens],
        [draw((local, HIDDEN, 2 * WIDTH), sizes, rng) for _ in ranks],
        [draw((local, WIDTH, HIDDEN), sizes, rng) for _ in ranks],
    ]


def textbook(args: list[list[Array]]) -> list[Array]:
    """Token by token, expert by expert, in f64: no routes, no rows."""
    x, ids, gate, w13, w2 = args
    all_w13, all_w2 = (np.concatenate(w).astype(np.float64) for w in (w13, w2))
    results: list[Array] = []
    for rank_x, rank_ids, rank_gate in zip(x, ids, gate, strict=True):
        out = np.zeros(rank_x.shape)
        for t, experts in enumerate(rank_ids):
            for k, expert in enumerate(experts):
                g, u = np.split(rank_x[t].astype(np.float64) @ all_w13[expert], 2)
                out[t] += rank_gate[t, k] * ((g / (1 + np.exp(-g)) * u) @ all_w2[expert])
        results.append(out)
    return results


# Relative to the largest result: a few roundings of intermediate values, each half a unit.
TOLERANCE = {"f64": 1e-13, "f32": 1e-5, "f16": 4e-3, "bf16": 3e-2}


@pytest.mark.parametrize("level", ["moe", "comm"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_layer_is_the_textbook_formula(sizes: Sizes, level: str):
    args = inputs(sizes)
    (found,) = run_module(module_of(LAYER, sizes, level), None, args)
    for rank, (own, expected) in enumerate(zip(found, textbook(args), strict=True)):
        assert own.shape == (sizes.tokens[rank], HIDDEN)
        scale = np.abs(expected).max(initial=1)
        np.testing.assert_allclose(own / scale, expected / scale, atol=TOLERANCE[sizes.dtype])


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_levels_agree_bit_by_bit(sizes: Sizes):
    args = inputs(sizes)
    (moe,) = run_module(module_of(LAYER, sizes), "layer", args)
    (comm,) = run_module(module_of(LAYER, sizes, "comm"), "layer", args)
    for a, b in zip(moe, comm, strict=True):
        np.testing.assert_array_equal(a, b)


def test_bf16_results_are_bf16():
    sizes = SIZES[-2]
    (found,) = run_module(module_of(LAYER, sizes), None, inputs(sizes))
    for own in found:
        np.testing.assert_array_equal(own, round_to(own, "bf16"))


TRANSPOSED = """
func.func @forms(%x: {x}, %ids: {ids}, %w2: {w2}) -> ({recv}, {a}, {gradient}, {w_f32}) {{
  %route = moe.route %ids : {ids} -> {route}
  %recv = moe.dispatch %x by %route : {x}, {route} -> {recv}
  %a = moe.grouped_matmul %recv, %w2 by %route {{transpose_rhs}} : {recv}, {w2}, {route} -> {a}
  %g = moe.grouped_matmul %a, %recv by %route {{transpose_lhs}} : {a}, {recv}, {route} -> {gradient}
  %f = moe.grouped_matmul %a, %recv by %route {{transpose_lhs}} : {a}, {recv}, {route} -> {w_f32}
  func.return %recv, %a, %g, %f : {recv}, {a}, {gradient}, {w_f32}
}}
"""


@pytest.mark.parametrize("sizes", [s for s in SIZES if s.dtype == "f64"], ids=str)
def test_transposed_forms(sizes: Sizes):
    x, ids, _, _, w2 = inputs(sizes)
    w2_type = types(sizes)["w2"]
    text = TRANSPOSED.replace("{gradient}", w2_type)
    text = text.replace("{w_f32}", w2_type.replace("xf64", "xf32"))
    recv, a, gradient, narrow = run_module(module_of(text, sizes), None, [x, ids, w2])
    local = sizes.experts // sizes.ranks
    for rank in range(sizes.ranks):
        begin = 0
        for e in range(local):
            expert = rank * local + e
            # Receive order: by expert, source rank, token.
            sent = [x[s][(ids[s] == expert).any(axis=1)] for s in range(sizes.ranks)]
            rows = np.concatenate(sent)
            part = slice(begin, begin + len(rows))
            begin += len(rows)
            np.testing.assert_array_equal(recv[rank][part], rows)
            expected = rows @ w2[rank][e].T
            np.testing.assert_allclose(a[rank][part], expected, atol=1e-13)
            np.testing.assert_allclose(gradient[rank][e], expected.T @ rows, atol=1e-12)
            np.testing.assert_array_equal(narrow[rank][e], gradient[rank][e].astype(np.float32))
        assert begin == len(recv[rank])


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_route_is_what_the_device_builds(sizes: Sizes):
    ids = inputs(sizes)[1]
    counts = np.stack([count_tokens(own, sizes.experts) for own in ids])
    layout = RouteLayout(sizes.experts, sizes.ranks)
    flat = counts.reshape(sizes.ranks, 2 * sizes.experts)
    for rank, own in enumerate(ids):
        route = make_route(own, counts, rank, sizes.route)
        device = layout.build(flat, rank, sizes.route.rows.data)
        for name in ("sent_begin", "dest_begin", "received_begin", "return_begin"):
            begin = getattr(layout, name)
            expected = getattr(route, name)
            np.testing.assert_array_equal(device[begin : begin + expected.size], expected, name)
        check_orders(route, own)


def check_orders(route: RankRoute, ids: Array) -> None:
    """The send order is sorted by (expert, token), and `position` is its inverse."""
    pairs = [(ids[t, k], t, k) for t in range(ids.shape[0]) for k in range(ids.shape[1])]
    for row, (_, token, k) in enumerate(sorted(pairs)):
        assert route.tokens[row] == token
        assert route.order[row] == token * ids.shape[1] + k
        assert route.position[token, k] == row


@pytest.mark.parametrize("level", ["moe", "comm"])
@pytest.mark.parametrize(
    "ids, message",
    [
        ([[0, 6]], "rank 1, token 0: expected expert ids from 0 to 5, found 6"),
        ([[0, 1], [-1, 2]], "rank 1, token 1: expected expert ids from 0 to 5, found -1"),
        ([[0, 1], [4, 4]], "rank 1, token 1: expected different experts, found expert 4 twice"),
    ],
)
def test_bad_ids_are_refused(ids: list[list[int]], message: str, level: str):
    sizes = Sizes(2, 6, 2, (2, len(ids)))
    args = inputs(sizes)
    args[1][1] = np.array(ids, np.int32)
    with pytest.raises(InterpretationError) as error:
        run_module(module_of(LAYER, sizes, level), None, args)
    assert str(error.value) == message


@pytest.mark.parametrize("level", ["moe", "comm"])
def test_more_rows_than_the_capacity_are_refused(level: str):
    sizes = Sizes(2, 6, 2, (3, 4))
    args = inputs(sizes)
    args[1] = [np.tile([3, 5], (t, 1)).astype(np.int32) for t in sizes.tokens]
    lossless = str(sizes.route)
    assert lossless.endswith("16 rows>")
    text = LAYER.format(**types(sizes)).replace("16 rows", "13 rows")
    module = module_of(text.replace("{", "{{").replace("}", "}}"), sizes, level)
    with pytest.raises(InterpretationError) as error:
        run_module(module, None, args)
    assert str(error.value) == (
        "rank 1: expected at most 13 rows to receive, the capacity, found 14"
    )


def test_values_that_do_not_fit_are_refused():
    sizes = Sizes(2, 6, 2, (3, 4))
    module = module_of(LAYER, sizes)
    too_many = inputs(Sizes(2, 6, 2, (3, 5)))
    with pytest.raises(InterpretationError) as error:
        run_module(module, None, too_many)
    assert str(error.value) == (
        "@layer, argument 0, rank 1: expected a value of tensor<?x12xf64, #moe.tokens<4 rows>>, "
        "found an array of shape [5, 12]"
    )
    args = inputs(sizes)
    with pytest.raises(InterpretationError) as error:
        run_module(module, None, [*args[:1], args[0], *args[2:]])
    assert str(error.value) == (
        "@layer, argument 1, rank 0: expected a value of tensor<?x2xi32, #moe.tokens<4 rows>>, "
        "found an array of shape [3, 12]"
    )
    with pytest.raises(InterpretationError) as error:
        run_module(module, None, [*args[:1], args[2], *args[2:]])
    assert str(error.value) == "@layer, argument 1, rank 0: expected integers, found float64"
    with pytest.raises(InterpretationError) as error:
        run_module(module, None, args[:3])
    assert str(error.value) == "@layer: expected 5 arguments, found 3"
    with pytest.raises(InterpretationError) as error:
        run_module(module, "other", args)
    assert str(error.value) == "expected a function @other with a body, found 0"
    with pytest.raises(InterpretationError) as error:
        run_module(module, None, [a + a[:1] for a in args])
    assert str(error.value) == "expected values of 2 ranks, found 3"
