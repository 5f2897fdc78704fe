"""Builds the C++ programs of this folder once, and runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.runtime.cpu_build import KernelEntry, build
from hpmoe_ir.runtime.cpu_model import RankLaunch, execute

MACHINE = load_machine("ascend-a3")

Arrays = dict[str, npt.NDArray[Any] | int]
Outputs = dict[str, npt.NDArray[np.uint8]]


@dataclass
class Program:
    """One of the C++ programs."""

    entry: KernelEntry
    executable: Path

    def launch(
        self, launches: Sequence[Sequence[RankLaunch]], **options: Any
    ) -> list[list[Outputs]]:
        """Runs launches; returns the outputs by launch and rank."""
        options = {"aics": 1, "machine": MACHINE, "seconds": 60} | options
        return execute(self.executable, self.entry, launches, **options)

    def run(
        self, arrays: Arrays, scalars: dict[str, int], ranks: int = 1, **options: Any
    ) -> Outputs:
        """Runs one launch, the same on all ranks; returns the outputs of rank 0."""
        launch = [RankLaunch(arrays, scalars) for _ in range(ranks)]
        return self.launch([launch], **options)[0][0]


@pytest.fixture(scope="session")
def program() -> Callable[[str, str, str], Program]:
    """Builds NAME.cpp with kernel NAME; argument names are separated by spaces."""

    def make(name: str, pointers: str, scalars: str) -> Program:
        entry = KernelEntry(name, tuple(pointers.split()), tuple(scalars.split()))
        return Program(entry, build(Path(__file__).parent / f"{name}.cpp", entry, []))

    return make
