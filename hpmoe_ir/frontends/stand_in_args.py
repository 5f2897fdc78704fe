"""Typed access to the operands of an operation as stand-in values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.frontends.mindir import GraphOp
from hpmoe_ir.frontends.stand_in import Exact, Operand, Rows, UnsupportedOpError, Value, Weights


@dataclass(frozen=True)
class Args:
    """An operation and the values of its operands on one rank.

    The accessors raise UnsupportedOpError for an operand of another kind.
    """

    op: GraphOp
    operands: tuple[Operand, ...]

    def at(self, i: int, default: Operand = None) -> Operand:
        """Returns operand `i`, `default` if there are fewer."""
        return self.operands[i] if i < len(self.operands) else default

    def value(self, i: int) -> Value:
        """Returns operand `i` as a tensor; numbers are tensors of rank 0."""
        return as_value(self.at(i), i)

    def exact(self, i: int) -> Exact:
        """Returns operand `i`, a tensor of exact values."""
        value = self.value(i)
        if not isinstance(value, Exact):
            raise UnsupportedOpError(
                f"operand {i}: expected indices or counts, found {kind_of(value)}"
            )
        return value

    def rows(self, i: int) -> Rows:
        """Returns operand `i`, rows of tokens or of experts' results."""
        value = self.value(i)
        if not isinstance(value, Rows):
            raise UnsupportedOpError(f"operand {i}: expected rows, found {kind_of(value)}")
        return value

    def weights(self, i: int) -> Weights:
        """Returns operand `i`, expert weights."""
        value = self.value(i)
        if not isinstance(value, Weights) or value.expert_ids is None:
            raise UnsupportedOpError(
                f"operand {i}: expected expert weights, found {kind_of(value)}"
            )
        return value

    def only(self, i: int) -> Value:
        """Returns the only tensor in the list operand `i`."""
        items = self.at(i)
        if isinstance(items, tuple) and len(items) == 1:
            return as_value(items[0], i)
        raise UnsupportedOpError(f"operand {i}: expected a list of one tensor")

    def number(self, i: int, default: int | None = None) -> int:
        """Returns operand `i`, an integer."""
        numbers = self.numbers(i, default)
        if len(numbers) != 1:
            raise UnsupportedOpError(f"operand {i}: expected one integer, found {len(numbers)}")
        return numbers[0]

    def numbers(self, i: int, default: int | None = None) -> list[int]:
        """Returns operand `i`, a list of integers; an empty one for None."""
        operand = self.at(i, default)
        if isinstance(operand, Exact):
            return [int(n) for n in operand.array.reshape(-1)]
        items = operand if isinstance(operand, tuple) else (operand,)
        return [int(n) for n in items if isinstance(n, int)]

    def flag(self, i: int, default: bool = False) -> bool:
        """Returns operand `i`, a boolean."""
        return bool(self.number(i, default))


def kind_of(operand: Operand) -> str:
    """Returns a description of an operand for messages."""
    match operand:
        case Rows():
            return "rows"
        case Weights(name=name):
            return f"the weights '{name}'"
        case Exact(array):
            return f"a tensor of {array.dtype} {list(array.shape)}"
        case _:
            return repr(operand)


def as_value(operand: Operand, i: int) -> Value:
    """Returns operand `i` as a tensor. Raises UnsupportedOpError for other operands."""
    if isinstance(operand, (Exact, Rows, Weights)):
        return operand
    if isinstance(operand, (bool, int, float)):
        return Exact(np.asarray(operand))
    raise UnsupportedOpError(f"operand {i}: expected a tensor, found {kind_of(operand)}")
