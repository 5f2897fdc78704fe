"""Memory of the values that a forward function saves, for each choice of `recompute`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import FixedBitwidthType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.utils.hints import isa

from hpmoe_ir.dialects.moe import stated_roles
from hpmoe_ir.dialects.placement import AnyTensor, RowsAttr
from hpmoe_ir.dialects.role import Role, RoleKind
from hpmoe_ir.passes.derive_backward import RECOMPUTABLE, DeriveBackwardPass, recomputable


@dataclass(frozen=True)
class SavedValue:
    """A value that the forward function saves for the backward function."""

    name: str
    """Display name: the SSA name hint in the function, or the result number."""
    type: AnyTensor

    @property
    def bytes(self) -> int:
        """Bytes on one rank, at the maximum number of rows."""
        shape = self.type.get_shape()
        if isinstance(self.type.encoding, RowsAttr):
            shape = (self.type.encoding.rows.data, *shape[1:])
        element = self.type.element_type
        assert isinstance(element, FixedBitwidthType), f"expected numbers, found {element}"
        return prod(shape) * element.size


def saved_values(function: FuncOp) -> list[SavedValue]:
    """Returns the values that a forward function saves, after `derive-backward` has run."""
    saved: list[SavedValue] = []
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp), "a function ends in func.return"
    _, roles = stated_roles(function)
    for i, (value, role) in enumerate(zip(last.arguments, roles, strict=True)):
        if role == Role(RoleKind.SAVED):
            assert isa(value.type, AnyTensor), "saved values are tensors"
            saved.append(SavedValue(value.name_hint or f"result {i}", value.type))
    return saved


def saved_by_choice(module: ModuleOp) -> Iterator[tuple[tuple[str, ...], list[SavedValue]]]:
    """Yields each `recompute` choice of `derive-backward` and its saved values; () comes first.

    `module` is at the `moe` level, has one function with a body, and is not modified.
    """
    made = {recomputable(op) for op in module.walk()}
    names = [name for name in RECOMPUTABLE if name in made]
    for count in range(len(names) + 1):
        for choice in combinations(names, count):
            copy = module.clone()
            DeriveBackwardPass(recompute=choice).apply(Context(), copy)
            forward = next(op for op in copy.ops if isinstance(op, FuncOp) and op.body.blocks)
            yield choice, saved_values(forward)
