"""The buffers of the `tile` dialect, and their sizes in bytes."""

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
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile.types import MOST_BUFFER_BYTES, BufferType
from hpmoe_ir.integers import round_up
from hpmoe_ir.kernels.route_layout import WORDS_PER_LINE, RouteLayout

LINE_BYTES = 4 * WORDS_PER_LINE
"""Bytes of a scalar data cache line. Buffers share none: a flush would overwrite a neighbour."""


class MemorySpace(StrEnum):
    """Memory space of a buffer, in the order in which programs list their buffers."""

    INPUT = "input"
    """The caller's memory, which the program reads."""
    INOUT = "inout"
    """The caller's memory, which the program reads and writes."""
    OUTPUT = "output"
    """The caller's memory, which the program writes."""
    WORKSPACE = "workspace"
    """Memory of the rank, local to a launch."""
    WINDOW = "window"
    """Symmetric memory that peers write into; it persists from launch to launch."""

    @property
    def is_of_caller(self) -> bool:
        """Whether the caller of a launch provides the memory."""
        return self in (MemorySpace.INPUT, MemorySpace.INOUT, MemorySpace.OUTPUT)


@irdl_attr_definition
class MemorySpaceAttr(EnumAttribute[MemorySpace]):
    """The memory space of a buffer.

    ```
    #tile.memory_space<workspace>
    ```
    """

    name = "tile.memory_space"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> MemorySpace:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(MemorySpace)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            super().print_parameter(printer)


@irdl_op_definition
class BufferOp(IRDLOperation):
    """A buffer in global memory.

    `input`, `inout` and `output` buffers belong to the caller and are bound by their positions in
    the program's signature; `workspace` is local to the launch; a `window` is symmetric memory
    that peers write into. The name is only a symbol for the tasks of the program. With `copies 2`
    launches alternate between two copies. `plan-memory` adds the byte offset inside the workspace
    or the window memory.

    ```
    tile.buffer @counts window copies 2 at 4096 : !tile.buffer<2x8xi32>
    ```
    """

    name = "tile.buffer"

    sym_name = prop_def(SymbolNameConstraint())
    space = prop_def(MemorySpaceAttr)
    type = prop_def(Attribute)
    """A buffer type, or a route type for the tables that the routing tasks build."""
    copies = prop_def(IntegerAttr[I64])
    offset = opt_prop_def(IntegerAttr[I64])
    """Bytes from the start of the workspace or window memory, 64-byte aligned."""

    traits = traits_def(SymbolOpInterface())

    def __init__(
        self,
        name: str,
        space: MemorySpace,
        type: BufferType | RouteType,
        copies: int = 1,
        offset: int | None = None,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "space": MemorySpaceAttr(space),
                "type": type,
                "copies": IntegerAttr(copies, i64),
                "offset": None if offset is None else IntegerAttr(offset, i64),
            }
        )

    @property
    def content(self) -> BufferType | RouteType:
        """The buffer or route type of the buffer, which must have been verified."""
        assert isinstance(self.type, BufferType | RouteType), f"no type of a buffer: {self.type}"
        return self.type

    @classmethod
    def parse(cls, parser: Parser) -> BufferOp:
        name = parser.parse_symbol_name().data
        space = MemorySpace(
            parser.parse_keyword_in(tuple(MemorySpace), " as the buffer's memory space")
        )
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
        copies = self.copies.value.data
        if copies not in (1, 2):
            raise VerifyException(f"a buffer has 1 or 2 copies, found {copies}")
        if self.space.data.is_of_caller and (copies != 1 or self.offset is not None):
            raise VerifyException(
                f"an {self.space.data} buffer belongs to the caller: it has one copy and no offset"
            )
        if not isinstance(self.type, BufferType | RouteType):
            raise VerifyException(f"expected !tile.buffer or !moe.route, found {self.type}")
        if isinstance(self.type, RouteType) and (
            self.space.data is not MemorySpace.WORKSPACE or copies != 1
        ):
            raise VerifyException(
                "a route is in one copy in the workspace, where tasks look up their rows, found "
                f"{copies} in {self.space.data} memory"
            )
        offset = 0 if self.offset is None else self.offset.value.data
        if offset < 0 or offset % LINE_BYTES:
            raise VerifyException(
                f"the offset of a buffer must be a multiple of {LINE_BYTES}, found {offset}"
            )
        if offset > MOST_BUFFER_BYTES:
            raise VerifyException(
                f"the offset of a buffer is at most {MOST_BUFFER_BYTES}, found {offset}"
            )


def element_bytes(type: Attribute) -> int:
    """Returns the bytes of one element of a type."""
    if isinstance(type, FixedBitwidthType):
        return type.size
    raise AssertionError(f"no elements of {type} in memory")


def copy_bytes(buffer: BufferOp) -> int:
    """Returns the bytes from one copy of a buffer to the next, a multiple of 64."""
    if isinstance(buffer.type, RouteType):
        route = buffer.type
        return 4 * RouteLayout(route.experts.data, route.ranks.data).words
    type = buffer_type(buffer)
    used = prod(type.dims) * element_bytes(type.element_type)
    return round_up(used, LINE_BYTES)


def buffer_bytes(buffer: BufferOp) -> int:
    """Returns the bytes of all copies of a buffer."""
    return copy_bytes(buffer) * buffer.copies.value.data


def buffer_route_type(buffer: BufferOp) -> RouteType:
    """Returns the route type of a route buffer."""
    assert isinstance(buffer.type, RouteType), f"@{buffer.sym_name.data} is not a route"
    return buffer.type


def buffer_type(buffer: BufferOp) -> BufferType:
    """Returns the buffer type of a buffer of elements."""
    assert isinstance(buffer.type, BufferType), f"@{buffer.sym_name.data} has no elements"
    return buffer.type
