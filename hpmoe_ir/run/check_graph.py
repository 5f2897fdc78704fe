"""The graph against which a run is checked, and results in the order of its functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.dialects.placement import AnyTensor
from hpmoe_ir.dialects.role import Role, RoleKind
from hpmoe_ir.dialects.tile import BufferType, buffers_of, program_signature
from hpmoe_ir.driver.compiler import Compiled
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.graph_layer import GraphLayer
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.run.signature import Signature, backward_of, forward_signature, signatures


@dataclass(frozen=True)
class CheckGraph:
    """A module at the `moe` level that says what a layer computes."""

    module: ModuleOp
    forward: Signature
    backward: Signature | None
    """The function of the gradients; None if they are not checked."""

    def in_order(
        self, own: Signature, own_forward: Signature, results: Sequence[Array]
    ) -> list[Array]:
        """Returns results of a rank in the order of the function of the graph with the same roles.

        `own` is the function or program that has run, `own_forward` its forward one. Results that
        it doesn't have are empty arrays; the output and the gradients must be there. Raises
        InputError for one that is missing.
        """
        function = self.forward if own.forward is None else self.backward
        assert function is not None
        if function.op is own.op:
            return list(results)
        found = {
            _meaning(role, own_forward): array
            for role, array in zip(own.results, results, strict=True)
            if role is not None
        }
        ordered: list[Array] = []
        for role in function.results:
            meaning = None if role is None else _meaning(role, self.forward)
            if meaning in found:
                ordered.append(found[meaning])
            elif role is not None and role.kind in (RoleKind.OUTPUT, RoleKind.ARGUMENT_GRADIENT):
                raise InputError(f"@{own.name}: --check: no result is known to be the {role}")
            else:
                ordered.append(results[0][:0])
        return ordered


def _meaning(role: Role, forward: Signature) -> tuple[RoleKind, Role | int | None]:
    """Returns a role with the role of the argument that it is of, in place of its number."""
    if role.kind is not RoleKind.ARGUMENT_GRADIENT or role.number is None:
        return role.kind, role.number
    of = forward.arguments[role.number] if role.number < len(forward.arguments) else None
    return role.kind, of or role.number


def check_graph(compiled: Compiled, layer: GraphLayer, backward: Signature | None) -> CheckGraph:
    """Returns the graph that says what a compiled layer computes.

    It is the graph that was compiled or, for a module of a lower level, the functions that came
    with it; without them, the plain expert layer if the module computes that (`module_layer`).
    Gradients of a graph that has none are derived. Raises InputError if there is no graph.
    """
    if compiled.level == "moe":
        module = compiled.modules["moe"]
    elif compiled.graph is not None:
        module = compiled.graph.clone()
    elif layer.is_textbook:
        module = layer_module(layer.config)
    else:
        raise InputError(
            f"--check: there is no reference: the input is at the {compiled.level} level, has no "
            "graph, and doesn't compute a plain expert layer; add the graph's functions to the "
            "file, or run without --check"
        )
    forward = forward_signature(signatures(module))
    if backward is not None and backward_of(signatures(module), forward.name) is None:
        _derive_like(backward).apply(Context(), module)
    known = signatures(module)
    forward = forward_signature(known)
    return CheckGraph(module, forward, backward_of(known, forward.name))


def _derive_like(backward: Signature) -> DeriveBackwardPass:
    """Returns the pass that derives gradients of the same element types."""
    accumulate = any(r is not None and r.kind is RoleKind.ACCUMULATOR for r in backward.arguments)
    types = [str(element) for element in _weight_gradients(backward)]
    rounded = bool(types) and all(element in ("bf16", "f16") for element in types)
    return DeriveBackwardPass(
        accumulate=accumulate, weight_gradients="activation" if rounded else "f32"
    )


def _weight_gradients(backward: Signature) -> list[Attribute]:
    """Returns the element types of the gradients with a dimension of experts."""
    if isinstance(backward.op, FuncOp):
        types = list(backward.op.function_type.outputs)
    else:
        buffers = buffers_of(backward.op)
        types = [buffers[p.buffer].type for p in program_signature(backward.op).results]
    return [
        type.element_type
        for type in types
        if (isinstance(type, BufferType) and len(type.dims) == 3)
        or (isa(type, AnyTensor) and len(type.get_shape()) == 3)
    ]
