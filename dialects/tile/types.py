"""Types and attributes of the `tile` dialect: buffers, accesses, index expressions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import (
    I32,
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    FixedBitwidthType,
    IntAttr,
    StringAttr,
    i32,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.access import Access, RowKind, format_access, parse_access
from hpmoe_ir.dialects.access.event_range import EventRange, parse_range
from hpmoe_ir.dialects.index import IntArray, default_names, format_index, parse_index

# Attributes print coordinates as d0, d1, ...; no grid has this many.
NAMES = default_names(32)

MOST_BUFFER_BYTES = 1 << 40
"""Largest buffer: more than the memory of any chip; sums of many such sizes fit 64 bits."""

MOST_EVENTS = 1 << 24
"""Most events of a family. Each has a counter in its own cache line: together these take 1 GiB."""


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """Shape and element type of a buffer; the first dimension may be token rows.

    `tokens` rows are this rank's tokens, `grouped` rows those received by its experts, `sent` rows
    those that it sends, in send order. The number of rows is a capacity.

    ```
    !tile.buffer<grouped 256 rows, 64xbf16>
    !tile.buffer<2x64x64xbf16>
    ```
    """

    name = "tile.buffer"

    rows: StringAttr
    """Kind of the rows of dimension 0; empty if the dimension is static."""
    shape: ArrayAttr[IntAttr]
    element_type: Attribute

    def __init__(self, shape: Sequence[int], element_type: Attribute, rows: str = "") -> None:
        super().__init__(StringAttr(rows), ArrayAttr(IntAttr(n) for n in shape), element_type)

    @property
    def dims(self) -> tuple[int, ...]:
        """Extents; that of dimension 0 is the capacity if its rows are dynamic."""
        return tuple(n.data for n in self.shape)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            rows = next((k for k in RowKind if parser.parse_optional_keyword(k)), "")
            shape: list[int] = []
            if rows:
                shape.append(parser.parse_integer(allow_boolean=False, allow_negative=False))
                parser.parse_keyword("rows")
                parser.parse_punctuation(",")
            rest, element_type = parser.parse_ranked_shape()
        return (StringAttr(rows), ArrayAttr(IntAttr(n) for n in [*shape, *rest]), element_type)

    def print_parameters(self, printer: Printer) -> None:
        dims = self.dims
        with printer.in_angle_brackets():
            if self.rows.data:
                printer.print_string(f"{self.rows.data} {dims[0]} rows, ")
                dims = dims[1:]
            for n in dims:
                printer.print_string(f"{n}x")
            printer.print_attribute(self.element_type)

    def verify(self) -> None:
        if any(n <= 0 for n in self.dims):
            raise VerifyException(f"extents of a buffer must be positive, found {list(self.dims)}")
        type = self.element_type
        if not isinstance(type, FixedBitwidthType) or type.bitwidth not in (8, 16, 32, 64):
            raise VerifyException(
                f"elements of a buffer have 8, 16, 32 or 64 bits, as i32 or bf16, found {type}"
            )
        size = prod(self.dims) * type.size
        if size > MOST_BUFFER_BYTES:
            raise VerifyException(f"a buffer has at most {MOST_BUFFER_BYTES} bytes, found {size}")


@irdl_attr_definition
class AccessAttr(Data[Access]):
    """The part of a buffer that a task reads or writes, over its coordinates d0, d1, ...

    ```
    #tile.access<@recv[grouped(d0, d1 of 2), :]>
    ```
    """

    name = "tile.access"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Access:
        with parser.in_angle_brackets():
            return parse_access(parser, NAMES)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(format_access(self.data, NAMES))


@irdl_attr_definition
class IndexAttr(Data[AffineExpr]):
    """An index expression over the grid point, coordinates d0, d1, ..., and the rank.

    ```
    #tile.index<(rank + d0) mod 4>
    ```
    """

    name = "tile.index"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> AffineExpr:
        with parser.in_angle_brackets():
            return parse_index(parser, NAMES)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(format_index(self.data, NAMES))


@irdl_attr_definition
class EventRangeAttr(Data[EventRange]):
    """A range of events that a task waits for, over its coordinates d0, d1, ...

    ```
    #tile.event_range<parts(d0 of 40 by 128)>
    ```
    """

    name = "tile.event_range"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> EventRange:
        with parser.in_angle_brackets():
            return parse_range(parser, NAMES)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.text(NAMES))


def dense_i32(values: IntArray) -> DenseArrayBase[I32]:
    """Returns a dense array attribute of NumPy values, without a Python loop."""
    return DenseArrayBase(i32, BytesAttr(np.ascontiguousarray(values, dtype="<i4").tobytes()))


def int_array(dense: DenseArrayBase[I32]) -> IntArray:
    """Returns the values of a dense i32 array attribute."""
    return np.frombuffer(dense.data.data, dtype="<i4").astype(np.int64)
