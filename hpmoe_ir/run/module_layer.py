"""The sizes of the layer in a module of any level, and whether it is the plain expert layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import FixedBitwidthType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import InputError, location_of
from hpmoe_ir.dialects.moe import RouteType, stated_roles
from hpmoe_ir.dialects.placement import AnyTensor
from hpmoe_ir.dialects.role import Role, RoleKind
from hpmoe_ir.dialects.tile import BufferType, TasksOp, buffers_of, families_of, program_signature
from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.frontends.build_layer import ARGUMENTS, ELEMENTS, layer_module
from hpmoe_ir.frontends.graph_layer import GraphLayer, graph_layer
from hpmoe_ir.kernels.matmul import TILE_OPTIONS
from hpmoe_ir.layer.config import LayerConfig, LayerError
from hpmoe_ir.passes.analysis.level import level_of
from hpmoe_ir.passes.convert_comm_to_tile import ConvertCommToTilePass
from hpmoe_ir.passes.convert_moe_to_comm import ConvertMoeToCommPass
from hpmoe_ir.passes.derive_backward import split_combines
from hpmoe_ir.passes.tiling.context import buffer_type_of
from hpmoe_ir.run.signature import Program, Signature, forward_signature, role_example, signatures


def module_layer(module: ModuleOp) -> GraphLayer:
    """Returns the layer of a module with one forward function or program, and its gradients if any.

    The sizes are those of the route and of the arguments, which are found by their roles. Whether
    the layer is the plain one is decided at the `moe` and `comm` level by comparison with the
    functions of `layer_module`, without the values that are saved for gradients; at the levels
    below by the data flow between the task families. Raises InputError where an argument, a role or
    the route is missing.
    """
    found = level_of(module)
    level = "moe" if found is None else found[0]
    if level == "moe" and sum(isinstance(op, FuncOp) for op in module.ops) == 1:
        return graph_layer(module)
    forward = forward_signature(signatures(module))
    config = _config(module, forward)
    if isinstance(forward.op, FuncOp):
        return GraphLayer(config, _is_plain_function(forward.op, config, level))
    return GraphLayer(config, _is_plain_program(forward.op))


def _config(module: ModuleOp, forward: Signature) -> LayerConfig:
    types = {kind: _argument(forward, kind) for kind in ARGUMENTS.values()}
    route = _route(forward)
    x, w2 = types[RoleKind.TOKENS], types[RoleKind.DOWN_WEIGHTS]
    names: dict[Attribute, Dtype] = {element: name for name, element in ELEMENTS.items()}
    layer, source = (module.attributes.get(f"moe.{name}") for name in ("layer", "source"))
    place = location_of(forward.op)
    try:
        config = LayerConfig(
            layer.data if isinstance(layer, StringAttr) else forward.name,
            hidden=_dims(x)[-1],
            width=_dims(w2)[-2] if len(_dims(w2)) == 3 else 0,
            experts=route.experts.data,
            top_k=route.top.data,
            ranks=route.ranks.data,
            tokens=route.tokens.data,
            capacity=route.rows.data,
            dtype=names.get(_element(x), "f32"),
            source=source.data if isinstance(source, StringAttr) else "",
        )
    except LayerError as e:
        raise InputError(f"@{forward.name}: {e}", place) from e
    made = next(op for op in layer_module(config).ops if isinstance(op, FuncOp))
    for kind, type in zip(ARGUMENTS.values(), made.function_type.inputs, strict=True):
        assert isa(type, AnyTensor)
        expected = type if isinstance(forward.op, FuncOp) else buffer_type_of(type)
        if types[kind] != expected:
            raise InputError(
                f"@{forward.name}: {kind}: expected {expected}, found {types[kind]}", place
            )
    return config


def _argument(forward: Signature, kind: RoleKind) -> Attribute:
    if Role(kind) not in forward.arguments:
        raise InputError(
            f"@{forward.name}: no argument is known to be the {kind}, to make values for it; add "
            f"its role, as in {role_example(forward.op, kind)}",
            location_of(forward.op),
        )
    return forward.types[forward.arguments.index(Role(kind))]


def _dims(type: Attribute) -> tuple[int, ...]:
    if isinstance(type, BufferType):
        return tuple(type.dims)
    return type.get_shape() if isa(type, AnyTensor) else ()


def _element(type: Attribute) -> Attribute:
    assert isinstance(type, BufferType) or isa(type, AnyTensor)
    element = type.element_type
    assert isinstance(element, FixedBitwidthType)
    return element


def _route(forward: Signature) -> RouteType:
    """Returns the route of a function or program. Raises InputError unless there is one."""
    if isinstance(forward.op, FuncOp):
        values = (result for op in forward.op.walk() for result in op.results)
        found = {v.type for v in values if isinstance(v.type, RouteType)}
    else:
        types = (buffer.type for buffer in buffers_of(forward.op).values())
        found = {type for type in types if isinstance(type, RouteType)}
    if len(found) != 1:
        raise InputError(
            f"@{forward.name}: expected one route, for the numbers of tokens, experts and ranks, "
            f"found {len(found)}",
            location_of(forward.op),
        )
    return found.pop()


def _is_plain_function(function: FuncOp, config: LayerConfig, level: str) -> bool:
    """Whether a function is that of `layer_module` at the level, apart from what it saves."""
    module = layer_module(config)
    made = next(op for op in module.ops if isinstance(op, FuncOp))
    own = _without_saved(function)
    if len(function.function_type.outputs) > 1:
        split_combines(made)
    if level == "comm":
        ConvertMoeToCommPass().apply(Context(), module)
        made = next(op for op in module.ops if isinstance(op, FuncOp))
    return made.body.is_structurally_equivalent(own.body)


def _without_saved(function: FuncOp) -> FuncOp:
    """Returns a copy of a function that doesn't return the values with the role `saved`."""
    copy = function.clone()
    last = copy.body.block.last_op
    assert isinstance(last, ReturnOp), "a function ends in func.return"
    _, roles = stated_roles(function)
    pairs = zip(last.arguments, roles, strict=True)
    kept = [value for value, role in pairs if role != Role(RoleKind.SAVED)]
    copy.body.block.add_op(ReturnOp(*kept))
    last.detach()
    last.erase()
    return copy


