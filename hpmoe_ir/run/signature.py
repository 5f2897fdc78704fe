"""Signatures of functions: the roles of arguments and results, and binding of arrays to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import InputError, location_of
from hpmoe_ir.dialects.moe import forward_of, function_roles
from hpmoe_ir.dialects.placement import AnyTensor
from hpmoe_ir.dialects.role import ROLE, Role, RoleKind
from hpmoe_ir.interpreter.values import Array, capacity_shape, numpy_type

Direction: TypeAlias = Literal["forward", "backward"]


@dataclass(frozen=True)
class Signature:
    """The roles of a function's arguments and results, in order.

    Arrays are either sequences in this order or mappings keyed by role.
    """

    function: FuncOp
    arguments: tuple[Role | None, ...]
    """None where neither an attribute nor the uses of the argument determine its role."""
    results: tuple[Role | None, ...]
    forward: str | None
    """Name of the function whose gradients this one computes; None for a forward function."""

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.sym_name.data

    @property
    def direction(self) -> Direction:
        """Either "forward" for a layer or "backward" for a function that computes its gradients."""
        return "forward" if self.forward is None else "backward"

    def bind(self, arrays: Mapping[Role, Array]) -> list[Array]:
        """Returns the arrays in the order of the arguments; missing accumulators are zeros.

        Raises InputError for an argument without a role or without an array.
        """
        return [self._array(i, role, arrays) for i, role in enumerate(self.arguments)]

    def _array(self, index: int, role: Role | None, arrays: Mapping[Role, Array]) -> Array:
        if role is not None and role in arrays:
            return arrays[role]
        type = self.function.function_type.inputs.data[index]
        if role is not None and role.kind is RoleKind.ACCUMULATOR and isa(type, AnyTensor):
            return np.zeros(capacity_shape(type), numpy_type(type.element_type))
        where = f"@{self.name}: argument {index}"
        place = location_of(self.function)
        if role is None:
            raise InputError(
                f"{where} of type {type}: its use doesn't say what it is; add its role, as in "
                f"{{{ROLE} = #{ROLE}<{RoleKind.TOKENS}>}}",
                place,
            )
        raise InputError(f"{where}: there are no values for the role '{role}'", place)

    def by_role(self, arrays: Sequence[Array]) -> dict[Role, Array]:
        """Maps ordered results to their roles; results without a role are omitted."""
        pairs = zip(self.results, arrays, strict=True)
        return {role: array for role, array in pairs if role is not None}

    def describe_result(self, index: int) -> str:
        """Returns a description of a result for messages: its number and, if known, its role."""
        role = self.results[index]
        return f"result {index}" if role is None else f"result {index}, {role},"

    def result(self, role: Role) -> int:
        """Returns the index of the result with a role. Raises InputError if there is none."""
        if role in self.results:
            return self.results.index(role)
        raise InputError(
            f"@{self.name}: no result is known to be the {role}; add its role, as in "
            f"{{{ROLE} = #{ROLE}<{role}>}}",
            location_of(self.function),
        )


def signatures(module: ModuleOp) -> dict[str, Signature]:
    """Returns the signatures of the functions of a `moe`-level module, by name, in order.

    Raises InputError for invalid role attributes.
    """
    found: dict[str, Signature] = {}
    for op in module.ops:
        if isinstance(op, FuncOp):
            try:
                arguments, results = function_roles(op)
                forward = forward_of(op)
            except PassFailedException as e:
                raise InputError(str(e), location_of(op)) from e
            name = op.sym_name.data
            found[name] = Signature(op, tuple(arguments), tuple(results), forward)
    return found


def backward_of(known: Mapping[str, Signature], forward: str) -> Signature | None:
    """Returns the signature of the backward function of `forward`, or None."""
    return next((s for s in known.values() if s.forward == forward), None)
