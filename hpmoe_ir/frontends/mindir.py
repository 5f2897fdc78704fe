"""Reads a MINDIR file, MindSpore's graph format, into a flat list of operations.

Every value has a shape and an element type. Bookkeeping nodes are folded away: `Load` of a
parameter, `Depend`, `UpdateState` and tuples. MindSpore is never imported; its package only
provides the protobuf module of the file format.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.dtypes import from_bits
from hpmoe_ir.frontends.mindspore_process import MINDSPORE_MISSING

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

ELEMENTS = {
    "FLOAT": "f32",
    "FLOAT16": "f16",
    "BFLOAT16": "bf16",
    "DOUBLE": "f64",
    "BOOL": "i1",
    "INT8": "i8",
    "INT16": "i16",
    "INT32": "i32",
    "INT64": "i64",
    "UINT8": "u8",
    "UINT32": "u32",
    "UINT64": "u64",
}
"""MLIR's name of each element type of MINDIR."""

_NUMPY = {
    "f32": "<f4",
    "f16": "<f2",
    "f64": "<f8",
    "i1": "|b1",
    "i8": "|i1",
    "i16": "<i2",
    "i32": "<i4",
    "i64": "<i8",
    "u8": "|u1",
    "u32": "<u4",
    "u64": "<u8",
}


