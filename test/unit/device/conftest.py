"""The programs of this folder, built once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from hpmoe_ir.dtypes import Dtype, from_bits, to_bits
from hpmoe_ir.machine import load_machine
from hpmoe_ir.runtime.cpu_model import KernelEntry, RankLaunch, build, execute

MACHINE = load_machine("ascend-a3")
DEVICE_DIR = Path(__file__).parents[3] / "hpmoe_ir" / "runtime" / "device"

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


@dataclass
class Kernels:
    """The tile kernels, one at a time."""

    executable: Path
    entry: KernelEntry

    UNTOUCHED: ClassVar[int] = 0x7FBD
    """What a 16-bit word of memory that was never written holds."""

    @staticmethod
    def pitched(values: npt.NDArray[Any], pitch: int, dtype: Dtype) -> npt.NDArray[Any]:
        """Raw rows `pitch` elements apart, with NaN between them."""
        bits = to_bits(values, dtype)
        raw = np.full((bits.shape[0], pitch), Kernels.UNTOUCHED, bits.dtype)
        raw[:, : bits.shape[1]] = bits
        return raw

    @staticmethod
    def rows_of(
        raw: npt.NDArray[np.uint8], rows: int, cols: int, pitch: int, dtype: Dtype
    ) -> npt.NDArray[np.float32]:
        """Values of the rows; what lies between them must be untouched."""
        words = raw.view(np.uint16).reshape(rows, pitch)
        assert (words[:, cols:] == Kernels.UNTOUCHED).all(), "written between the rows"
        return from_bits(words[:, :cols], dtype)

    def run(
        self,
        kernel: str,
        inputs: Sequence[npt.NDArray[Any]],
        outputs: Sequence[int],
        *,
        dtype: Dtype = "bf16",
        blocks: int = 1,
        seed: int = 0,
        **scalars: int,
    ) -> list[npt.NDArray[np.uint8]]:
        """Bytes of the outputs, whose sizes in bytes are given."""
        none = np.zeros(64, np.uint8)
        arrays: dict[str, npt.NDArray[Any] | int] = {}
        for i in range(3):
            arrays[f"in{i}"] = inputs[i] if i < len(inputs) else none
        for i in range(2):
            arrays[f"out{i}"] = outputs[i] if i < len(outputs) else 64
        names = self.entry.scalars
        values = dict.fromkeys(names, 0) | scalars
        values["kernel"] = KERNELS.index(kernel)
        values["halves"] = int(dtype == "f16")
        result = execute(
            self.executable,
            self.entry,
            [[RankLaunch(arrays, values)]],
            blocks=blocks,
            machine=MACHINE,
            seed=seed,
            seconds=120,
        )[0][0]
        return [result[f"out{i}"] for i in range(len(outputs))]


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    pointers = ("in0", "in1", "in2", "out0", "out1")
    scalars = ("kernel", "halves", "variant", "rows", "cols", "inner")
    scalars += ("in_pitch", "out_pitch", "limit")
    entry = KernelEntry("kernels", pointers, scalars)
    return Kernels(build(Path(__file__).parent / "kernels.cpp", entry, [DEVICE_DIR]), entry)