def _is_plain_program(program: Program) -> bool:
    """Whether the output of a program is computed from the arguments as in the plain layer."""
    config = LayerConfig("plain", hidden=16, width=16, experts=2, top_k=1, ranks=2, tokens=1)
    module = layer_module(config)
    ConvertMoeToCommPass().apply(Context(), module)
    ConvertCommToTilePass().apply(Context(), module)
    plain = next(op for op in module.ops if isinstance(op, Program))
    numbers: dict[Hashable, int] = {}
    return _output_flow(program, numbers) == _output_flow(plain, numbers)


def _output_flow(program: Program, numbers: dict[Hashable, int]) -> int | None:
    """Returns the number of the data flow that leads to the output; None without an output.

    Equal flows have equal numbers: the same kernels of the same buffers, however many families of
    however many tasks they are cut into. `numbers` is what earlier calls have numbered.
    """
    signature = program_signature(program)
    output = signature.result(RoleKind.OUTPUT)
    if output is None:
        return None
    writers: dict[str, list[tuple[int, TasksOp]]] = defaultdict(list)
    for family in families_of(program).values():
        for i, access in enumerate(family.write_accesses):
            writers[access.buffer].append((i, family))
    known: dict[str, int] = {
        p.buffer: _number(str(p.role), numbers) for p in signature.arguments if p.buffer
    }

    def number(buffer: str, inside: frozenset[str]) -> int:
        if buffer in inside:
            return _number("its own value", numbers)
        if buffer not in known:
            uses: set[Hashable] = set()
            for i, family in writers[buffer]:
                read = [access.buffer for access in family.read_accesses]
                read += [] if family.route is None else [family.route.root_reference.data]
                parts = tuple(number(name, inside | {buffer}) for name in read)
                uses.add((family.find_kernel().base, _options(family), i, parts))
            known[buffer] = _number(frozenset(uses), numbers)
        return known[buffer]

    return number(output.buffer, frozenset())


def _number(key: Hashable, numbers: dict[Hashable, int]) -> int:
    return numbers.setdefault(key, len(numbers))


def _options(family: TasksOp) -> tuple[tuple[str, int], ...]:
    """Returns the options of a kernel that change its result, not only its tiles."""
    options: Mapping[str, int] = family.int_options
    return tuple((k, v) for k, v in sorted(options.items()) if v and k not in TILE_OPTIONS)
