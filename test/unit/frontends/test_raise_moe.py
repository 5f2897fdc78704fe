"""Matching the expert part of graphs of MindFormers and of our own cells; refusing others."""

import dataclasses
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.mindir import Const, Graph, GraphOp, Operand, read_mindir
from hpmoe_ir.frontends.mindspore_graph import import_graph, mindir_layer
from hpmoe_ir.frontends.mindspore_process import mindspore_environment
from hpmoe_ir.layer.config import LayerConfig, LayerError

DATA = Path(__file__).parents[2] / "data"
ROOT = Path(__file__).parents[3]

EXPORT_ALL = """
import importlib.util, sys
from pathlib import Path

def load(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

exporter, cells = load(sys.argv[1]), load(sys.argv[2])
for cell in (*cells.GOOD, *cells.BAD):
    exporter.export(Path(sys.argv[2]), cell.__name__, Path(cell.__name__ + ".mindir"))
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the graphs of all cells in moe_cells.py, all from one process."""
    if importlib.util.find_spec("mindspore") is None:
        pytest.skip("needs mindspore")
    folder = tmp_path_factory.mktemp("cells")
    exporter = ROOT / "hpmoe_ir" / "frontends" / "mindspore_exporter.py"
    subprocess.run(
        [sys.executable, "-c", EXPORT_ALL, str(exporter), str(DATA / "moe_cells.py")],
        cwd=folder,
        env=mindspore_environment(),
        check=True,
    )
    return folder


def sizes(layer: LayerConfig) -> tuple[int, ...]:
    return (layer.hidden, layer.width, layer.experts, layer.top_k, layer.ranks, layer.tokens)


@pytest.mark.parametrize(
    "name, ranks, inside, outside",
    [
        ("ep1", 1, 30, 10),
        ("ep1-unfused", 1, 39, 10),
        ("ep2", 2, 45, 10),
        ("ep2-unfused", 2, 56, 10),
    ],
)
def test_mindformers(name: str, ranks: int, inside: int, outside: int):
    layer = mindir_layer(DATA / f"mindformers-moelayer-{name}.mindir")
    assert sizes(layer.config) == (16, 8, 4, 2, ranks, 8)
    assert layer.config.dtype == "bf16"
    assert (len(layer.inside), len(layer.outside)) == (inside, outside)
    router = [op.kind for op in layer.outside if "TopKRouter" in op.scope]
    assert router == ["Cast", "Dense", "Softmax", "TopkExt", "ReduceSum", "AddExt", "Div"]
    layer_module(layer.config).verify()


def test_the_report_lists_the_nodes_inside_and_outside():
    path = DATA / "mindformers-moelayer-ep1.mindir"
    scope = "Default/n-MoELayer/router-TopKRouter"
    assert mindir_layer(path).report().splitlines() == [
        f"{path}: MindSpore 2.10.0, 40 nodes",
        f"imported 30, from Cast at {scope}/Cast-op1 to ReduceSum at Default/ReduceSum-op0",
        "  x    8x16xbf16, Reshape at Default/Reshape-op0",
        f"  ids  1x8x2xi64, TopkExt at {scope}/TopkExt-op0, result 1",
        f"  gate 1x8x2xf32, Div at {scope}/Div-op0",
        "  w13  64x16xf32, parameter 'n.experts.weight1' as 4 experts",
        "  w2   32x16xf32, parameter 'n.experts.weight2' as 4 experts",
        "  out  1x8x16xbf16, ReduceSum at Default/ReduceSum-op0",
        "outside the layer: 10",
        "  Default/n-MoELayer: Transpose x2",
        "  Default: Reshape",
        f"  {scope}: Cast, Dense, Softmax, TopkExt, ReduceSum, AddExt, Div",
    ]


def test_sizes_given_replace_the_graphs_own():
    path = DATA / "mindformers-moelayer-ep1.mindir"
    layer = mindir_layer(path, name="mine", ranks=4, tokens=100, capacity=50, dtype="f16").config
    assert sizes(layer) == (16, 8, 4, 2, 4, 100)
    assert (layer.name, layer.capacity, layer.dtype) == ("mine", 50, "f16")
    with pytest.raises(LayerError) as e:
        mindir_layer(path, ranks=3)
    assert str(e.value) == (
        "layer 'mindformers-moelayer-ep1': experts: expected a multiple of the 3 ranks, found 4"
    )


@pytest.mark.parametrize(
    "cell", ["DenseLoop", "ScatterAdd", "PickedWeights", "FusedPermute", "Surrounded", "Sorted"]
)
def test_other_spellings(cells: Path, cell: str):
    layer = mindir_layer(cells / f"{cell}.mindir")
    assert sizes(layer.config) == (64, 32, 8, 2, 1, 24)
    assert layer.config.dtype == "bf16"


