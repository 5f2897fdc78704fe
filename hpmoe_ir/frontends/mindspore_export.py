"""Exports MindSpore cells: compiles a user's cell in a separate process and reads the MINDIR graph.

The process runs in an empty directory, since MindSpore leaves files behind. A crash of MindSpore or
of the user's file becomes one InputError. For a graph with collectives, MindSpore's simulation mode
makes the process rank 0 of a group without the other processes.
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
"""The script that the export process runs."""

EXPORT_SECONDS = 600.0
"""Time limit of an export in seconds."""


def mindspore_layer(
    source: str,
    *,
    ranks: int | None = None,
    tokens: int | None = None,
    capacity: int | None = None,
    dtype: Dtype | None = None,
) -> ImportedLayer:
    """Imports the layer of `source`, `FILE.mindir` or `FILE.py:Class`; arguments override sizes.

    Raises InputError if there is no layer, LayerError for sizes that contradict each other.
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
    """Exports the cell that `name()` of the Python file `path` returns, and reads its graph.

    The cell declares its inputs with MindSpore's `set_inputs`. `ranks` is the size of the world
    group in its collectives. Raises InputError if the file, the cell or the export fails.
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
    # Imports of the user's file resolve as they would in this process.
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    if ranks > 1:
        environment |= {"MS_SIMULATION_LEVEL": "0", "RANK_SIZE": str(ranks), "RANK_ID": "0"}
    return environment


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Returns why the exporter failed: its own message, or its last line on standard error."""
    for line in done.stdout.splitlines():
        if line.startswith("error: "):
            return line.removeprefix("error: ")
    last = done.stderr.strip().splitlines()[-1:]
    detail = f": {one_line(last[0])}" if last else ""
    return f"MindSpore ended with status {done.returncode}{detail}"
