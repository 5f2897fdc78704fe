"""Kernels of the operators. Those without a function in `outside.h` run in NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpmoe_ir.kernels.kernel import AscendCFunction, Kernel, TileOperand, TileView
from hpmoe_ir.machines.core_kind import CoreKind

INCLUDE = Path(__file__).parent / "include"

Rows = np.ndarray[Any, np.dtype[Any]]


def _gelu(x: Rows) -> Rows:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def _rms_norm(x: Rows) -> Rows:
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6)


def _softmax(x: Rows) -> Rows:
    powers = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis=1, keepdims=True)


def _noise(x: Rows) -> Rows:
    return x + np.random.default_rng().standard_normal(x.shape)


def _mul(a: Rows, b: Rows) -> Rows:
    return a * b


def _quarters(x: Rows) -> Rows:
    return np.round(4 * x) / 4


def _relu(x: Rows) -> Rows:
    return np.maximum(x, 0)


def _scale(x: Rows, divisor: int) -> Rows:
    return x / divisor


def _softcap(x: Rows) -> Rows:
    return 2 * np.tanh(x / 2)


def _square(x: Rows) -> Rows:
    return x * x


def _squared_relu(x: Rows) -> Rows:
    return np.maximum(x, 0) ** 2


def _squared_relu_grad(x: Rows, gradient: Rows) -> Rows:
    return 2 * np.maximum(x, 0) * gradient


def _kernel(
    name: str, function: str, compute: Callable[..., Rows], reads: int = 1, option: str = ""
) -> Kernel:
    def reference(
        tiles: Sequence[TileView],
        writes: Sequence[TileView],
        options: Mapping[str, int],
        _: Sequence[int],
    ) -> None:
        writes[0].store(compute(*(tile.array for tile in tiles), **options))

    return Kernel(
        name=f"outside_{name}",
        core=CoreKind.AIV,
        reads=tuple(TileOperand(f"rows{i}") for i in range(reads)),
        writes=(TileOperand("out"),),
        ascendc=AscendCFunction(
            f"outside_operators::{function}", "outside_operators/outside.h", INCLUDE
        ),
        reference=reference,
        options=(option,) if option else (),
    )


GELU = _kernel("gelu", "Gelu", _gelu)
MUL = _kernel("mul", "Mul", _mul, reads=2)
NOISE = _kernel("noise", "Noise", _noise)
QUARTERS = _kernel("quarters", "Quarters", _quarters)
RELU = _kernel("relu", "Relu", _relu)
RMS_NORM = _kernel("rms_norm", "RmsNorm", _rms_norm)
SCALE = _kernel("scale", "Scale", _scale, option="divisor")
SOFTCAP = _kernel("softcap", "Softcap", _softcap)
SOFTMAX = _kernel("softmax", "Softmax", _softmax)
SQUARE = _kernel("square", "Square", _square)
SQUARED_RELU = _kernel("squared_relu", "SquaredRelu", _squared_relu)
SQUARED_RELU_GRAD = _kernel("squared_relu_grad", "SquaredReluGrad", _squared_relu_grad, reads=2)
