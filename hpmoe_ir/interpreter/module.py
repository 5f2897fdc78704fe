"""Runs functions of the `moe` and `comm` levels on given values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from inspect import isclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter, InterpreterFunctions
from xdsl.interpreters.func import FuncFunctions
from xdsl.utils.exceptions import InterpretationError
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import InputError, one_line
from hpmoe_ir.dialects.placement import AnyTensor
from hpmoe_ir.dialects.rowwise import RowwiseTrait
from hpmoe_ir.extensions import INSTALLED, INTERPRETERS, described, extensions, load
from hpmoe_ir.interpreter.comm import CommFunctions
from hpmoe_ir.interpreter.moe import MoeFunctions
from hpmoe_ir.interpreter.rowwise import rowwise_functions
from hpmoe_ir.interpreter.values import Array, PerRank, check_argument


def run_module(
    module: ModuleOp,
    function: str | None,
    args: Sequence[Sequence[Array]],
    interpreter: Interpreter | None = None,
) -> list[PerRank]:
    """Runs `function`, or the only function with a body; returns `results[i][r]`.

    `args[i][r]` is argument i of rank r: int32 ids, and floats as float32 (float64 for f64), which
    are rounded to the argument's element type. `results[i][r]` is result i of rank r, in the same
    types. Rows are not padded: a rank with t tokens has arrays of t rows. `interpreter`: one that
    `register_functions` has prepared, to be used instead of a new one.

    Raises InterpretationError, naming the argument and the rank, for values of a wrong shape or
    type, for ids out of range or repeated, and for more rows than a capacity.
    """
    op = _find(module, function)
    name = op.sym_name.data
    types = op.function_type.inputs.data
    if len(args) != len(types):
        raise InterpretationError(f"@{name}: expected {len(types)} arguments, found {len(args)}")
    ranks = len(args[0]) if args else 1
    values: list[PerRank] = []
    for i, (arrays, type) in enumerate(zip(args, types, strict=True)):
        if not isa(type, AnyTensor):
            raise InterpretationError(
                f"@{name}, argument {i}: expected a tensor to be run on, found {type}"
            )
        if len(arrays) != ranks:
            raise InterpretationError(
                f"@{name}, argument {i}: expected values of {ranks} ranks, found {len(arrays)}"
            )
        values.append(
            [
                check_argument(f"@{name}, argument {i}, rank {rank}", array, type)
                for rank, array in enumerate(arrays)
            ]
        )
    if interpreter is None:
        interpreter = Interpreter(module)
        register_functions(interpreter, module, ranks)
    # Numbers beyond the range are infinite, as on the device, and no mishap of this program.
    with np.errstate(over="ignore", invalid="ignore"):
        return list(interpreter.call_op(op, tuple(values)))


def register_functions(interpreter: Interpreter, module: ModuleOp, ranks: int) -> None:
    """Registers the functions of all operations of `module`, for values of `ranks` ranks.

    Raises InputError for invalid functions of another package.
    """
    for functions in (FuncFunctions(), MoeFunctions(), CommFunctions(ranks)):
        interpreter.register_implementations(functions)
    _register_extensions(interpreter)
    _register_rowwise(interpreter, module)


def _register_extensions(interpreter: Interpreter) -> None:
    """Registers interpreter functions of other packages; raises InputError for invalid ones."""
    for point in extensions(INTERPRETERS).values():
        functions = load(point)
        if not (isclass(functions) and issubclass(functions, InterpreterFunctions)):
            raise InputError(
                f"{described(point)}: expected a class of InterpreterFunctions, found {functions}",
                INSTALLED,
            )
        try:
            interpreter.register_implementations(functions())
        except Exception as e:  # the code of another package: it may raise anything
            raise InputError(
                f"{described(point)}: can't register it: {type(e).__name__}: {one_line(str(e))}",
                INSTALLED,
            ) from e


def _register_rowwise(interpreter: Interpreter, module: ModuleOp) -> None:
    """Registers row-wise operations of `module` that have no interpreter functions yet."""
    rowwise = {type(op): op for op in module.walk() if op.has_trait(RowwiseTrait)}
    for op_type in rowwise:
        # Raises if the operation already has functions, which are preferred.
        with suppress(ValueError):
            interpreter.register_implementations(rowwise_functions(op_type))


def _find(module: ModuleOp, name: str | None) -> FuncOp:
    """Returns the function called `name`, or the only one with a body."""
    functions = [op for op in module.walk() if isinstance(op, FuncOp) and not op.is_declaration]
    if name is not None:
        functions = [op for op in functions if op.sym_name.data == name]
    if len(functions) != 1:
        wanted = "one function with a body" if name is None else f"a function @{name} with a body"
        raise InterpretationError(f"expected {wanted}, found {len(functions)}")
    return functions[0]
