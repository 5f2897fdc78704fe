"""What a user is told of bad input: one message with its place in the text, where that is known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NoReturn

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import DiagnosticException, PassFailedException, VerifyException

MOST_CHARACTERS = 2000
"""Of a message."""


class InputError(Exception):
    """Input that can't be used: `str` is the whole message, with its location if one is known."""

    def __init__(self, message: str, location: str = ""):
        message = shortened(message)
        super().__init__(f"{location}: error: {message}" if location else f"error: {message}")
        self.message = message
        self.location = location


class RefusedError(PassFailedException):
    """IR that a pass can't take, with the operation at fault."""

    def __init__(self, op: Operation, message: str):
        super().__init__(message)
        self.op = op


def refuse(op: Operation, message: str) -> NoReturn:
    """Refuses the IR that a pass was given because of `op`."""
    raise RefusedError(op, message)


def location_of(op: Operation) -> str:
    """`file:line:column` of an operation, or of the nearest one around it; else empty."""
    current: Operation | None = op
    while current is not None:
        location = current.location
        if isinstance(location, FileLineColLoc):
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        current = current.parent_op()
    return ""


def shortened(text: str) -> str:
    """`text` without its middle where it is too long to be read, as with a very long name in it."""
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]} ... {text[-half:]}"


def one_line(text: str) -> str:
    """`text` without line breaks; xDSL's own messages may have some."""
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def verify_module(module: ModuleOp, after: str = "", name: str = "") -> None:
    """Raises InputError at the first operation that doesn't verify.

    `after` names the pass that made the module, if one did; `name` tells where the module is from,
    for an operation without a place.
    """
    if not after:
        _check_definitions(module, name)
    try:
        module.verify()
    except DiagnosticException as error:
        op, found = _first_invalid(module, error)
        prefix = f"after {after}: " if after else ""
        place = location_of(op) or name
        raise InputError(f"{prefix}{op.name}: {one_line(str(found))}", place) from error


def _check_definitions(module: ModuleOp, name: str) -> None:
    """Raises InputError at the first operation that lacks an attribute, operand or region.

    An operation that looks at those around it finds them complete after that.
    """
    for op in module.walk():
        if isinstance(op, IRDLOperation):
            try:
                op.get_irdl_definition().verify(op)
            except VerifyException as error:
                message = f"{op.name}: {one_line(str(error))}"
                raise InputError(message, location_of(op) or name) from error


def _first_invalid(
    module: ModuleOp, error: DiagnosticException
) -> tuple[Operation, DiagnosticException]:
    """The operation whose own check fails; xDSL's exception doesn't carry it."""
    for op in module.walk(region_first=True):
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as found:
            return op, found
    # What is wrong with a block only shows when the operation around it checks its regions.
    for op in module.walk(region_first=True):
        try:
            op.verify()
        except VerifyException as found:
            return op, found
    return module, error


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'a' or 'b'?` for names close to `name`, else `; known: a, b, c`."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    if close:
        return "; did you mean " + " or ".join(f"'{c}'" for c in close) + "?"
    return f"; known: {', '.join(names)}" if names else ""
