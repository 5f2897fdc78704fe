"""The roles of a function's arguments and results, from its attributes or inferred from their uses.

Without the attribute `moe.role`, roles follow from the operations that use a value: the operand of
`moe.route` is the expert ids, whatever its name and position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.moe.gradient import DispatchWeightedOp
from hpmoe_ir.dialects.moe.matmul import GroupedMatmulOp
from hpmoe_ir.dialects.moe.routing import (
    CollectOp,
    CombineOp,
    DispatchOp,
    RouteOp,
    WeightedSumOp,
)
from hpmoe_ir.dialects.placement import AnyTensor, TokensAttr
from hpmoe_ir.dialects.role import FORWARD, ROLE, Role, RoleAttr, RoleKind

_BOUNDARIES = (RouteOp, DispatchOp, DispatchWeightedOp, GroupedMatmulOp, CollectOp, CombineOp)
"""Operations at which the inference of roles stops."""


def stated_roles(function: FuncOp) -> tuple[list[Role | None], list[Role | None]]:
    """Returns the `moe.role` of each argument and each result, None where it is missing.

    Raises RefusedError if the attribute is no role, or if two arguments or results have the same.
    """
    inputs, outputs = function.function_type.inputs, function.function_type.outputs
    arguments = _stated(function, "argument", function.arg_attrs, len(inputs))
    return arguments, _stated(function, "result", function.res_attrs, len(outputs))


def _stated(
    function: FuncOp, what: str, attributes: ArrayAttr[DictionaryAttr] | None, count: int
) -> list[Role | None]:
    roles: list[Role | None] = []
    for i, entry in enumerate(attributes or [DictionaryAttr({})] * count):
        found = entry.data.get(ROLE)
        where = f"@{function.sym_name.data}: {what} {i}"
        if found is not None and not isinstance(found, RoleAttr):
            refuse(function, f"{where}: {ROLE}: expected #moe.role<...>, found {found}")
        role = None if found is None else found.data
        if role is not None and role.kind is not RoleKind.SAVED and role in roles:
            refuse(
                function, f"{where}: expected another role than {what} {roles.index(role)}: {role}"
            )
        roles.append(role)
    return roles


def function_roles(function: FuncOp) -> tuple[list[Role | None], list[Role | None]]:
    """Returns the role of each argument and each result, stated or inferred from its uses.

    None if neither is possible. Raises RefusedError as `stated_roles` does.
    """
    arguments, results = stated_roles(function)
    if function.is_declaration or forward_of(function) is not None:
        return arguments, results
    block = function.body.block
    by_use = [_only(_roles_by_use(argument)) for argument in block.args]
    for i, role in enumerate(by_use):
        if arguments[i] is None and by_use.count(role) == 1 and role not in arguments:
            arguments[i] = role
    last = block.last_op
    if isinstance(last, ReturnOp) and Role(RoleKind.OUTPUT) not in results:
        candidates = [
            i for i, v in enumerate(last.arguments) if results[i] is None and _is_output(v)
        ]
        if len(candidates) == 1:
            results[candidates[0]] = Role(RoleKind.OUTPUT)
    return arguments, results


def forward_of(function: FuncOp) -> str | None:
    """Returns the name of the forward function from the attribute `moe.forward`, None without it.

    Raises RefusedError if the attribute is no symbol.
    """
    found = function.attributes.get(FORWARD)
    if found is None:
        return None
    if not isinstance(found, SymbolRefAttr) or found.nested_references.data:
        refuse(
            function,
            f"@{function.sym_name.data}: {FORWARD}: expected the symbol of a function, found "
            f"{found}",
        )
    return found.root_reference.data


def role_attributes(roles: Iterable[Role | None]) -> ArrayAttr[DictionaryAttr]:
    """Returns the attributes of arguments or results that state the roles."""

    def entry(role: Role | None) -> dict[str, Attribute]:
        return {} if role is None else {ROLE: RoleAttr(role)}

    return ArrayAttr(DictionaryAttr(entry(role)) for role in roles)


def _roles_by_use(value: SSAValue) -> set[Role]:
    """Infers the roles of a value from its uses and, transitively, those of derived values."""
    found: set[Role] = set()
    seen: set[SSAValue] = set()
    todo = [value]
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.operation
            match op:
                case RouteOp():
                    found.add(Role(RoleKind.EXPERT_IDS))
                case DispatchOp():
                    found.add(Role(RoleKind.TOKENS))
                case CombineOp() | WeightedSumOp() if value is op.gate:
                    found.add(Role(RoleKind.GATE_WEIGHTS))
                case GroupedMatmulOp() if value is op.rhs and op.transpose_lhs is None:
                    found |= _weights(op)
                case _ if not isinstance(op, (*_BOUNDARIES, WeightedSumOp)):
                    todo += op.results
                case _:
                    pass
    return found


def _weights(op: GroupedMatmulOp) -> set[Role]:
    """Infers the projection of a product: up for dispatched rows, down for rows to be collected."""
    first = _reaches([op.lhs], _operands, (DispatchOp,))
    last = _reaches([op.product], _users, (CollectOp, CombineOp))
    if first == last:
        return set()
    return {Role(RoleKind.UP_WEIGHTS if first else RoleKind.DOWN_WEIGHTS)}


def _operands(value: SSAValue) -> list[tuple[Operation, Sequence[SSAValue]]]:
    """Returns the operation that defines a value, with its operands."""
    return [(value.owner, value.owner.operands)] if isinstance(value, OpResult) else []


def _users(value: SSAValue) -> list[tuple[Operation, Sequence[SSAValue]]]:
    """Returns the operations that use a value, with their results."""
    return [(use.operation, use.operation.results) for use in value.uses]


def _reaches(
    values: Sequence[SSAValue],
    step: Callable[[SSAValue], list[tuple[Operation, Sequence[SSAValue]]]],
    kinds: tuple[type[Operation], ...],
) -> bool:
    """Returns whether `step` leads from `values` to an op of `kinds` before another boundary."""
    seen: set[SSAValue] = set()
    todo = list(values)
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        for op, more in step(value):
            if isinstance(op, kinds):
                return True
            if not isinstance(op, _BOUNDARIES):
                todo += more
    return False


def _is_output(value: SSAValue) -> bool:
    """Returns whether a value is token rows computed from combined or collected expert rows."""
    return (
        isa(value.type, AnyTensor)
        and isinstance(value.type.encoding, TokensAttr)
        and _reaches([value], _operands, (CombineOp, CollectOp))
    )


def _only(roles: set[Role]) -> Role | None:
    """Returns the only role of a set, None if there are none or several."""
    return next(iter(roles)) if len(roles) == 1 else None
