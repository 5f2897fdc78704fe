"""The trait of operations that know how far their kernels are from the exact result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation
from xdsl.traits import OpTrait


class EvaluationErrorTrait(OpTrait, ABC):
    """Trait of an operation that states the largest error of its evaluation.

    `hpmoe run --check` otherwise assumes float32 arithmetic. An operation whose kernel is less
    exact, such as one with an approximate reciprocal, states its error:

    ```python
    class RmsNormError(EvaluationErrorTrait):
        @classmethod
        def evaluation_error(cls, op, index, operands, result):
            return [2.0**-10 * np.abs(rows) for rows in result]
    ```
    """

    @classmethod
    @abstractmethod
    def evaluation_error(
        cls,
        op: Operation,
        index: int,
        operands: Sequence[Any],
        result: Sequence[np.ndarray[Any, np.dtype[Any]]],
    ) -> list[np.ndarray[Any, np.dtype[Any]]]:
        """Returns the largest absolute error of result `index`, for each rank, in float64.

        operands: for each operand its value, a list of one array for each rank, in float64; result:
        the exact result of each rank. The arrays returned have the result's shapes. The rounding of
        the result to its storage type comes on top.
        """
