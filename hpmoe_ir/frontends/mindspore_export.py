"""MindSpore cells to MINDIR: compiles a user's cell in a process of its own and reads the graph.

The process runs in an empty directory, since MindSpore leaves files behind, and a crash of it, or
of the user's file, is one message here. To export a graph that exchanges rows among ranks, it is
told that it is rank 0 of so many; no other process is needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hpmoe_ir.diagnostics import InputError, one_line
from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.frontends.mindir import Graph, parse_mindir
from hpmoe_ir.frontends.mindspore_graph import ImportedLayer, import_graph, mindir_layer
from hpmoe_ir.frontends.mindspore_process import (
    MINDSPORE_MISSING,
    mindspore_environment,
    mindspore_installed,
)

EXPORTER = Path(__file__).with_name("mindspore_exporter.py")

EXPORT_SECONDS = 600.0


def mindspore_layer(
    source: str,
    *,
    ranks: int | None = None,
    tokens: int | None = None,
    capacity: int | None = None,
    dtype: Dtype | None = None,
) -> ImportedLayer:
    """The layer in `source`, `FILE.mindir` or `FILE.py:Class`, with sizes that are given.

    Raises InputError where there is none, LayerError for sizes that don't fit.
    """
    path, colon, name = source.rpartition(":")
    if not colon and source.endswith(".mindir"):
        return mindir_layer(
            Path(source), ranks=ranks, tokens=tokens, capacity=capacity, dtype=dtype
        )
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise InputError(f"expected FILE.py:Class or FILE.mindir, found '{source}'")
    graph = export_cell(Path(path), name, ranks or 1)
    return import_graph(
        graph, name=name, ranks=ranks, tokens=tokens, capacity=capacity, dtype=dtype
    )


def export_cell(path: Path, name: str, ranks: int = 1, python: str = sys.executable) -> Graph:
    """The graph of the cell that `name` in the Python file `path` makes, called without arguments.

    Its inputs are those that it has declared with MindSpore's own `set_inputs`. With more than one
    rank, the world group of the graph's exchanges has so many. Raises InputError.
    """
    if not os.path.isfile(path):
        raise InputError("no such file", str(path))
    where = f"{path}:{name}"
    if not mindspore_installed():
        raise InputError(MINDSPORE_MISSING, where)
    with tempfile.TemporaryDirectory(prefix="hpmoe-export-") as directory:
        output = Path(directory) / "graph.mindir"
        command = [python, str(EXPORTER), str(path.resolve()), name, str(output)]
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                env=_environment(ranks),
                capture_output=True,
                text=True,
                timeout=EXPORT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as e:
            raise InputError(f"MindSpore took more than {EXPORT_SECONDS:.0f} s", where) from e
        if done.returncode != 0 or not output.is_file():
            raise InputError(_reason(done), where)
        return parse_mindir(output.read_bytes(), where)


def _environment(ranks: int) -> dict[str, str]:
    environment = mindspore_environment()
    # The exporter must find what the user's file imports from beside itself and from ours.
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    if ranks > 1:
        environment |= {"MS_SIMULATION_LEVEL": "0", "RANK_SIZE": str(ranks), "RANK_ID": "0"}
    return environment


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Why the exporter failed: its own message, or the last line of what it has printed."""
    for line in done.stdout.splitlines():
        if line.startswith("error: "):
            return line.removeprefix("error: ")
    last = done.stderr.strip().splitlines()[-1:]
    detail = f": {one_line(last[0])}" if last else ""
    return f"MindSpore ended with status {done.returncode}{detail}"
