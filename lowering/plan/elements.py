"""Element types of tiles in generated code."""

from __future__ import annotations

from enum import StrEnum

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, i32
from xdsl.ir import Attribute

from hpmoe_ir.kernels.kernel import Element


class ElementType(StrEnum):
    """An element type by its name in the IR."""

    BF16 = "bf16"
    F16 = "f16"
    F32 = "f32"
    I32 = "i32"

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return 2 if self in ACTIVATIONS else 4


ACTIVATIONS = (ElementType.F16, ElementType.BF16)

OPERAND_TYPES: dict[Element, tuple[ElementType, ...]] = {
    Element.I32: (ElementType.I32,),
    Element.F32: (ElementType.F32,),
    Element.ACTIVATION: ACTIVATIONS,
    Element.ACTIVATION_OR_F32: (*ACTIVATIONS, ElementType.F32),
}
"""Element types that a tile may have, by the element kind of the kernel's operand."""


def element_type(type: Attribute) -> ElementType | None:
    """Returns the element type of a buffer's tiles, None if it is not supported."""
    match type:
        case BFloat16Type():
            return ElementType.BF16
        case Float16Type():
            return ElementType.F16
        case Float32Type():
            return ElementType.F32
        case _:
            return ElementType.I32 if type == i32 else None
