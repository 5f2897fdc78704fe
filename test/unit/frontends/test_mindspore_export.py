"""Exporting cells in a process of their own, and the example against our own arithmetic."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from layer_bounds import compare, tolerance
from numpy_layer import numpy_layer

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.dtypes import to_bits
from hpmoe_ir.frontends.mindspore_export import export_cell, mindspore_layer
from hpmoe_ir.frontends.mindspore_process import mindspore_environment
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RankRouting, parse_routing
from hpmoe_ir.layer.values import make_values

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "mindspore_moe.py"
MOE_LAYER = ROOT / "test" / "data" / "mindformers-moelayer-ep1.mindir"

RUN_EXAMPLE = """
import sys
import mindspore as ms
import numpy as np
sys.path.insert(0, sys.argv[1])
from mindspore_moe import MoeFfn

ms.runtime.launch_blocking()
cell = MoeFfn()
x = np.random.default_rng(1).standard_normal((32, 64)).astype(np.float16)
ids, gate = cell.route(ms.Tensor(x))
np.savez(sys.argv[2], x=x, ids=ids.asnumpy(), gate=gate.asnumpy(), w13=cell.w13.asnumpy(),
         w2=cell.w2.asnumpy(), out=cell(ms.Tensor(x)).asnumpy())
"""


@pytest.mark.parametrize(
    "cell, ranks, experts",
    [("MoeFfn", None, 1), ("GroupedMoeFfn", 4, 4), ("ParallelMoeFfn", 2, 2)],
)
def test_the_examples_are_imported(cell: str, ranks: int | None, experts: int):
    layer = mindspore_layer(f"{EXAMPLE}:{cell}", ranks=ranks)
    assert layer.config == LayerConfig(
        cell,
        hidden=64,
        width=32,
        experts=8,
        top_k=2,
        ranks=experts,
        tokens=32,
        dtype="f16",
        source=f"mindspore_moe.py:{cell}, MindSpore 2.10.0",
    )
    layer.config.check_lowerable()
    assert [op.kind for op in layer.outside][-3:] == ["TopK", "SumExt", "Div"]


def test_the_example_computes_the_layer_that_is_imported(tmp_path: Path):
    result = tmp_path / "result.npz"
    subprocess.run(
        [sys.executable, "-c", RUN_EXAMPLE, str(EXAMPLE.parent), str(result)],
        cwd=tmp_path,
        env=mindspore_environment(),
        check=True,
    )
    with np.load(result) as file:
        arrays = {key: file[key] for key in file.files}
    config = LayerConfig("e", hidden=64, width=32, experts=8, top_k=2, tokens=32, dtype="f16")
    values = dataclasses.replace(
        make_values(config, [32], parse_routing("uniform"), seed=0),
        x=(to_bits(arrays["x"], "f16"),),
        routing=(RankRouting(arrays["ids"], arrays["gate"]),),
        w13=(to_bits(arrays["w13"], "f16"),),
        w2=(to_bits(arrays["w2"], "f16"),),
    )
    # The cell rounds the gate weights and the weighted rows to f16, which the layer does not.
    bounds = tolerance(values)
    result = compare([arrays["out"]], numpy_layer(values), bounds)
    assert result.largest_ratio < 2


def test_mindir_files_are_read_directly():
    layer = mindspore_layer(str(MOE_LAYER), ranks=2)
    assert (layer.config.ranks, layer.config.experts) == (2, 4)


@pytest.mark.parametrize("source", ["a.py", "a.mindir:C", "a.py:not a name", "a.onnx"])
def test_other_sources_are_refused(source: str):
    with pytest.raises(InputError) as e:
        mindspore_layer(source)
    assert str(e.value) == f"error: expected FILE.py:Class or FILE.mindir, found '{source}'"


def test_missing_files_are_refused(tmp_path: Path):
    with pytest.raises(InputError) as e:
        mindspore_layer(f"{tmp_path}/none.py:Cell")
    assert str(e.value) == f"{tmp_path}/none.py: error: no such file"


CELLS = """\
import mindspore as ms
from mindspore import Tensor, nn, ops

class NoInputs(nn.Cell):
    def construct(self, x):
        return x

class Fails(nn.Cell):
    def __init__(self):
        super().__init__()
        raise ValueError("no width given")

class Mismatch(nn.Cell):
    def __init__(self):
        super().__init__()
        self.set_inputs(Tensor(shape=(2, 3), dtype=ms.float32))

    def construct(self, x):
        return ops.matmul(x, x)

def number():
    return 3
"""


@pytest.mark.parametrize(
    "name, message",
    [
        ("None_", "no 'None_' in it; cells: NoInputs, Fails, Mismatch"),
        (
            "NoInputs",
            "expected NoInputs() to declare its inputs with set_inputs(Tensor(shape=..., "
            "dtype=...)), found no call of it",
        ),
        ("Fails", "line 11: calling Fails(): ValueError: no width given"),
        ("number", "expected number() to be a cell, found int"),
        (
            "Mismatch",
            "MindSpore can't compile Mismatch: RuntimeError: For 'MatMulExt' op, shape1[-1] must "
            "be equal to shape2[-2], but got 3 and 2.",
        ),
    ],
)
def test_cells_at_fault_are_one_message(tmp_path: Path, name: str, message: str):
    path = tmp_path / "cells.py"
    path.write_text(CELLS)
    with pytest.raises(InputError) as e:
        export_cell(path, name)
    assert str(e.value) == f"{path}:{name}: error: {message}"


def test_files_that_fail_are_one_message(tmp_path: Path):
    path = tmp_path / "broken.py"
    path.write_text("import mindspore\nimport nowhere\n")
    with pytest.raises(InputError) as e:
        export_cell(path, "Cell")
    assert str(e.value) == (
        f"{path}:Cell: error: line 2: importing it: ModuleNotFoundError: No module named 'nowhere'"
    )


def test_a_process_that_dies_is_one_message(tmp_path: Path):
    path = tmp_path / "crash.py"
    path.write_text("import os\nos.abort()\n")
    with pytest.raises(InputError) as e:
        export_cell(path, "Cell")
    assert str(e.value).startswith(f"{path}:Cell: error: MindSpore ended with status -6")


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    export_cell(EXAMPLE, "GroupedMoeFfn")
    assert list(tmp_path.iterdir()) == []


def test_the_public_export_gives_the_same_graph(tmp_path: Path):
    """The fallback for a MindSpore without the internal export function."""
    program = (
        "import importlib.util, sys; from pathlib import Path\n"
        "spec = importlib.util.spec_from_file_location('exporter', sys.argv[1])\n"
        "exporter = importlib.util.module_from_spec(spec); spec.loader.exec_module(exporter)\n"
        "exporter.api = object()\n"
        "exporter.export(Path(sys.argv[2]), 'GroupedMoeFfn', Path('g.mindir'))\n"
    )
    exporter = ROOT / "hpmoe_ir" / "frontends" / "mindspore_exporter.py"
    subprocess.run(
        [sys.executable, "-c", program, str(exporter), str(EXAMPLE)],
        cwd=tmp_path,
        env=mindspore_environment(),
        check=True,
    )
    layer = mindspore_layer(str(tmp_path / "g.mindir")).config
    assert (layer.hidden, layer.width, layer.experts) == (64, 32, 8)
