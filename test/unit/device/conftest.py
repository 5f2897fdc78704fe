"""Builds the C++ programs of this folder once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from hpmoe_ir.dtypes import (
    Dtype,
    from_bits,
    round_to,
    to_bits,
    underflow_error,
    unit_roundoff,
)
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.runtime.cpu_build import KernelEntry, build
from hpmoe_ir.runtime.cpu_model import RankLaunch, execute

MACHINE = load_machine("ascend-a3")
DEVICE_DIR = Path(__file__).parents[3] / "hpmoe_ir" / "runtime" / "device"
INCLUDES = (DEVICE_DIR, Path(__file__).parent)

KERNELS = (
    "count",
    "exchange",
    "place",
    "route",
    "copy",
    "gather",
    "swiglu",
    "weighted_sum",
    "matmul",
)

BACKWARD_KERNELS = (
    "scaled",
    "sum_copies",
    "gate_gradient",
    "swiglu_grad",
    "add_rows",
    "weight_gradient",
)


@dataclass
class Kernels:
    """Runs tile kernels, one at a time."""

    executable: Path
    entry: KernelEntry
    names: Sequence[str]

    UNTOUCHED: ClassVar[int] = 0x7FBD
    """Content of a 16-bit word of memory before its first write."""

    @staticmethod
    def values(
        shape: tuple[int, ...], dtype: Dtype, seed: int, scale: float = 1.0
    ) -> npt.NDArray[np.float64]:
        """Random numbers that the element type holds exactly."""
        numbers = np.random.default_rng(seed).standard_normal(shape) * scale
        return round_to(numbers, dtype).astype(np.float64)

    @staticmethod
    def check(
        got: npt.NDArray[np.float32],
        expected: npt.NDArray[np.float64],
        error: npt.NDArray[np.float64],
        dtype: Dtype,
    ) -> None:
        """Asserts equality within `error`, the error before rounding to the element type."""
        assert got.shape == expected.shape
        bound = error + unit_roundoff(dtype) * (np.abs(expected) + error) + underflow_error(dtype)
        off = np.abs(got - expected) / bound
        off[np.isnan(off)] = np.inf
        worst = np.unravel_index(off.argmax(), off.shape)
        assert off.max() <= 1, f"{worst}: expected {expected[worst]}, found {got[worst]}"

    @staticmethod
    def pitched(values: npt.NDArray[Any], pitch: int, dtype: Dtype) -> npt.NDArray[Any]:
        """Returns raw rows `pitch` elements apart, with NaN between them."""
        bits = to_bits(values, dtype)
        raw = np.full((bits.shape[0], pitch), Kernels.UNTOUCHED, bits.dtype)
        raw[:, : bits.shape[1]] = bits
        return raw

    @staticmethod
    def rows_of(
        raw: npt.NDArray[np.uint8], rows: int, cols: int, pitch: int, dtype: Dtype
    ) -> npt.NDArray[np.float32]:
        """Returns the values of the rows; asserts that nothing was written between them."""
        if dtype == "f32":
            untouched = Kernels.UNTOUCHED * 0x10001
            words: npt.NDArray[Any] = raw.view(np.uint32).reshape(rows, pitch)
        else:
            untouched = Kernels.UNTOUCHED
            words = raw.view(np.uint16).reshape(rows, pitch)
        assert (words[:, cols:] == untouched).all(), "written between the rows"
        return from_bits(words[:, :cols], dtype)

    def run(
        self,
        kernel: str,
        inputs: Sequence[npt.NDArray[Any]],
        outputs: Sequence[int | npt.NDArray[Any]],
        *,
        dtype: Dtype = "bf16",
        aics: int = 1,
        seed: int = 0,
        **scalars: int,
    ) -> list[npt.NDArray[np.uint8]]:
        """Runs a kernel and returns the bytes of its outputs.

        outputs: the size in bytes of an output, or the content of one that the kernel changes.
        """
        arrays: dict[str, npt.NDArray[Any] | int] = {}
        for i, name in enumerate(self.entry.pointers[:3]):
            given = i < len(inputs) and inputs[i].size
            arrays[name] = inputs[i] if given else np.zeros(64, np.uint8)
        names = self.entry.pointers[3:]
        for i, name in enumerate(names):
            arrays[name] = outputs[i] if i < len(outputs) else 64
        changed = tuple(name for name in names if not isinstance(arrays[name], int))
        values = dict.fromkeys(self.entry.scalars, 0) | scalars
        values["kernel"] = self.names.index(kernel)
        values["halves"] = int(dtype == "f16")
        result = execute(
            self.executable,
            self.entry,
            [[RankLaunch(arrays, values, changed)]],
            aics=aics,
            machine=MACHINE,
            seed=seed,
            seconds=120,
        )[0][0]
        return [result[name] for name in names[: len(outputs)]]


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    pointers = ("in0", "in1", "in2", "out0", "out1")
    scalars = ("kernel", "halves", "variant", "rows", "cols", "inner")
    scalars += ("in_pitch", "out_pitch", "limit", "shares")
    entry = KernelEntry("kernels", pointers, scalars)
    source = Path(__file__).parent / "kernels.cpp"
    return Kernels(build(source, entry, INCLUDES), entry, KERNELS)


@pytest.fixture(scope="session")
def backward(kernels: Kernels) -> Kernels:
    """The kernels of the backward direction; `sums` is the output that is added to."""
    pointers = ("in0", "in1", "in2", "out0", "sums")
    entry = KernelEntry("backward_kernels", pointers, kernels.entry.scalars)
    source = Path(__file__).parent / "backward_kernels.cpp"
    return Kernels(build(source, entry, INCLUDES), entry, BACKWARD_KERNELS)
