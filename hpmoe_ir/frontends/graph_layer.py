"""From a graph back to the sizes of its layer: what values to run it on, and what to expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import InputError, location_of
from hpmoe_ir.dialects.moe import RouteOp, function_roles, route_type
from hpmoe_ir.dialects.placement import AnyTensor
from hpmoe_ir.dialects.role import ROLE, Role
from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.frontends.build_layer import ARGUMENTS, ELEMENTS, layer_module
from hpmoe_ir.layer.config import LayerConfig, LayerError


@dataclass(frozen=True)
class GraphLayer:
    """The layer that a graph computes."""

    config: LayerConfig
    is_textbook: bool
    """Whether the graph is the layer of `layer_module` and nothing else."""


def graph_layer(module: ModuleOp) -> GraphLayer:
    """The layer of the only function of a module.

    The function's arguments must be those of `layer_module`, in any order: their roles say which is
    which, by the attribute `moe.role` or else by their use. Between them it may compute what it
    likes. Raises InputError for other functions.
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
            f"{', '.join(ARGUMENTS.values())}, to make values for them, found {len(types)} tensors "
            f"and {len(routes)} routes",
            where,
        )
    order = _argument_order(function)
    x, w2 = types[order[0]], types[order[-1]]
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
    for place, kind, type in zip(order, ARGUMENTS.values(), made.function_type.inputs, strict=True):
        if types[place] != type:
            raise InputError(
                f"@{function.sym_name.data}: argument {place}: expected {kind} of type {type}, "
                f"found {types[place]}",
                where,
            )
    _reorder(made.body.block, order)
    return GraphLayer(config, made.body.is_structurally_equivalent(function.body))


def _argument_order(function: FuncOp) -> list[int]:
    """The places of the arguments in the order of `ARGUMENTS`.

    Raises InputError for an argument that is none of them.
    """
    try:
        roles, _ = function_roles(function)
    except PassFailedException as e:
        raise InputError(str(e), location_of(function)) from e
    wanted = [Role(kind) for kind in ARGUMENTS.values()]
    for place, role in enumerate(roles):
        if role not in wanted:
            missing = [str(other) for other in wanted if other not in roles]
            found = "its use doesn't say it" if role is None else f"found {role}"
            raise InputError(
                f"@{function.sym_name.data}: argument {place}: expected it to be "
                f"{' or '.join(missing)}, {found}; add its role, as in "
                f"{{{ROLE} = #{ROLE}<{missing[0]}>}}",
                location_of(function),
            )
    return [roles.index(role) for role in wanted]


def _reorder(block: Block, order: Sequence[int]) -> None:
    """Moves argument i of a block to place `order[i]`."""
    old = list(block.args)
    new = [block.insert_arg(old[order.index(i)].type, len(block.args)) for i in range(len(old))]
    for i, place in enumerate(order):
        old[i].replace_all_uses_with(new[place])
    for argument in old:
        block.erase_arg(argument)
