"""Compiled layers in directories, right ones and broken ones, for tests that run them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from hpmoe_ir.frontends.build_layer import FUNCTION
from hpmoe_ir.layer.routing import RankRouting, write_routing
from hpmoe_ir.tools.hpmoe import main

PRESET = ["--preset", "deepseek-v3-tiny"]
BACKWARD = f"{FUNCTION}_backward"


def hpmoe(*words: str) -> int:
    """Exit status of a command."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert isinstance(stop.value.code, int)
    return stop.value.code


def failure(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that fails writes to standard error."""
    capsys.readouterr()
    assert hpmoe(*words) == 1
    return capsys.readouterr().err


class LayerTests:
    """Tests that run one layer with its gradients, of the sizes that a subclass says."""

    SIZES: ClassVar[str]
    """Options of `hpmoe compile`."""

    @pytest.fixture(scope="class")
    @classmethod
    def layer(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """The directory of the compiled layer, for all tests of the class."""
        directory = tmp_path_factory.mktemp(cls.__name__) / "layer"
        words = [*PRESET, *cls.SIZES.split(), "--direction", "both", "-o", str(directory)]
        if "-p" not in words and "--schedule" not in words:
            words += ["--schedule", "depth-first"]
        assert hpmoe("compile", *words) == 0
        return directory


def routed_by(path: Path, ids: Sequence[npt.NDArray[np.int32]]) -> list[str]:
    """Options of `hpmoe run` for a routing, which is written to `path`.

    ids: the experts [T, K] of each rank's tokens, which all get the same gate.
    """
    gates = [np.full(i.shape, 1 / i.shape[1], np.float32) for i in ids]
    write_routing(path, [RankRouting(i, g) for i, g in zip(ids, gates, strict=True)])
    return ["--routing", str(path)]


def changed(right: Path, directory: Path, name: str, change: Callable[[str], str]) -> Path:
    """A copy of the layer in `directory`, with a change of the device source of one function."""
    shutil.copytree(right, directory)
    path = directory / name / "device.cpp"
    path.write_text(change(path.read_text()))
    return directory


def broken(right: Path, directory: Path, name: str, function: str, old: str, new: str) -> Path:
    """The layer with one text for another in one C++ function of a device source."""

    def change(source: str) -> str:
        start = source.index(f" {function}(")
        end = source.index("\n}\n", start)
        body = source[start:end]
        assert old in body, body
        return source[:start] + body.replace(old, new) + source[end:]

    return changed(right, directory, name, change)