@dataclass(frozen=True)
class ValueType:
    """Shape and element type of a tensor; an unknown extent is -1."""

    shape: tuple[int, ...]
    element: str

    @property
    def is_float(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return self.element in ("f16", "bf16", "f32", "f64")

    def __str__(self) -> str:
        return "x".join([*("?" if n < 0 else str(n) for n in self.shape), self.element])


@dataclass(frozen=True)
class Ref:
    """Result `index` of the operation `name`, or the graph's input or parameter `name`."""

    name: str
    index: int = 0


@dataclass(frozen=True)
class Const:
    """A constant: None, a number, a string, a tuple of these, or an array."""

    value: Any


@dataclass(frozen=True)
class Many:
    """A tuple of operands."""

    items: tuple[Operand, ...]


Operand: TypeAlias = Ref | Const | Many


@dataclass(frozen=True)
class GraphOp:
    """One operation of the graph."""

    name: str
    kind: str
    """Name of the primitive."""
    operands: tuple[Operand, ...]
    results: tuple[ValueType, ...]
    attributes: Mapping[str, Any]
    scope: str
    """Path of the cells around the operation, ending with the operation's own name."""

    @property
    def label(self) -> str:
        """The name of the operation in messages."""
        return f"{self.kind} at {self.scope}" if self.scope else f"{self.kind} '{self.name}'"

    def refs(self) -> Iterator[Ref]:
        """Yields all operands that are values, tuples flattened."""
        yield from refs_in(self.operands)


@dataclass(frozen=True)
class Graph:
    """A graph; its operations are in topological order."""

    path: str
    inputs: dict[str, ValueType]
    parameters: dict[str, ValueType]
    ops: tuple[GraphOp, ...]
    outputs: tuple[Operand, ...]
    version: str
    """The version of MindSpore that wrote the file."""
    by_name: dict[str, GraphOp] = field(default_factory=dict[str, GraphOp], compare=False)

    def __post_init__(self) -> None:
        self.by_name.update({op.name: op for op in self.ops})

    def type_of(self, ref: Ref) -> ValueType | None:
        """Returns the type of a value, None if the graph does not have it."""
        op = self.by_name.get(ref.name)
        if op is not None:
            return op.results[ref.index] if ref.index < len(op.results) else None
        return self.inputs.get(ref.name) or self.parameters.get(ref.name)

    def producer(self, ref: Ref) -> GraphOp | None:
        """Returns the operation that defines a value, None for inputs and parameters."""
        return self.by_name.get(ref.name)


def refs_in(operands: Iterable[Operand]) -> Iterator[Ref]:
    """Yields all values in `operands`, tuples flattened."""
    for operand in operands:
        match operand:
            case Ref():
                yield operand
            case Many(items):
                yield from refs_in(items)
            case _:
                pass


def read_mindir(path: Path) -> Graph:
    """Reads the graph in the file `path`. Raises InputError as `parse_mindir` does."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise InputError(f"can't read it: {e.strerror}", str(path)) from e
    return parse_mindir(data, str(path))


def parse_mindir(data: bytes, path: str) -> Graph:
    """Parses the bytes of a MINDIR file; `path` is for messages.

    Raises InputError for other bytes, a graph with control flow, an unknown type or invalid names.
    """
    model = mindir_format().ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as e:  # protobuf's DecodeError, whose module is not imported here
        raise InputError("expected a MINDIR file, found other bytes", path) from e
    if not model.graph.node:
        raise InputError("expected a MINDIR file with a graph, found one without nodes", path)
    if model.functions:
        called = _short(model.functions[0].name)
        raise InputError(
            f"expected a graph without control flow, found the function '{called}'", path
        )
    return _GraphReader(model, path).read()


@cache
def mindir_format() -> Any:
    """Returns the protobuf module of the format, loaded without importing MindSpore."""
    package = importlib.util.find_spec("mindspore")
    if package is None or package.origin is None:
        raise InputError(MINDSPORE_MISSING)
    file = Path(package.origin).parent / "train" / "mind_ir_pb2.py"
    spec = importlib.util.spec_from_file_location("hpmoe_ir_mind_ir_pb2", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise InputError(f"expected the protobuf module of MINDIR at {file}, found no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _short(name: str) -> str:
    """Returns a name without the graph's prefix, whose number changes from export to export."""
    return name.partition(":")[2] or name


def _shown(operand: Operand) -> str:
    match operand:
        case Ref(name):
            return f"'{name}'"
        case Const(value):
            return repr(value)
        case Many(items):
            return f"a tuple of {len(items)}"


class _GraphReader:
    def __init__(self, model: Any, path: str):
        pb = mindir_format()
        self.model, self.path = model, path
        self.elements: dict[int, str] = {
            value.number: ELEMENTS.get(value.name, str(value.name).lower())
            for value in pb.TensorProto.DataType.DESCRIPTOR.values
        }
        self.kinds = {
            value.number: value.name for value in pb.AttributeProto.AttributeType.DESCRIPTOR.values
        }
        self.primitives = {primitive.name: primitive for primitive in model.primitives}
        self.values: dict[str, Operand] = {}

    def read(self) -> Graph:
        graph = self.model.graph
        inputs: dict[str, ValueType] = {}
        for value in graph.input:
            name = self.text(value.name, "the name of an input")
            if not value.tensor:
                raise self.refuse(f"input '{name}': expected a tensor, found none")
            inputs[_short(name)] = self.tensor_type(value.tensor[0])
        parameters = {
            _short(self.text(p.name, "the name of a parameter")): self.tensor_type(p)
            for p in graph.parameter
        }
        ops = [op for node in graph.node if (op := self.node(node)) is not None]
        outputs = tuple(self.value(output.name) for output in graph.output)
        self.check_order({*inputs, *parameters}, ops, outputs)
        version = self.text(self.model.model_version, "the version")
        return Graph(self.path, inputs, parameters, tuple(ops), outputs, version)

    def refuse(self, message: str) -> InputError:
        return InputError(message, self.path)

    def text(self, value: str | bytes, what: str) -> str:
        """Returns a string of the file; protobuf returns bytes for one that is not UTF-8."""
        if isinstance(value, bytes):
            raise self.refuse(f"{what}: expected UTF-8 text, found {value[:40]!r}")
        return value

    def check_order(self, known: set[str], ops: list[GraphOp], outputs: Iterable[Operand]) -> None:
        """Raises InputError for a name with two definitions or an operand used before its own."""
        known = set(known)
        for op in ops:
            self.check_known(known, op.operands, op.label)
            if op.name in known:
                raise self.refuse(f"{op.label}: expected a unique name, found '{op.name}' again")
            known.add(op.name)
        self.check_known(known, outputs, "the graph's result")

    def check_known(self, known: set[str], operands: Iterable[Operand], what: str) -> None:
        for ref in refs_in(operands):
            if ref.name not in known:
                raise self.refuse(
                    f"{what}: expected values of inputs, parameters and nodes before it, found "
                    f"'{ref.name}'"
                )

    def value(self, name: str) -> Operand:
        return self.values.get(name) or Ref(_short(name))

    def node(self, node: Any) -> GraphOp | None:
        """Returns the operation of a node, None for a constant or a node folded into its users."""
        type = self.text(node.op_type, "the kind of a node")
        if not node.output:
            raise self.refuse(f"a node {type}: expected the name of its result, found none")
        result = self.text(node.output[0], "the name of a node")
        if type == "Constant":
            if not node.attribute:
                raise self.refuse(f"constant '{_short(result)}': expected its value, found none")
            self.values[result] = Const(self.constant(node.attribute[0]))
            return None
        primitive = self.primitives.get(type.removeprefix("REF::"))
        kind = type if primitive is None else self.text(primitive.op_type, "a primitive")
        if not kind.strip():
            raise self.refuse(
                f"node '{_short(result)}': expected the name of its operation, found '{kind}'"
            )
        operands = tuple(self.value(self.text(name, "an operand")) for name in node.input)
        match kind:
            case "Load" | "Depend":
                if not operands:
                    raise self.refuse(f"{kind} '{_short(result)}': expected an operand, found none")
                self.values[result] = operands[0]
                return None
            case "UpdateState":
                return None
            case "MakeTuple" | "MakeList":
                self.values[result] = Many(operands)
                return None
            case "TupleGetItem" | "ListGetItem":
                self.values[result] = self.item(operands)
                return None
            case _:
                pass
        shape = next((a for a in node.attribute if a.name == "shape"), None)
        attributes = () if primitive is None else primitive.attribute
        return GraphOp(
            _short(result),
            kind,
            operands,
            tuple(self.result_types(shape)) if shape is not None else (),
            {str(a.name): self.constant(a) for a in attributes},
            self.text(node.domain, "the scope of a node"),
        )

    def item(self, operands: tuple[Operand, ...]) -> Operand:
        match operands:
            case (Many(items), Const(int(index))) if 0 <= index < len(items):
                return items[index]
            case (Ref(name, 0), Const(int(index))) if index >= 0:
                return Ref(name, index)
            case _:
                shown = " and ".join(_shown(operand) for operand in operands)
                raise self.refuse(f"expected a tuple and an index in it, found {shown}")

    def result_types(self, attribute: Any) -> Iterator[ValueType]:
        if self.kind(attribute) in ("TUPLE", "LIST"):
            for item in attribute.values:
                yield from self.result_types(item)
        else:
            for tensor in attribute.tensors:
                yield self.tensor_type(tensor)

    def tensor_type(self, tensor: Any) -> ValueType:
        if tensor.data_type not in self.elements:
            raise self.refuse(
                f"tensor '{tensor.name}': expected a known element type, found number "
                f"{tensor.data_type}"
            )
        return ValueType(tuple(tensor.dims), self.elements[tensor.data_type])

    def kind(self, attribute: Any) -> str:
        if attribute.type not in self.kinds:
            raise self.refuse(
                f"attribute '{attribute.name}': expected a known type, found number "
                f"{attribute.type}"
            )
        return self.kinds[attribute.type]

    def constant(self, attribute: Any) -> Any:
        """Returns the value of an attribute; inside tuples MINDIR stores it in the plural field."""
        kind = self.kind(attribute)
        if kind in ("TUPLE", "LIST"):
            return tuple(self.constant(item) for item in attribute.values)
        if kind in ("TENSORS", "TENSOR"):
            return self.array(attribute.tensors[0]) if attribute.tensors else None
        if kind == "BOOL":
            return bool(attribute.ints[0] if attribute.ints else attribute.i)
        if kind.startswith(("INT", "UINT")):
            return int(attribute.ints[0] if attribute.ints else attribute.i)
        if kind == "FLOAT":
            return float(attribute.floats[0] if attribute.floats else attribute.f)
        if kind == "DOUBLE":
            return float(attribute.doubles[0] if attribute.doubles else attribute.d)
        if kind == "STRING":
            data = bytes(attribute.strings[0] if attribute.strings else attribute.s)
            try:
                return data.decode()
            except UnicodeDecodeError:
                raise self.refuse(
                    f"attribute '{attribute.name}': expected UTF-8 text, found {data[:40]!r}"
                ) from None
        return None

    def array(self, tensor: Any) -> Array:
        type = self.tensor_type(tensor)
        stored = np.dtype("<u2" if type.element == "bf16" else _NUMPY.get(type.element, "V0"))
        if not stored.itemsize:
            raise self.refuse(f"constant: expected a known element type, found '{type.element}'")
        expected = prod(type.shape) * stored.itemsize
        if min(type.shape, default=0) < 0 or len(tensor.raw_data) != expected:
            raise self.refuse(
                f"constant '{tensor.name}': expected {expected} bytes of {type}, found "
                f"{len(tensor.raw_data)}"
            )
        values = np.frombuffer(tensor.raw_data, stored).reshape(type.shape)
        return from_bits(values, "bf16") if type.element == "bf16" else values
