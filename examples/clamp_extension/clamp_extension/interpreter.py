"""Semantics of `clamp.clamp` at the graph levels, where a value is one array for each rank."""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls

from clamp_extension.dialect import ClampOp
from hpmoe_ir.interpreter.values import PerRank


@register_impls
class ClampFunctions(InterpreterFunctions):
    """The operations of the `clamp` dialect in NumPy."""

    @impl(ClampOp)
    def run_clamp(self, interpreter: Interpreter, op: ClampOp, args: PythonValues) -> PythonValues:
        limit = op.limit.value.data
        return ([np.clip(rows, -limit, limit) for rows in cast(PerRank, args[0])],)
