"""The kind of core in the IR: a keyword in text, a string property in an operation."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.machines.core_kind import CoreKind


def parse_core_kind(parser: Parser) -> CoreKind:
    """Parses `aic` or `aiv`."""
    return CoreKind(parser.parse_keyword_in(tuple(CoreKind), " as the kind of core"))


def verify_core_kind(core: StringAttr) -> None:
    """Checks that a property is a kind of core; raises VerifyException."""
    if core.data not in tuple(CoreKind):
        raise VerifyException(
            f"expected the kind of core to be {' or '.join(CoreKind)}, found {core.data}"
        )
