"""The bounds let honest roundings pass and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from layer_bounds import compare, tolerance
from numpy_layer import numpy_layer

from hpmoe_ir.dtypes import Dtype, Float32Array, round_to
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import LayerValues, all_tokens, make_values
from hpmoe_ir.run.oracle import expert_rows
from hpmoe_ir.run.tolerance import Comparison

SIZES = [
    LayerConfig("narrow", hidden=16, width=16, experts=8, top_k=2, ranks=2, tokens=40),
    LayerConfig("deep", hidden=112, width=32, experts=32, top_k=8, ranks=4, tokens=24),
    LayerConfig("wide", hidden=1024, width=352, experts=4, top_k=2, ranks=2, tokens=16),
    LayerConfig("single", hidden=64, width=224, experts=8, top_k=1, ranks=2, tokens=16),
]
COUNTS = {2: [13, 16], 4: [24, 0, 7, 24]}


@dataclass
class Machine:
    """A run in NumPy that rounds where the device does, with one place to go wrong."""

    values: LayerValues
    recv: Callable[[Float32Array], None] = lambda recv: None
    h: Callable[[Float32Array], None] = lambda h: None
    a: Callable[[Float32Array], None] = lambda a: None
    y: Callable[[Float32Array], None] = lambda y: None
    gates: Callable[[Float32Array], None] = lambda gates: None
    skip_hidden: int = 0
    skip_width: int = 0
    stored: Dtype | None = None
    """Element type of h, if not the layer's."""

    def run(self) -> Comparison:
        """The comparison of this run with float64.

        The hooks change the rows of the busiest expert (y: of all pairs, gates: of all tokens).
        """
        config = self.values.config
        dtype = config.dtype
        x = all_tokens(self.values.x, dtype)
        ids = np.concatenate([rank.ids for rank in self.values.routing])
        gates = np.concatenate([rank.gates for rank in self.values.routing])
        w13, w2 = all_tokens(self.values.w13, dtype), all_tokens(self.values.w2, dtype)
        self.gates(gates)
        copies = np.zeros((ids.size, config.hidden), np.float32)
        rows = expert_rows(config, ids)
        busiest = max(range(config.experts), key=lambda expert: rows[expert].size)
        for expert, pairs in enumerate(rows):
            hit = expert == busiest
            recv = x[pairs // config.top_k]
            up, down = w13[expert].copy(), w2[expert].copy()
            if hit:
                self.recv(recv)
                up[: self.skip_hidden] = 0
                down[: self.skip_width] = 0
            h = round_to(recv @ up, self.stored or dtype)
            if hit:
                self.h(h)
            g = h[:, : config.width]
            a = round_to(g / (1 + np.exp(-g)) * h[:, config.width :], dtype)
            if hit:
                self.a(a)
            copies[pairs] = round_to(a @ down, dtype)
        y = copies.reshape(*ids.shape, config.hidden)
        self.y(y)
        out = round_to((y * gates[:, :, None]).sum(axis=1), dtype)
        ends = np.cumsum(self.values.tokens)[:-1]
        return compare(np.split(out, ends), numpy_layer(self.values), tolerance(self.values))


def layer_values(config: LayerConfig, seed: int = 0) -> LayerValues:
    return make_values(config, COUNTS[config.ranks], parse_routing("zipf:1.2"), seed)


@pytest.fixture(params=["bf16", "f16"])
def dtype(request: pytest.FixtureRequest) -> Dtype:
    return request.param


@pytest.fixture(params=SIZES, ids=lambda config: config.name)
def values(request: pytest.FixtureRequest, dtype: Dtype) -> LayerValues:
    return layer_values(request.param.with_sizes(dtype=dtype))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("config", SIZES, ids=lambda config: config.name)
def test_honest_runs_pass(config: LayerConfig, dtype: Dtype, seed: int):
    result = Machine(layer_values(config.with_sizes(dtype=dtype), seed)).run()
    assert result.passed
    assert result.elements == sum(COUNTS[config.ranks]) * config.hidden
    # Not far from the bound, or the bound would be of little use.
    assert 0.1 < result.largest_ratio < 0.8


def shift_rows(rows: Float32Array) -> None:
    rows[1] = rows[0]


def exchange_halves(h: Float32Array) -> None:
    h[0] = np.roll(h[0], h.shape[1] // 2)


def drop_tile(rows: Float32Array) -> None:
    rows[0, :16] = 0


def drop_expert(y: Float32Array) -> None:
    y[3, 0] = 0


def drop_gate(gates: Float32Array) -> None:
    gates[5] = 1


@pytest.mark.parametrize("where", ["recv", "h", "a"])
def test_a_row_off_by_one_fails(values: LayerValues, where: str):
    hook: dict[str, Any] = {where: shift_rows}
    assert not Machine(values, **hook).run().passed


@pytest.mark.parametrize("where", ["recv", "h", "a"])
def test_a_missing_block_of_columns_fails(values: LayerValues, where: str):
    hook: dict[str, Any] = {where: drop_tile}
    assert not Machine(values, **hook).run().passed


def test_exchanged_halves_fail(values: LayerValues):
    assert not Machine(values, h=exchange_halves).run().passed


def test_a_missing_expert_fails(values: LayerValues):
    result = Machine(values, y=drop_expert).run()
    assert not result.passed
    assert "rank 0, output[3, " in str(result)


def test_missing_gate_weights_fail(values: LayerValues):
    assert not Machine(values, gates=drop_gate).run().passed


@pytest.mark.parametrize("config", SIZES[:3], ids=lambda config: config.name)
def test_exchanged_gate_weights_fail(config: LayerConfig, dtype: Dtype):
    def exchange(gates: Float32Array) -> None:
        far = np.ptp(gates, axis=1).argmax()
        low, high = gates[far].argmin(), gates[far].argmax()
        gates[far, [low, high]] = gates[far, [high, low]]

    values = layer_values(config.with_sizes(dtype=dtype))
    assert not Machine(values, gates=exchange).run().passed


def test_a_short_reduction_fails(values: LayerValues):
    assert not Machine(values, skip_hidden=16).run().passed
    assert not Machine(values, skip_width=16).run().passed


@pytest.mark.parametrize("config", SIZES, ids=lambda config: config.name)
def test_half_precision_stored_as_bfloat16_fails(config: LayerConfig):
    values = layer_values(config.with_sizes(dtype="f16"))
    assert not Machine(values, stored="bf16").run().passed


def test_values_that_are_no_numbers_fail(values: LayerValues):
    def poison(y: Float32Array) -> None:
        y[2, 0, 5] = np.nan

    result = Machine(values, y=poison).run()
    assert not result.passed
    assert result.largest_error == np.inf
    assert "rank 0, output[2, 5]: expected" in result.worst
    assert result.worst.endswith("found nan")


def test_nothing_to_compare_passes():
    values = make_values(SIZES[0], [0, 0], parse_routing("uniform"), 1)
    result = compare([np.zeros((0, 16))] * 2, numpy_layer(values), tolerance(values))
    assert result.passed
    assert result.elements == 0
    assert str(result) == "largest error 0, 0.00 of the tolerance (within)"


def test_another_shape_is_refused():
    values = layer_values(SIZES[0])
    with pytest.raises(
        ValueError, match=r"rank 0: expected output of \(13, 16\), found \(12, 16\)"
    ):
        compare([np.zeros((12, 16))] * 2, numpy_layer(values), tolerance(values))
