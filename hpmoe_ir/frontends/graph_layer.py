"""Recovers the sizes of a layer from its graph, to make input values for it."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import InputError, location_of
from hpmoe_ir.dialects.moe import RouteOp, route_type
from hpmoe_ir.dialects.placement import AnyTensor
from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.frontends.build_layer import ARGUMENTS, ELEMENTS, layer_module
from hpmoe_ir.layer.config import LayerConfig, LayerError


@dataclass(frozen=True)
class GraphLayer:
    """The sizes of the layer in a graph."""

    config: LayerConfig
    is_textbook: bool
    """Whether the graph is exactly that of `layer_module`, so that the reference applies."""


def graph_layer(module: ModuleOp) -> GraphLayer:
    """Returns the layer of the only function of `module`.

    The function must have the arguments of `layer_module`, in order: tokens, expert ids, gate
    weights, and the two weights of the experts. Its body may be any. Raises InputError for other
    functions.
    """
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    if len(functions) != 1:
        raise InputError(f"expected one function to run, found {len(functions)}")
    function = functions[0]
    where = location_of(function)
    types = [t for t in function.function_type.inputs if isa(t, AnyTensor)]
    routes = [route_type(o.route) for o in function.walk() if isinstance(o, RouteOp)]
    if len(types) != len(ARGUMENTS) or len(routes) != 1:
        raise InputError(
            f"@{function.sym_name.data}: expected one route and the arguments "
            f"{', '.join(ARGUMENTS)}, to make values for them, found {len(types)} tensors and "
            f"{len(routes)} routes",
            where,
        )
    x, w2 = types[0], types[-1]
    route = routes[0]
    names: dict[Attribute, Dtype] = {element: name for name, element in ELEMENTS.items()}
    layer = module.attributes.get("moe.layer")
    source = module.attributes.get("moe.source")
    try:
        config = LayerConfig(
            layer.data if isinstance(layer, StringAttr) else function.sym_name.data,
            hidden=x.get_shape()[-1],
            width=w2.get_shape()[-2] if len(w2.get_shape()) == 3 else 0,
            experts=route.experts.data,
            top_k=route.top.data,
            ranks=route.ranks.data,
            tokens=route.tokens.data,
            capacity=route.rows.data,
            dtype=names.get(x.element_type, "f32"),
            source=source.data if isinstance(source, StringAttr) else "",
        )
    except LayerError as e:
        raise InputError(f"@{function.sym_name.data}: {e}", where) from e
    expected = layer_module(config)
    made = next(op for op in expected.ops if isinstance(op, FuncOp))
    if list(function.function_type.inputs) != list(made.function_type.inputs):
        wrong = next(
            i
            for i, (a, b) in enumerate(
                zip(function.function_type.inputs, made.function_type.inputs, strict=True)
            )
            if a != b
        )
        raise InputError(
            f"@{function.sym_name.data}: argument {wrong}: expected {ARGUMENTS[wrong]} of type "
            f"{made.function_type.inputs.data[wrong]}, found "
            f"{function.function_type.inputs.data[wrong]}",
            where,
        )
    return GraphLayer(config, made.body.is_structurally_equivalent(function.body))
