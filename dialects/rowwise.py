"""The trait of operations that work on each row by itself."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException


@dataclass(frozen=True)
class RowwiseTrait(OpTrait):
    """An operation on grouped rows that works on each row by itself, as one tile kernel does.

    Operands are rows of one route, and the only result has as many. With the name of the kernel
    everything else is known: `convert-comm-to-tile` makes a family of tasks over the same parts of
    the rows as other operations have, and the graph levels run the kernel's NumPy reference.

    ```python
    traits = traits_def(Pure(), RowwiseTrait("swiglu"))
    ```

    A kernel that has options gets them from a subclass.
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
