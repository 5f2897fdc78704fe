"""The buffers of the `tile` dialect, and the bytes that they take."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import (
    I64,
    FixedBitwidthType,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile.types import BufferType
from hpmoe_ir.integers import round_up
from hpmoe_ir.kernels.route_layout import WORDS_PER_LINE, RouteLayout

LINE_BYTES = 4 * WORDS_PER_LINE
"""Bytes of a line of the scalar data cache: buffers share none, or a flush would undo writes."""

SPACES = ("input", "inout", "output", "workspace", "window")
OF_THE_CALLER = ("input", "inout", "output")


@irdl_op_definition
class BufferOp(IRDLOperation):
    """A buffer in global memory.

    `input` and `output` buffers belong to the caller, in the order of the kernel's arguments;
    `workspace` is this rank's own; a `window` is symmetric memory that peers write into. With
    `copies 2` consecutive launches use alternating copies. `plan-memory` adds the byte offset
    inside the workspace or the window memory.

    ```
    tile.buffer @counts window copies 2 at 4096 : !tile.buffer<2x8xi32>
    ```
    """

    name = "tile.buffer"

    sym_name = prop_def(SymbolNameConstraint())
    space = prop_def(StringAttr)
    type = prop_def(Attribute)
    """A buffer type, or a route type for the tables that the routing tasks build."""
    copies = prop_def(IntegerAttr[I64])
    offset = opt_prop_def(IntegerAttr[I64])
    """Bytes from the start of the workspace or window memory, 64-byte aligned."""

    traits = traits_def(SymbolOpInterface())

    def __init__(
        self,
        name: str,
        space: str,
        type: BufferType | RouteType,
        copies: int = 1,
        offset: int | None = None,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "space": StringAttr(space),
                "type": type,
                "copies": IntegerAttr(copies, i64),
                "offset": None if offset is None else IntegerAttr(offset, i64),
            }
        )

    @property
    def content(self) -> BufferType | RouteType:
        """The type of a verified buffer."""
        assert isinstance(self.type, BufferType | RouteType), f"no type of a buffer: {self.type}"
        return self.type

    @classmethod
    def parse(cls, parser: Parser) -> BufferOp:
        name = parser.parse_symbol_name().data
        space = parser.parse_keyword_in(SPACES, " as the buffer's memory space")
        copies = parser.parse_integer() if parser.parse_optional_keyword("copies") else 1
        offset = parser.parse_integer() if parser.parse_optional_keyword("at") else None
        parser.parse_punctuation(":")
        start = parser.pos
        type = parser.parse_type()
        if not isinstance(type, BufferType | RouteType):
            parser.raise_error(
                f"expected !tile.buffer or !moe.route, found {type}", start, parser.pos
            )
        return cls(name, space, type, copies, offset)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string(f" {self.space.data}")
        if self.copies.value.data != 1:
            printer.print_string(f" copies {self.copies.value.data}")
        if self.offset is not None:
            printer.print_string(f" at {self.offset.value.data}")
        printer.print_string(" : ")
        printer.print_attribute(self.type)

    def verify_(self) -> None:
        if self.space.data not in SPACES:
            raise VerifyException(
                f"unknown memory space '{self.space.data}', expected one of {', '.join(SPACES)}"
            )
        copies = self.copies.value.data
        if copies not in (1, 2):
            raise VerifyException(f"a buffer has 1 or 2 copies, found {copies}")
        if self.space.data in OF_THE_CALLER and (copies != 1 or self.offset is not None):
            raise VerifyException(
                f"an {self.space.data} buffer belongs to the caller: it has one copy and no offset"
            )
        if not isinstance(self.type, BufferType | RouteType):
            raise VerifyException(f"expected !tile.buffer or !moe.route, found {self.type}")
        offset = 0 if self.offset is None else self.offset.value.data
        if offset < 0 or offset % LINE_BYTES:
            raise VerifyException(
                f"the offset of a buffer must be a multiple of {LINE_BYTES}, found {offset}"
            )


def element_bytes(type: Attribute) -> int:
    """Bytes of one element."""
    if isinstance(type, FixedBitwidthType):
        return type.size
    raise AssertionError(f"no elements of {type} in memory")


def copy_bytes(buffer: BufferOp) -> int:
    """Bytes from one copy of a buffer to the next, a multiple of 64."""
    if isinstance(buffer.type, RouteType):
        route = buffer.type
        return 4 * RouteLayout(route.experts.data, route.ranks.data).words
    type = buffer_type(buffer)
    used = prod(type.dims) * element_bytes(type.element_type)
    return round_up(used, LINE_BYTES)


def buffer_bytes(buffer: BufferOp) -> int:
    """Bytes of all copies of a buffer."""
    return copy_bytes(buffer) * buffer.copies.value.data


def buffer_route_type(buffer: BufferOp) -> RouteType:
    """The route type of a route buffer."""
    assert isinstance(buffer.type, RouteType), f"@{buffer.sym_name.data} is not a route"
    return buffer.type


def buffer_type(buffer: BufferOp) -> BufferType:
    """The buffer type of a buffer of elements."""
    assert isinstance(buffer.type, BufferType), f"@{buffer.sym_name.data} has no elements"
    return buffer.type
