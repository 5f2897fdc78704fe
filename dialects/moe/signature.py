"""The roles of a function's arguments and results: as its attributes say, or by their use.

A function without the attribute `moe.role` has the roles that its operations give its arguments:
the operand of `moe.route` is the expert ids, whatever its name and place.
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
"""Operations whose results are something else than their operands."""


def stated_roles(function: FuncOp) -> tuple[list[Role | None], list[Role | None]]:
    """The roles of arguments and of results by the attribute `moe.role`, None where it is missing.

    Raises RefusedError where the attribute is no role, or two arguments or results have the same.
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
    """The roles of arguments and of results, those without an attribute by their use.

    None where neither says it. Raises RefusedError as `stated_roles`.
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
    """Name of the function whose gradients `function` computes, by the attribute `moe.forward`.

    Raises RefusedError where the attribute is no symbol.
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
    """Attributes of arguments or results that state their roles."""

    def entry(role: Role | None) -> dict[str, Attribute]:
        return {} if role is None else {ROLE: RoleAttr(role)}

    return ArrayAttr(DictionaryAttr(entry(role)) for role in roles)


def _roles_by_use(value: SSAValue) -> set[Role]:
    """What a value is by its uses, and by those of what is computed from it."""
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
    """Which projection a product is: of rows as they came, or of rows that go back."""
    first = _reaches([op.lhs], _operands, (DispatchOp,))
    last = _reaches([op.product], _users, (CollectOp, CombineOp))
    if first == last:
        return set()
    return {Role(RoleKind.UP_WEIGHTS if first else RoleKind.DOWN_WEIGHTS)}


def _operands(value: SSAValue) -> list[tuple[Operation, Sequence[SSAValue]]]:
    """The operation that made a value, and what it made it of."""
    return [(value.owner, value.owner.operands)] if isinstance(value, OpResult) else []


def _users(value: SSAValue) -> list[tuple[Operation, Sequence[SSAValue]]]:
    """The operations that use a value, and what they make of it."""
    return [(use.operation, use.operation.results) for use in value.uses]


def _reaches(
    values: Sequence[SSAValue],
    step: Callable[[SSAValue], list[tuple[Operation, Sequence[SSAValue]]]],
    kinds: tuple[type[Operation], ...],
) -> bool:
    """Whether steps from `values` come to an operation of `kinds` before any other boundary."""
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
    """Whether a value is rows of tokens that are made of experts' rows that came back."""
    return (
        isa(value.type, AnyTensor)
        and isinstance(value.type.encoding, TokensAttr)
        and _reaches([value], _operands, (CombineOp, CollectOp))
    )


def _only(roles: set[Role]) -> Role | None:
    """The role of a set that has one."""
    return next(iter(roles)) if len(roles) == 1 else None
