"""The `clamp` dialect."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import I64, IntegerAttr, TensorType, i64
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.rowwise import RowwiseTrait


class ClampTrait(RowwiseTrait):
    """Works row by row, by the kernel `clamp` with the limit as its option."""

    def options(self, op: Operation) -> dict[str, int]:
        assert isinstance(op, ClampOp)
        return {"limit": op.limit.value.data}


@irdl_op_definition
class ClampOp(IRDLOperation):
    """Moves each element of the rows into the range from -limit to limit.

    ```
    %c = clamp.clamp %h to 7 : tensor<?x64xbf16, #moe.grouped<256 rows>>
    ```
    """

    name = "clamp.clamp"

    T: ClassVar = VarConstraint("T", base(TensorType))

    rows = operand_def(T)
    limit = prop_def(IntegerAttr[I64])
    clamped = result_def(T)

    traits = traits_def(Pure(), ClampTrait("clamp"))

    assembly_format = "$rows `to` $limit attr-dict `:` type($rows)"

    def __init__(self, rows: SSAValue, limit: int):
        super().__init__(
            operands=[rows],
            properties={"limit": IntegerAttr(limit, i64)},
            result_types=[rows.type],
        )

    def verify_(self) -> None:
        if self.limit.value.data <= 0:
            raise VerifyException(f"expected a positive limit, found {self.limit.value.data}")


Clamp = Dialect("clamp", [ClampOp], [])
