"""`hpmoe run --check` on router weights at the ends of their range: right runs pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hpmoe_ir.tools.hpmoe import main

TOKENS = 8
LAYER = ["--preset", "deepseek-v3-tiny", "--hidden", "32", "--width", "16", "--ranks", "2"]
SIZES = ["--experts", "4", "--top-k", "2", "--tokens", str(TOKENS)]

WEIGHTS: dict[str, list[float]] = {
    "near the largest number": [3e38],
    "near the largest number, both signs": [3e38, -3e38, 3e38],
    "subnormal": [1e-39, 1e-40, 3e-42],
    "subnormal beside large": [1e-39, 1.0, 1e30],
    "zero": [0.0, 1.0, 0.0],
    "zero alone": [0.0],
    "far from each other": [1e30, 1e-30, -1e20, 1e-10],
}


def routing(folder: Path, weights: list[float]) -> Path:
    """Writes a routing whose weights repeat `weights`."""
    rng = np.random.default_rng(3)
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
    for rank in range(2):
        ids = np.argsort(rng.random((TOKENS, 4)), axis=1)[:, :2]
        arrays[f"ids.{rank}"] = ids.astype(np.int32)
        arrays[f"gate.{rank}"] = np.resize(np.array(weights, np.float32), (TOKENS, 2))
    path = folder / "routing.npz"
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return path


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_right_run_passes(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = routing(tmp_path, WEIGHTS[name])
    options = [*LAYER, *SIZES, "--routing", str(path), "--level", "queue", "--check"]
    with pytest.raises(SystemExit) as stop:
        main(["run", *options])
    out = capsys.readouterr()
    assert stop.value.code == 0, out.err + out.out
    assert "check     passed against MindSpore" in out.out


def test_weights_as_small_as_a_rounding_are_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the least number makes of a row may be zero."""
    path = routing(tmp_path, [1e-45])
    options = [*LAYER, *SIZES, "--routing", str(path), "--level", "queue", "--check"]
    with pytest.raises(SystemExit) as stop:
        main(["run", *options])
    assert stop.value.code == 3
    out = capsys.readouterr().out
    assert "output: rounding errors may be as large as the result itself" in out


def test_subnormal_weights_that_are_flushed_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that flushes what the reference keeps is seen."""
    from hpmoe_ir.interpreter import moe

    def flushed(x: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> object:
        return np.where(np.abs(x) < 2.0**-126, np.float32(0), x)

    right = moe._sums  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(
        moe,
        "_sums",
        lambda back, weights, *rest: right(back, [flushed(w) for w in weights], *rest),  # pyright: ignore
    )
    path = routing(tmp_path, [1e-39])
    options = [*LAYER, *SIZES, "--routing", str(path), "--level", "moe", "--check"]
    with pytest.raises(SystemExit) as stop:
        main(["run", *options])
    assert stop.value.code == 1
    assert "check failed: launch 1" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["subnormal", "far from each other", "zero"])
def test_right_gradients_pass(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = routing(tmp_path, WEIGHTS[name])
    options = [*LAYER, *SIZES, "--routing", str(path), "--level", "queue", "--check"]
    with pytest.raises(SystemExit) as stop:
        main(["run", *options, "--direction", "both"])
    out = capsys.readouterr()
    assert stop.value.code == 0, out.err + out.out
    assert "gradients passed against MindSpore" in out.out
