"""The trait of operations that process each row independently."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException


@dataclass(frozen=True)
class RowwiseTrait(OpTrait):
    """Trait of an operation on grouped rows that one tile kernel computes row by row.

    Operands are rows of one route, and the only result has the same rows. The name of the kernel
    suffices: `convert-comm-to-tile` tiles the operation into a family of tasks over the same row
    chunks as its neighbours, and the graph-level interpreter runs the kernel's NumPy reference.

    ```python
    traits = traits_def(Pure(), RowwiseTrait("swiglu"))
    ```

    For a kernel with options, override `options` in a subclass.
    """

    kernel: str
    """Name of the kernel."""

    def options(self, op: Operation) -> dict[str, int]:
        """Returns the integer options of the kernel for `op`."""
        return {}

    def verify(self, op: Operation) -> None:
        if not op.operands or len(op.results) != 1:
            raise VerifyException(
                "an operation that works row by row has operands and one result, found "
                f"{len(op.operands)} and {len(op.results)}"
            )
