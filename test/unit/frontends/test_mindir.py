"""Reading MINDIR files."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.mindir import (
    Const,
    Many,
    Ref,
    ValueType,
    mindir_format,
    parse_mindir,
    read_mindir,
)

DATA = Path(__file__).parents[2] / "data"
MOE_LAYER = DATA / "mindformers-moelayer-ep1.mindir"


def test_the_graph_of_a_real_layer():
    graph = read_mindir(MOE_LAYER)
    assert graph.version == "2.10.0"
    assert graph.inputs == {"x": ValueType((8, 1, 16), "bf16")}
    assert graph.parameters == {
        "n.router.weight": ValueType((4, 16), "f32"),
        "n.experts.weight1": ValueType((64, 16), "f32"),
        "n.experts.weight2": ValueType((32, 16), "f32"),
    }
    assert len(graph.ops) == 40
    (output,) = graph.outputs
    assert isinstance(output, Ref)
    assert graph.by_name[output.name].label == "Transpose at Default/n-MoELayer/Transpose-op1"
    assert graph.type_of(output) == ValueType((8, 1, 16), "bf16")


def test_operands_of_a_real_operation():
    graph = read_mindir(MOE_LAYER)
    first = next(op for op in graph.ops if op.kind == "GroupedMatmul")
    rows, weights, *empty, ends, split, group, transpose_a, transpose_b = first.operands
    assert isinstance(rows, Many)
    assert isinstance(weights, Many)
    assert [graph.type_of(ref) for ref in first.refs()] == [
        ValueType((16, 16), "bf16"),
        ValueType((4, 16, 16), "bf16"),
        ValueType((4,), "i64"),
    ]
    assert empty == [Const(None)] * 5
    assert isinstance(ends, Ref)
    assert [split, group, transpose_a, transpose_b] == [
        Const(3),
        Const(0),
        Const(False),
        Const(False),
    ]


def test_results_of_a_tuple_are_told_apart():
    graph = read_mindir(MOE_LAYER)
    top_k = next(op for op in graph.ops if op.kind == "TopkExt")
    assert [str(type) for type in top_k.results] == ["1x8x2xf32", "1x8x2xi64"]
    users = {ref.index for op in graph.ops for ref in op.refs() if ref.name == top_k.name}
    assert users == {0, 1}


def test_mindspore_is_not_imported():
    """In a process of its own: other tests of this one may have imported it."""
    code = (
        "import sys; from pathlib import Path; from hpmoe_ir.frontends.mindir import read_mindir\n"
        f"read_mindir(Path({str(MOE_LAYER)!r})); print('mindspore' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def model(*nodes: Any) -> bytes:
    """A MINDIR file with these nodes and an input x of 2 x 3 float16."""
    pb = mindir_format()
    result = pb.ModelProto(ir_version="1.1", model_version="0.0")
    result.graph.name = "g"
    tensor = result.graph.input.add(name="g:x").tensor.add()
    tensor.dims.extend([2, 3])
    tensor.data_type = pb.TensorProto.DataType.FLOAT16
    result.graph.node.extend(nodes)
    result.graph.output.add(name=nodes[-1].output[0])
    return result.SerializeToString()


def constant(name: str, fill: Any) -> Any:
    pb = mindir_format()
    node = pb.NodeProto(op_type="Constant", output=[name])
    fill(node.attribute.add(name="value"), pb.AttributeProto.AttributeType)
    return node


def node(kind: str, result: str, *operands: str) -> Any:
    return mindir_format().NodeProto(op_type=kind, input=list(operands), output=[result])


def test_constants_of_every_kind():
    def number(a: Any, t: Any) -> None:
        a.type, a.i = t.INT64, 7

    def real(a: Any, t: Any) -> None:
        a.type, a.f = t.FLOAT, 0.5

    def double(a: Any, t: Any) -> None:
        a.type, a.d = t.DOUBLE, 0.25

    def text(a: Any, t: Any) -> None:
        a.type, a.s = t.STRING, b"group"

    def nothing(a: Any, t: Any) -> None:
        a.type = t.NONE

    def several(a: Any, t: Any) -> None:
        a.type = t.TUPLE
        for value in (1, 2):
            a.values.add(type=t.INT64, ints=[value])
        a.values.add(type=t.BOOL, ints=[1])

    def brain(a: Any, t: Any) -> None:
        a.type = t.TENSORS
        tensor = a.tensors.add(dims=[2])
        tensor.data_type = mindir_format().TensorProto.DataType.BFLOAT16
        tensor.raw_data = np.array([0x3F80, 0xC000], np.uint16).tobytes()

    fills = [number, real, double, text, nothing, several, brain]
    names = [fill.__name__ for fill in fills]
    nodes = [constant(fill.__name__, fill) for fill in fills]
    graph = parse_mindir(model(*nodes, node("Op", "g:y:1", *names)), "f")
    values = [operand.value for operand in graph.ops[0].operands if isinstance(operand, Const)]
    assert values[:6] == [7, 0.5, 0.25, "group", None, (1, 2, True)]
    assert values[6].tolist() == [1.0, -2.0]


def test_bookkeeping_nodes_are_folded():
    def first(a: Any, t: Any) -> None:
        a.type, a.i = t.INT64, 1

    graph = parse_mindir(
        model(
            constant("one", first),
            node("Load", "g:l:1", "g:x", "one"),
            node("UpdateState", "g:u:2", "one", "g:l:1"),
            node("MakeTuple", "g:t:3", "g:x", "g:l:1"),
            node("TupleGetItem", "g:i:4", "g:t:3", "one"),
            node("Neg", "g:n:5", "g:i:4"),
            node("Depend", "g:d:6", "g:n:5", "g:u:2"),
        ),
        "f",
    )
    assert [op.kind for op in graph.ops] == ["Neg"]
    assert graph.ops[0].operands == (Ref("x"),)
    assert graph.outputs == (Ref("n:5"),)
    assert graph.ops[0].label == "Neg 'n:5'"


def test_other_files_are_refused(tmp_path: Path):
    path = tmp_path / "a.mindir"
    with pytest.raises(InputError) as e:
        read_mindir(path)
    assert str(e.value) == f"{path}: error: can't read it: No such file or directory"
    path.write_bytes(b"\xff\xff\xff not protobuf")
    with pytest.raises(InputError) as e:
        read_mindir(path)
    assert str(e.value) == f"{path}: error: expected a MINDIR file, found other bytes"
    path.write_bytes(b"")
    with pytest.raises(InputError) as e:
        read_mindir(path)
    assert str(e.value) == (
        f"{path}: error: expected a MINDIR file with a graph, found one without nodes"
    )


def test_control_flow_is_refused():
    pb = mindir_format()
    data = pb.ModelProto.FromString(model(node("Neg", "g:n:1", "g:x")))
    data.functions.add(name="7:while_body")
    with pytest.raises(InputError) as e:
        parse_mindir(data.SerializeToString(), "f.mindir")
    assert str(e.value) == (
        "f.mindir: error: expected a graph without control flow, found the function 'while_body'"
    )


@pytest.mark.parametrize("kind", ["", " "])
def test_a_node_without_the_name_of_its_operation_is_refused(kind: str):
    with pytest.raises(InputError) as e:
        parse_mindir(model(node(kind, "g:n:1", "g:x")), "f.mindir")
    assert str(e.value) == (
        f"f.mindir: error: node 'n:1': expected the name of its operation, found '{kind}'"
    )


def test_items_of_a_value_that_is_not_a_tuple_are_refused():
    def first(a: Any, t: Any) -> None:
        a.type, a.s = t.STRING, b"one"

    data = model(constant("one", first), node("TupleGetItem", "g:i:1", "g:x", "one"))
    with pytest.raises(InputError) as e:
        parse_mindir(data, "f.mindir")
    assert str(e.value) == (
        "f.mindir: error: expected a tuple and an index in it, found 'x' and 'one'"
    )


def test_constants_of_unknown_type_are_refused():
    def complex_number(a: Any, t: Any) -> None:
        a.type = t.TENSORS
        a.tensors.add(dims=[1]).data_type = mindir_format().TensorProto.DataType.COMPLEX64

    data = model(constant("c", complex_number), node("Neg", "g:n:1", "c"))
    with pytest.raises(InputError) as e:
        parse_mindir(data, "f.mindir")
    assert (
        str(e.value)
        == "f.mindir: error: constant: expected a known element type, found 'complex64'"
    )


def _model() -> Any:
    model = mindir_format().ModelProto()
    model.ParseFromString(MOE_LAYER.read_bytes())
    return model


def test_a_name_with_two_definitions_is_refused():
    model = _model()
    name = read_mindir(MOE_LAYER).ops[-1].name
    model.graph.node.append(next(n for n in model.graph.node if n.output[0].endswith(name)))
    with pytest.raises(InputError, match=r"^g: error: \w+ at .*: expected a unique name, "):
        parse_mindir(model.SerializeToString(), "g")


def test_an_operand_that_is_defined_later_is_refused():
    model = _model()
    node = model.graph.node[5]
    del model.graph.node[5]
    model.graph.node.append(node)
    with pytest.raises(InputError, match=r"expected values of inputs, parameters and nodes before"):
        parse_mindir(model.SerializeToString(), "g")


def test_an_unknown_element_type_is_refused():
    model = _model()
    model.graph.parameter[0].data_type = 12345
    with pytest.raises(InputError, match=r"expected a known element type, found number 12345"):
        parse_mindir(model.SerializeToString(), "g")
