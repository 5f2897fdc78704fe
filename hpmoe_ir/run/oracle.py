"""Reference results of MindSpore, independent of this project's arithmetic.

`Oracle` computes a layer with MindSpore on the CPU in a separate process: in float64 throughout, on
inputs rounded to the layer's element type, for the experts and tokens of all ranks together. In
float32 MindSpore would flush subnormal router weights to zero.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.frontends.mindspore_process import (
    MINDSPORE_MISSING,
    mindspore_environment,
    mindspore_installed,
)
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.values import LayerValues, all_tokens

SERVER = Path(__file__).with_name("oracle_server.py")

GRADIENTS = ("dx", "dgate", "dw13", "dw2")
"""Names of a layer's gradients, in the order of the backward function's results."""

START_SECONDS = 120.0
CASE_SECONDS = 600.0


class OracleError(RuntimeError):
    """MindSpore is not installed, reported an error, or terminated."""


class Oracle:
    """A MindSpore process that computes layers; a context manager.

    The process starts with the first case (about two seconds) and is reused for later ones.
    """

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._cases = 0
        self.version = ""
        """Version of MindSpore; empty until the first case has run."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def layer(self, values: LayerValues) -> list[Float64Array]:
        """Returns the output of each rank, float64 [t_r, H]. Raises OracleError."""
        tokens = values.tokens
        if sum(tokens) == 0:
            return [np.zeros((0, values.config.hidden)) for _ in tokens]
        return split_ranks(self._run(_inputs(values))["out"], tokens)

    def gradients(self, values: LayerValues) -> list[dict[str, Float64Array]]:
        """Returns the gradients of sum(out * dout) for each rank, by name, in float64.

        dx [t_r, H], dgate [t_r, K], dw13 [L, H, 2I], dw2 [L, I, H]. Raises OracleError.
        """
        config, tokens = values.config, values.tokens
        if sum(tokens) == 0:
            dw13 = np.zeros((config.local_experts, config.hidden, 2 * config.width))
            dw2 = np.zeros((config.local_experts, config.width, config.hidden))
            dx, dgate = np.zeros((0, config.hidden)), np.zeros((0, config.top_k))
            empty = (dx, dgate, dw13, dw2)
            return [dict(zip(GRADIENTS, empty, strict=True)) for _ in tokens]
        dout = all_tokens(values.dout, config.dtype)
        found = self._run({**_inputs(values), "dout": dout.astype(np.float64)})
        by_rank = (
            split_ranks(found["dx"], tokens),
            split_ranks(found["dgates"], tokens),
            np.split(found["dw13"], config.ranks),
            np.split(found["dw2"], config.ranks),
        )
        return [dict(zip(GRADIENTS, rank, strict=True)) for rank in zip(*by_rank, strict=True)]

    def close(self) -> None:
        """Terminates the process; a later case starts a new one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def _run(self, arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, Float64Array]:
        process, directory = self._start()
        self._cases += 1
        case = directory / f"case{self._cases}.npz"
        output = case.with_suffix(".out.npz")
        np.savez(case, **dict[str, Any](arrays))
        assert process.stdin is not None
        try:
            process.stdin.write(f"{case}\n")
            process.stdin.flush()
        except OSError as e:
            raise self._ended() from e
        answer = self._answer(process, CASE_SECONDS)
        if answer != "done":
            raise OracleError(f"MindSpore oracle: {answer.removeprefix('error: ')}")
        with np.load(output) as file:
            result: dict[str, Float64Array] = {name: file[name] for name in file.files}
        case.unlink()
        output.unlink()
        return result

    def _start(self) -> tuple[subprocess.Popen[str], Path]:
        if self._process is not None and self._directory is not None:
            return self._process, Path(self._directory.name)
        if self._python == sys.executable and not mindspore_installed():
            raise OracleError(MINDSPORE_MISSING)
        self._directory = tempfile.TemporaryDirectory(prefix="hpmoe-oracle-")
        try:
            self._process = subprocess.Popen(
                [self._python, str(SERVER)],
                cwd=self._directory.name,
                env=mindspore_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        except OSError as e:
            self.close()
            raise OracleError(
                f"the MindSpore oracle can't start: no program '{self._python}'"
            ) from e
        answer = self._answer(self._process, START_SECONDS)
        if not answer.startswith("ready "):
            raise OracleError(f"MindSpore oracle: expected it to start, found '{answer}'")
        self.version = answer.removeprefix("ready ")
        return self._process, Path(self._directory.name)

    def _answer(self, process: subprocess.Popen[str], seconds: float) -> str:
        """Returns the next answer line; other lines are log output of MindSpore."""
        assert process.stdout is not None
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            while line := process.stdout.readline():
                if line.startswith(("ready ", "done", "error: ")):
                    return line.rstrip("\n")
        finally:
            timer.cancel()
        raise self._ended()

    def _ended(self) -> OracleError:
        process = self._process
        assert process is not None
        assert process.stderr is not None
        process.kill()
        status = process.wait()
        last = process.stderr.read().strip().splitlines()[-1:]
        self.close()
        detail = f": {last[0]}" if last else ""
        return OracleError(f"the MindSpore oracle ended with status {status}{detail}")


def _inputs(values: LayerValues) -> dict[str, np.ndarray[Any, Any]]:
    """Returns a layer's inputs, concatenated over all ranks."""
    dtype = values.config.dtype
    return {
        "x": all_tokens(values.x, dtype).astype(np.float64),
        "ids": np.concatenate([rank.ids for rank in values.routing]),
        "gates": np.concatenate([rank.gates for rank in values.routing]).astype(np.float64),
        "w13": all_tokens(values.w13, dtype).astype(np.float64),
        "w2": all_tokens(values.w2, dtype).astype(np.float64),
    }


def split_ranks(rows: Float64Array, tokens: Sequence[int]) -> list[Float64Array]:
    """Splits concatenated rows by rank; `tokens` has the number of rows of each rank."""
    return np.split(rows, np.cumsum(tokens)[:-1])


def expert_rows(config: LayerConfig, ids: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Returns for each expert its pairs token * K + k in ascending order; ids is [t, K]."""
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ends = np.cumsum(np.bincount(flat, minlength=config.experts))
    return np.split(order, ends[:-1])


def silu(g: Float64Array) -> Float64Array:
    """Computes g / (1 + exp(-g)) without overflow."""
    return g * 0.5 * (1.0 + np.tanh(0.5 * g))
