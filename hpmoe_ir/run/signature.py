"""Signatures of functions and programs: roles of arguments and results, binding of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import InputError, location_of
from hpmoe_ir.dialects import queue, tile
from hpmoe_ir.dialects.moe import forward_of, function_roles
from hpmoe_ir.dialects.placement import AnyTensor
from hpmoe_ir.dialects.role import ROLE, Role, RoleKind
from hpmoe_ir.dialects.tile import BufferType, buffers_of, program_signature
from hpmoe_ir.interpreter.values import Array, capacity_shape, numpy_type

Direction: TypeAlias = Literal["forward", "backward"]


Program: TypeAlias = tile.ProgramOp | queue.ProgramOp


@dataclass(frozen=True)
class Signature:
    """The roles of the arguments and results of a function or program, in order.

    Arrays are either sequences in this order or mappings keyed by role. The launch status of a
    program is not among its results.
    """

    op: FuncOp | Program
    types: tuple[Attribute, ...]
    """Types of the arguments: tensors of a function, buffers of a program."""
    arguments: tuple[Role | None, ...]
    """None where neither an attribute nor the uses of the argument determine its role."""
    results: tuple[Role | None, ...]
    forward: str | None
    """Name of the function whose gradients this one computes; None for a forward function."""

    @property
    def name(self) -> str:
        """Name of the function or program."""
        return self.op.sym_name.data

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
        type = self.types[index]
        if role is not None and role.kind is RoleKind.ACCUMULATOR:
            return _zeros(type)
        where = f"@{self.name}: argument {index}"
        place = location_of(self.op)
        if role is None:
            raise InputError(
                f"{where} of type {type}: its use doesn't say what it is; add its role, as in "
                f"{role_example(self.op, RoleKind.TOKENS)}",
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
            f"{role_example(self.op, role)}",
            location_of(self.op),
        )


def role_example(op: Operation, role: Role | RoleKind) -> str:
    """Returns how a function or a program states a role, for messages."""
    return f"{{{ROLE} = #{ROLE}<{role}>}}" if isinstance(op, FuncOp) else f"`(@NAME: {role})`"


def _zeros(type: Attribute) -> Array:
    if isinstance(type, BufferType):
        return np.zeros(type.dims, numpy_type(type.element_type))
    assert isa(type, AnyTensor), f"{type} is no accumulator"
    return np.zeros(capacity_shape(type), numpy_type(type.element_type))


def signatures(module: ModuleOp) -> dict[str, Signature]:
    """Returns the signatures of the functions or programs of a module, by name, in order.

    The module may be at any level. Raises InputError for invalid role attributes.
    """
    found: dict[str, Signature] = {}
    for op in module.ops:
        if isinstance(op, FuncOp):
            found[op.sym_name.data] = _of_function(op)
        elif isinstance(op, Program):
            found[op.sym_name.data] = _of_program(op)
    return found


def _of_function(function: FuncOp) -> Signature:
    try:
        arguments, results = function_roles(function)
        forward = forward_of(function)
    except PassFailedException as e:
        raise InputError(str(e), location_of(function)) from e
    types = tuple(function.function_type.inputs)
    return Signature(function, types, tuple(arguments), tuple(results), forward)


def _of_program(program: Program) -> Signature:
    signature, buffers = program_signature(program), buffers_of(program)
    forward = program.forward
    return Signature(
        program,
        tuple(buffers[p.buffer].type for p in signature.arguments),
        tuple(p.role for p in signature.arguments),
        tuple(p.role for p in signature.results if p.role != Role(RoleKind.STATUS)),
        None if forward is None else forward.root_reference.data,
    )


def forward_signature(known: Mapping[str, Signature]) -> Signature:
    """Returns the signature of the only forward function or program.

    Raises InputError if there are none or several.
    """
    found = [s for s in known.values() if s.forward is None]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"@{s.name}" for s in found)
    raise InputError(
        f"expected one forward function or program to run, found {len(found)}"
        f"{f': {names}' if names else ''}",
        location_of(found[1].op) if found else "",
    )


def backward_of(known: Mapping[str, Signature], forward: str) -> Signature | None:
    """Returns the signature of the backward function of `forward`, or None."""
    return next((s for s in known.values() if s.forward == forward), None)


def has_gradients(module: ModuleOp) -> bool:
    """Whether a module has a backward function or program. Raises InputError as `signatures`."""
    return any(s.forward is not None for s in signatures(module).values())
