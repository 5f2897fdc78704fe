"""Which values of a task's tile count as wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from hpmoe_ir.run.first_wrong_task import _difference  # pyright: ignore[reportPrivateUsage]


def difference(expected: list[float], found: list[float]) -> str:
    """What is said of a tile."""

    def memory(values: list[float]) -> Any:
        tile = SimpleNamespace(array=np.array([values], np.float32))
        return SimpleNamespace(tile=lambda region: tile)  # pyright: ignore[reportUnknownLambdaType]

    region = cast(Any, SimpleNamespace(buffer="y", scatter=False))
    return _difference(memory(expected), memory(found), region, "bf16")


@pytest.mark.parametrize(
    "values", [[np.inf, 1.0], [-np.inf, -np.inf], [np.nan, np.inf], [1e-39, 1e-40], [0.0, -0.0]]
)
def test_equal_values_are_right(values: list[float]) -> None:
    assert difference(values, values) == ""


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ([-np.inf, 1.0], [np.inf, 1.0]),
        ([np.inf, 1.0], [3e38, 1.0]),
        ([np.inf, 1.0], [np.inf, 2.0]),
        ([np.nan, 1.0], [0.0, 1.0]),
        ([0.01, 0.02], [0.0, 0.0]),
    ],
)
def test_other_values_are_wrong(expected: list[float], found: list[float]) -> None:
    assert difference(expected, found).startswith("@y, [0, ")
