"""The bounds of gradients: honest runs are well inside, the faults of a wrong program outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from layer_bounds import compare_gradients, gradient_tolerance

from hpmoe_ir.dtypes import Dtype, Float64Array
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import LayerValues, make_values
from hpmoe_ir.run.oracle import Oracle
from hpmoe_ir.run.tolerance import ResultBounds


@dataclass(frozen=True)
class Case:
    """Values of a layer, MindSpore's gradients for them, and the bounds."""

    values: LayerValues
    exact: list[dict[str, Float64Array]]
    bounds: dict[str, ResultBounds]


@pytest.fixture(scope="module", params=["bf16", "f16"])
def case(request: pytest.FixtureRequest) -> Case:
    dtype: Dtype = request.param
    config = preset_layer("deepseek-v3-tiny", dtype=dtype, ranks=2)
    values = make_values(config, [64, 33], parse_routing("zipf:1.2"), 5)
    with Oracle() as oracle:
        return Case(values, oracle.gradients(values), gradient_tolerance(values))


def busiest(values: LayerValues) -> int:
    """The expert of rank 0 that gets most rows."""
    ids = np.concatenate([rank.ids.ravel() for rank in values.routing])
    return int(np.bincount(ids[ids < values.config.local_experts]).argmax())


def drop_copy(values: LayerValues, g: list[dict[str, Float64Array]]) -> None:
    """The gradient of a token lacks one of its two copies: half of it, about."""
    g[0]["dx"][3] *= 0.5


def shift_rows(values: LayerValues, g: list[dict[str, Float64Array]]) -> None:
    g[1]["dx"][...] = np.roll(g[1]["dx"], 1, axis=0)


def swap_gates(values: LayerValues, g: list[dict[str, Float64Array]]) -> None:
    g[0]["dgate"][...] = g[0]["dgate"][:, ::-1].copy()


def missing_block(values: LayerValues, g: list[dict[str, Float64Array]]) -> None:
    g[0]["dw13"][busiest(values), :, 16:32] = 0


def wrong_expert(values: LayerValues, g: list[dict[str, Float64Array]]) -> None:
    g[0]["dw2"][...] = np.roll(g[0]["dw2"], 1, axis=0)


def one_row_less(values: LayerValues, g: list[dict[str, Float64Array]]) -> None:
    """A weight gradient lacks the row of one token: its outer product."""
    expert = busiest(values)
    rows = sum(int((rank.ids == expert).sum()) for rank in values.routing)
    g[0]["dw13"][expert] *= 1 - 1 / rows


def old_memory(values: LayerValues, g: list[dict[str, Float64Array]]) -> None:
    """An expert without tokens has what was in memory before, however small."""
    ids = np.concatenate([rank.ids.ravel() for rank in values.routing])
    local = values.config.local_experts
    empty = int(np.flatnonzero(np.bincount(ids, minlength=2 * local)[:local] == 0)[0])
    g[0]["dw2"][empty, 0, 0] = 1e-20


def not_a_number(values: LayerValues, g: list[dict[str, Float64Array]]) -> None:
    g[1]["dgate"][0, 0] = np.nan


FAULTS: tuple[Callable[[LayerValues, list[dict[str, Float64Array]]], None], ...] = (
    drop_copy,
    shift_rows,
    swap_gates,
    missing_block,
    wrong_expert,
    one_row_less,
    old_memory,
    not_a_number,
)


def test_exact_gradients_pass(case: Case) -> None:
    result = compare_gradients(case.exact, case.exact, case.bounds)
    assert result.passed
    assert result.largest_error == 0


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_faults_fail(
    fault: Callable[[LayerValues, list[dict[str, Float64Array]]], None],
    case: Case,
) -> None:
    wrong = [{name: a.copy() for name, a in rank.items()} for rank in case.exact]
    fault(case.values, wrong)
    result = compare_gradients(wrong, case.exact, case.bounds)
    assert not result.passed
    assert result.worst.startswith("rank ")