def test_weights_of_gate_and_up_apart_and_transposed(cells: Path):
    layer = mindir_layer(cells / "DenseLoop.mindir")
    assert layer.match.halves == ("w1", "w3")
    assert all(layer.match.weights[name].transposed for name in ("w1", "w3"))
    assert not layer.match.weights["w2"].transposed
    assert (
        "  w13  8x32x64xbf16, parameter 'w1' as 8 experts, transposed and "
        "8x32x64xbf16, parameter 'w3' as 8 experts, transposed"
    ) in layer.report().splitlines()


def test_inputs_instead_of_a_router(cells: Path):
    layer = mindir_layer(cells / "FusedPermute.mindir")
    assert not layer.outside
    assert layer.config.notes == ("gate weights are bf16 in the graph, f32 in the layer",)


def test_nodes_around_the_layer_are_outside(cells: Path):
    layer = mindir_layer(cells / "Surrounded.mindir")
    assert layer.match.part.gate.name.startswith("CNode")
    outside = [op.kind for op in layer.outside]
    assert outside.count("TopK") == 2
    assert outside[-3:] == ["Add", "MatMulExt", "Add"]


SUM = (
    "can't import SumExt at Default/SumExt-op2: expected the sum of each token's experts, weighted "
    "with the gate weights, found "
)


GRADIENTS = "the graph holds gradients, the first node is "
EXPORT = "; export the forward function, from which --direction backward derives the gradients"


@pytest.mark.parametrize(
    "cell, message",
    [
        (
            "WrongActivation",
            "can't import ReLU at Default/ReLU-op0: unsupported operation in an expert layer",
        ),
        (
            "ExchangedHalves",
            SUM + "one with silu of the second half of the first matmul, not of its first",
        ),
        (
            "Biased",
            "can't import Add at Default/Add-op0: it takes 'bias', which is neither tokens, ids, "
            "gate weights nor expert weights",
        ),
        ("Unsorted", SUM + "something else"),
        (
            "Unweighted",
            "expected the experts' results to be multiplied with weights like 24x2xi32, one for "
            "each id, found none; the first unsupported node is Gather at "
            "Default/Gather-op1",
        ),
        ("HalfWeighted", SUM + "something else"),
        (
            "MixedRows",
            "can't import Transpose at Default/Transpose-op0: it moves the last axis of the rows",
        ),
        (
            "OneMatmul",
            "expected two matmuls one after the other for each expert, found one: "
            "GroupedMatmul at Default/GroupedMatmul-op0",
        ),
        (
            "TwoLayers",
            "expected two matmuls one after the other for each expert, found a third: "
            "GroupedMatmul at Default/GroupedMatmul-op2; a graph must have one expert layer",
        ),
        (
            "NoExperts",
            "no expert part: expected matmuls with weights [experts, in, out], found none; the "
            "first unsupported node is MatMulExt at Default/MatMulExt-op0",
        ),
        (
            "MixedTypes",
            "can't import GroupedMatmul at Default/GroupedMatmul-op1: expected one element type in "
            "all expert matmuls, found bf16 and f32",
        ),
        (
            "Gradients",
            GRADIENTS + "Add at Gradients/Default/layer-Sorted/Grad_TopK/Add-op0" + EXPORT,
        ),
        (
            "WeightGradients",
            GRADIENTS
            + "Transpose at Gradients/Default/layer-Sorted/Grad_MatMulExt/Transpose-op0"
            + EXPORT,
        ),
    ],
)
def test_other_layers_are_refused(cells: Path, cell: str, message: str):
    path = cells / f"{cell}.mindir"
    with pytest.raises(InputError) as e:
        mindir_layer(path)
    assert str(e.value) == f"{path}: error: {message}"


@pytest.mark.parametrize(
    "where, kind, scope",
    [
        ("Swiglu-op0", "SwigluGrad", ""),
        ("Default/ReduceSum-op0", "ReduceSumGrad", ""),
        ("Softmax-op0", "SoftmaxBackward", ""),
        ("GroupedMatmul-op1", "GroupedMatmul", "Gradients/Default/n/Grad_GroupedMatmul/op0"),
        ("Transpose-op1", "Transpose", "Gradients/Default/n/Grad_Transpose/op0"),
        ("MoeTokenPermute-op0", "MoeTokenPermuteGradV2", ""),
    ],
)
def test_graphs_with_gradients_are_refused(where: str, kind: str, scope: str):
    graph = changed(
        "ep1",
        where,
        lambda op: dataclasses.replace(op, kind=kind, scope=scope or op.scope),
    )
    with pytest.raises(InputError) as e:
        import_graph(graph, name="g")
    assert str(e.value).startswith(f"g: error: {GRADIENTS}{kind} at {scope or 'Default'}")
    assert str(e.value).endswith(EXPORT)


