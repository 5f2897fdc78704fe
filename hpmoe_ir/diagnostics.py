"""Diagnostics of bad input: one message, with its location in the text where that is known."""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import NoReturn

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import DiagnosticException, PassFailedException, VerifyException

MAX_MESSAGE_CHARACTERS = 2000
"""Longest message that is printed whole; a longer one, as with a very long name, is cut."""


class InputError(Exception):
    """Invalid input of a user. `str` is the whole message, with its location if one is known."""

    def __init__(self, message: str, location: str = ""):
        message = shortened(message)
        super().__init__(f"{location}: error: {message}" if location else f"error: {message}")
        self.message = message
        self.location = location


class RefusedError(PassFailedException):
    """IR that a pass does not support, with the operation at fault."""

    def __init__(self, op: Operation, message: str):
        super().__init__(message)
        self.op = op


class InvalidOpError(VerifyException):
    """IR that does not verify, with the operation at fault, inside the one that is verified."""

    def __init__(self, op: Operation, message: str):
        super().__init__(message)
        self.op = op


def refuse(op: Operation, message: str) -> NoReturn:
    """Raises RefusedError: the running pass does not support `op`."""
    raise RefusedError(op, message)


@contextmanager
def crashes_named(what: str) -> Generator[None]:
    """Adds `what`, as a note, to an exception that is no diagnostic: an error of what ran."""
    try:
        yield
    except (DiagnosticException, InputError):
        raise
    except Exception as error:
        error.add_note(what)
        raise


def unexpected(error: Exception) -> str:
    """Returns the message of an exception that no code foresees: its kind, and what crashed."""
    places = "".join(f" in {note}" for note in getattr(error, "__notes__", ()))
    return (
        f"error: unexpected {type(error).__name__}{places}: {one_line(shortened(str(error)))}; "
        "--traceback shows where it is from"
    )


def pass_named(module_pass: ModulePass) -> str:
    """Returns `pass NAME` for messages, with its package if it is not this one."""
    package = type(module_pass).__module__.partition(".")[0]
    return f"pass {module_pass.name}" + (f" of {package}" if package != "hpmoe_ir" else "")


def location_of(op: Operation) -> str:
    """Returns `file:line:column` of `op` or its nearest ancestor that has one, else ''."""
    current: Operation | None = op
    while current is not None:
        location = current.location
        if isinstance(location, FileLineColLoc):
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        current = current.parent_op()
    return ""


def shortened(text: str) -> str:
    """Returns `text`, without its middle if it exceeds MAX_MESSAGE_CHARACTERS."""
    if len(text) <= MAX_MESSAGE_CHARACTERS:
        return text
    half = MAX_MESSAGE_CHARACTERS // 2
    return f"{text[:half]} ... {text[-half:]}"


def one_line(text: str) -> str:
    """Returns `text` with its lines joined by spaces; messages of xDSL may have several."""
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def verify_module(module: ModuleOp, after: str = "", name: str = "") -> None:
    """Raises InputError at the first operation that does not verify.

    `after` is the pass that produced the module, '' for parsed input. `name` is the source of the
    module; the message has it in place of a location for an operation without one.
    """
    prefix = f"after {after}: " if after else ""
    _check_symbols(module, prefix, name)
    if not after:
        _check_definitions(module, name)
    try:
        module.verify()
    except DiagnosticException as error:
        op, cause = _first_invalid(module, error)
        location = location_of(op) or name
        raise InputError(f"{prefix}{op.name}: {one_line(str(cause))}", location) from error


def _check_definitions(module: ModuleOp, name: str) -> None:
    """Raises InputError at the first operation that lacks an attribute, operand or region.

    Verifiers that read the operations around their own rely on those being complete.
    """
    for op in module.walk():
        if isinstance(op, IRDLOperation):
            try:
                op.get_irdl_definition().verify(op)
            except VerifyException as error:
                message = f"{op.name}: {one_line(str(error))}"
                raise InputError(message, location_of(op) or name) from error


def _check_symbols(module: ModuleOp, prefix: str, name: str) -> None:
    """Raises InputError at the second operation of a symbol table that defines the same symbol.

    xDSL's own verifier names the table, and a module without text has no location.
    """
    for table in module.walk():
        if not table.has_trait(SymbolTable):
            continue
        known: dict[str, Operation] = {}
        for op in (o for region in table.regions for block in region.blocks for o in block.ops):
            symbol = op.get_attr_or_prop("sym_name")
            if not isinstance(symbol, StringAttr):
                continue
            first = known.setdefault(symbol.data, op)
            if first is not op:
                where = location_of(first)
                raise InputError(
                    f"{prefix}{op.name}: the symbol @{symbol.data} is defined twice, first by a "
                    f"{first.name}{f' at {where}' if where else ''}; expected different names",
                    location_of(op) or name,
                )


def _first_invalid(
    module: ModuleOp, error: DiagnosticException
) -> tuple[Operation, DiagnosticException]:
    """Returns the operation whose verifier fails, which xDSL's exception does not carry."""
    for op in module.walk(region_first=True):
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as cause:
            return (cause.op if isinstance(cause, InvalidOpError) else op), cause
    # A fault of a block is only found when its parent operation verifies its regions.
    for op in module.walk(region_first=True):
        try:
            op.verify()
        except VerifyException as cause:
            return op, cause
    return module, error


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns `; did you mean 'a' or 'b'?` for names close to `name`, else `; known: a, b, c`."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    if close:
        return "; did you mean " + " or ".join(f"'{c}'" for c in close) + "?"
    return f"; known: {', '.join(names)}" if names else ""
