"""Writes the MINDIR graph of a MindSpore cell: `python mindspore_exporter.py FILE NAME OUTPUT`.

`hpmoe_ir.frontends.mindspore_export` runs it as a script. It imports nothing of hpmoe_ir and prints
one line `error: ...` for a fault of the user's file.
"""

# pyright: basic
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

import mindspore as ms
from mindspore import nn
from mindspore.common import api


class ExportError(Exception):
    """A fault of the user's file; the message is printed for the user."""


def load(path: Path) -> ModuleType:
    """Imports the user's file as a module with a path, from which MindSpore reads its source."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        raise ExportError(f"{place(e, path)}importing it: {summary(e)}") from e
    return module


def make_cell(module: ModuleType, name: str, path: Path) -> nn.Cell:
    """Returns the cell made by calling `name` of the module. Raises ExportError."""
    if not hasattr(module, name):
        known = [key for key, value in vars(module).items() if is_cell(value)]
        raise ExportError(f"no '{name}' in it; cells: {', '.join(known) or 'none'}")
    try:
        cell = getattr(module, name)()
    except Exception as e:
        raise ExportError(f"{place(e, path)}calling {name}(): {summary(e)}") from e
    if not isinstance(cell, nn.Cell):
        raise ExportError(f"expected {name}() to be a cell, found {type(cell).__name__}")
    return cell


def is_cell(value: object) -> bool:
    """Returns whether a value of the user's module is a subclass of Cell."""
    return isinstance(value, type) and issubclass(value, nn.Cell) and value is not nn.Cell


def place(error: BaseException, path: Path) -> str:
    """Returns `line N: ` of the user's file if it is in the traceback, else ''."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"line {lines[-1]}: " if lines else ""


def summary(error: BaseException) -> str:
    """Returns the type of an error and the first line of its message."""
    lines = [line.strip() for line in str(error).splitlines()]
    first = next((line for line in lines if line and not line.startswith("-")), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def mindir(cell: nn.Cell, inputs: list) -> bytes:
    """Returns the MINDIR bytes of a cell, without weights and before kernel selection.

    `ms.export` would add the weights, many gigabytes for a large layer. The internal function that
    it calls is not public; if a version of MindSpore lacks it, `ms.export` is used.
    """
    executor = getattr(api, "_cell_graph_executor", None)
    proto = getattr(executor, "_get_func_graph_proto", None)
    if executor is None or proto is None:
        ms.export(cell, *inputs, file_name="exported", file_format="MINDIR")
        return Path("exported.mindir").read_bytes()
    graph, _ = executor.compile(cell, *inputs, phase="export.mindir", do_convert=False)
    return bytes(proto(cell, graph, "mind_ir"))


def export(path: Path, name: str, output: Path) -> None:
    """Writes the graph of the cell `name` of the file `path` to `output`. Raises ExportError."""
    cell = make_cell(load(path), name, path)
    inputs = cell.get_inputs()
    if not inputs:
        raise ExportError(
            f"expected {name}() to declare its inputs with set_inputs(Tensor(shape=..., "
            "dtype=...)), found no call of it"
        )
    try:
        output.write_bytes(mindir(cell, list(inputs)))
    except Exception as e:
        raise ExportError(f"MindSpore can't compile {name}: {summary(e)}") from e


def main() -> int:
    """Returns exit status 1 after printing `error: ...` for a fault of the user's file, else 0."""
    try:
        export(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    except ExportError as e:
        print(f"error: {e}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