def changed(name: str, where: str, change: Callable[[GraphOp], GraphOp]) -> Graph:
    """A real graph with one operation changed, the one whose label ends with `where`."""
    graph = read_mindir(DATA / f"mindformers-moelayer-{name}.mindir")
    assert sum(op.label.endswith(where) for op in graph.ops) == 1
    ops = tuple(change(op) if op.label.endswith(where) else op for op in graph.ops)
    return dataclasses.replace(graph, path="g", ops=ops, by_name={})


def operand(index: int, value: object) -> Callable[[GraphOp], GraphOp]:
    def change(op: GraphOp) -> GraphOp:
        operands: list[Operand] = list(op.operands)
        operands[index] = Const(value)
        return dataclasses.replace(op, operands=tuple(operands))

    return change


def kind(name: str) -> Callable[[GraphOp], GraphOp]:
    return lambda op: dataclasses.replace(op, kind=name)


def exchange_alike(op: GraphOp) -> GraphOp:
    rows, send, _ = op.operands
    return dataclasses.replace(op, operands=(rows, send, send))


EXPERTS = "Default/n-MoELayer/experts-FFNGroupedGEMM"
WHOLE = (
    "can't import Transpose at Default/n-MoELayer/Transpose-op1: expected the sum of each token's "
    "experts, weighted with the gate weights, found "
)


@pytest.mark.parametrize(
    "name, where, change, message",
    [
        (
            "ep1",
            "GroupedMatmul-op0",
            operand(9, 2),
            f"can't import GroupedMatmul at {EXPERTS}/GroupedMatmul-op0: "
            "expected groups of rows, found group type 2",
        ),
        (
            "ep1",
            "GroupedMatmul-op0",
            operand(2, 1),
            f"can't import GroupedMatmul at {EXPERTS}/GroupedMatmul-op0: "
            "operand 2: expected no bias and no scale",
        ),
        (
            "ep1",
            "GroupedMatmul-op1",
            operand(10, True),
            f"can't import GroupedMatmul at {EXPERTS}/GroupedMatmul-op1: it transposes the rows",
        ),
        (
            "ep1",
            "GroupedMatmul-op1",
            operand(11, True),
            f"can't import GroupedMatmul at {EXPERTS}/GroupedMatmul-op1: "
            "it multiplies rows of 8 with weights of [4, 16, 8]",
        ),
        (
            "ep1",
            "CumsumExt-op0",
            kind("Neg"),
            f"can't import GroupedMatmul at {EXPERTS}/GroupedMatmul-op0: "
            "the groups' ends do not increase or do not match the experts",
        ),
        (
            "ep1",
            "MoeTokenPermute-op0",
            operand(2, 5),
            "can't import MoeTokenPermute at Default/MoeTokenPermute-op0: it drops or pads rows",
        ),
        # Counts where the ends of the groups should be: the matmul takes other rows.
        ("ep1", "CumsumExt-op0", kind("Cast"), "can't import "),
        # Experts' rows of a token mixed up: top-k is the fastest axis, not the slowest.
        ("ep1", "Reshape-op4", operand(1, (1, 2, 8, -1)), "can't import "),
        # Sums over tokens instead of over the experts of a token.
        ("ep1", "Default/ReduceSum-op0", operand(1, (1,)), WHOLE + "something else"),
        ("ep1-unfused", "FmodScalar-op0", kind("FloorDivScalar"), WHOLE + "something else"),
        # What a rank gets is not what the others send.
        (
            "ep2",
            "AlltoAllV-op0",
            exchange_alike,
            "can't import AlltoAllV at Default/AlltoAllV-op0: it expects other sizes than are sent",
        ),
    ],
)
def test_changed_graphs_are_refused(
    name: str, where: str, change: Callable[[GraphOp], GraphOp], message: str
):
    with pytest.raises(InputError) as e:
        import_graph(changed(name, where, change), name="g")
    assert str(e.value).startswith(f"g: error: {message}")


def test_a_graph_without_known_sizes_is_refused():
    graph = read_mindir(DATA / "mindformers-moelayer-ep1.mindir")
    ops = tuple(
        dataclasses.replace(
            op,
            results=tuple(
                dataclasses.replace(r, shape=tuple(-1 if n == 8 else n for n in r.shape))
                for r in op.results
            ),
        )
        if op.kind == "TopkExt"
        else op
        for op in graph.ops
    )
    with pytest.raises(InputError) as e:
        import_graph(dataclasses.replace(graph, path="g", ops=ops, by_name={}), name="g")
    assert str(e.value) == "g: error: expected ids of known shape, found 1x?x2xi64"
