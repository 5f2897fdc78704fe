"""Parser of textual IR that records the source location of each operation."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    FileLineColLoc,
    IntAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Operation, TypeAttribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from hpmoe_ir.diagnostics import InputError, one_line, verify_module
from hpmoe_ir.extensions import extension_universe
from hpmoe_ir.universe import DIALECTS

OPERATION_NAME = re.compile(r"(?<![%#!.\w])[a-zA-Z_]\w*(\.\w+)+")

MOST_BITS = 4096
"""Maximum width of an integer type: xDSL computes its value limits and prints them in decimal."""

STRING_OR_COMMENT = re.compile(
    r'//[^\n]*|"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"|(?P<broken>")'
)


def make_context() -> Context:
    """Returns a context with all dialects of xDSL, of this package and of extensions.

    Dialects are loaded on first use.
    """
    ctx = Context()
    extended = extension_universe().all_dialects
    for name, factory in (get_all_dialects() | extended | DIALECTS).items():
        ctx.register_dialect(name, factory)
    return ctx


def read_module(ctx: Context, path: Path) -> ModuleOp:
    """Reads, parses and verifies the module in a file; `-` is standard input.

    Raises InputError on failure.
    """
    name = input_name(path)
    module = parse_module(ctx, read_input(path), name)
    verify_module(module, name=name)
    return module


STANDARD_INPUT = Path("-")
"""The name of standard input on a command line."""

_standard_input: tuple[object, bytes] | None = None


def input_name(path: Path) -> str:
    """Returns the name of an input file in messages and locations."""
    return "<stdin>" if path == STANDARD_INPUT else str(path)


def read_input(path: Path) -> bytes:
    """Returns the content of a file or, for `-`, of standard input. Raises InputError.

    A command may read its input several times: standard input is kept.
    """
    global _standard_input
    if path != STANDARD_INPUT:
        try:
            return path.read_bytes()
        except OSError as error:
            raise InputError(f"can't read the file: {error.strerror}", str(path)) from error
    if _standard_input is None or _standard_input[0] is not sys.stdin:
        try:
            _standard_input = sys.stdin, sys.stdin.buffer.read()
        except OSError as error:
            raise InputError(f"can't read the file: {error.strerror}", "<stdin>") from error
    return _standard_input[1]


def parse_module(
    ctx: Context,
    data: bytes,
    name: str,
    *,
    first_line: int = 1,
    implicit_module: bool = True,
) -> ModuleOp:
    """Parses a module, without verifying it.

    `name` is the file name and `first_line` the line number of the first line, for locations.
    Raises InputError with the line and column of a syntax error.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        before = data[data.rfind(b"\n", 0, error.start) + 1 : error.start]
        place = f"{name}:{line}:{len(before.decode()) + 1}"
        raise InputError("expected UTF-8 text, found other bytes", place) from error
    _check_strings(text, name, first_line)
    try:
        parser = LocatingParser(ctx, text, name, first_line)
        try:
            module = parser.parse_module(implicit_module)
        except RecursionError as error:
            raise InputError(
                "expected text that is not nested as deeply", _place(parser, first_line)
            ) from error
    except ParseError as error:
        found = error.span.get_location()
        line = found.line + first_line - 1
        raise InputError(one_line(error.msg), f"{name}:{line}:{found.col}") from error
    return module


def _place(parser: Parser, first_line: int) -> str:
    """Returns the parser's current position as `file:line:column`."""
    before = parser.lexer.input.content[: parser.pos]
    line = before.count("\n") + first_line
    return f"{parser.lexer.input.name}:{line}:{len(before) - before.rfind(chr(10))}"


def _integer_bits(type: Attribute | None) -> int:
    """Returns the width of an integer type in bits, 0 for other types."""
    return type.bitwidth if isinstance(type, IntegerType) else 0


def _check_strings(text: str, name: str, first_line: int) -> None:
    """Raises InputError for an unterminated string literal.

    On such a literal, xDSL's lexer backtracks in time exponential in its length.
    """
    for match in STRING_OR_COMMENT.finditer(text):
        if match.group("broken"):
            line = first_line + text.count("\n", 0, match.start())
            column = match.start() - text.rfind("\n", 0, match.start())
            raise InputError(
                'expected a string that ends on its line, with no escapes but \\\\, \\", \\n, \\t '
                "and two hexadecimal digits",
                f"{name}:{line}:{column}",
            )


class LocatingParser(Parser):
    """A parser that sets the location of operations without an explicit `loc(...)`."""

    def __init__(self, ctx: Context, text: str, name: str, first_line: int = 1):
        super().__init__(ctx, text, name)
        self._file = StringAttr(name)
        self._first_line = first_line
        self._line_starts = [0]
        for position, character in enumerate(text):
            if character == "\n":
                self._line_starts.append(position + 1)

    def parse_operation(self) -> Operation:
        start = self.pos
        try:
            op = super().parse_operation()
        except (VerifyException, ValueError) as error:
            # Custom syntax checks types while it infers others; xDSL's message lacks the operation.
            name = OPERATION_NAME.search(self.lexer.input.content, start)
            prefix = f"{name.group()}: " if name else ""
            self.raise_error(f"{prefix}{error}", start)
        if op.location == UNKNOWN_LOC:
            line = bisect_right(self._line_starts, start)
            op.location = FileLineColLoc(
                self._file,
                IntAttr(line + self._first_line - 1),
                IntAttr(start - self._line_starts[line - 1] + 1),
            )
        return op

    def _parse_block(self) -> Block:
        # For a block that was referenced before its definition, xDSL loses the position of the
        # first definition and then fails at a second one.
        name = self._current_token.text[1:]
        known = self.blocks.get(name)
        if known and known[1] is None and name not in self.forward_block_references:
            self.raise_error(f"re-declaration of block '{name}'")
        return super()._parse_block()

    def parse_optional_type(self) -> TypeAttribute | None:
        start = self.pos
        try:
            type = super().parse_optional_type()
            bits = _integer_bits(type)
            if bits > MOST_BITS:
                raise VerifyException(
                    f"expected an integer type of at most {MOST_BITS} bits, found one of {bits}"
                )
            return type
        except (VerifyException, ValueError) as error:
            self.raise_error(str(error), start, self.pos)

    def parse_optional_attribute(self) -> Attribute | None:
        start = self.pos
        try:
            return super().parse_optional_attribute()
        except (VerifyException, ValueError) as error:
            self.raise_error(str(error), start, self.pos)
