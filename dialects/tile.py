"""The `tile` dialect: a layer as families of tile tasks over buffers.

A `tile.program` is one rank's view of an SPMD program. Its buffers live in global memory; its
families of tasks say, for each point of a grid, which kernel runs on which kind of core and which
regions it reads and writes. Nothing says when a task runs: orders follow from regions
(`insert-dependencies`), and a program without dependences may be run family by family.

```
tile.program @layer ranks 2 {
  tile.buffer @recv window : !tile.buffer<grouped 256 rows, 64xbf16>
  tile.buffer @w13 input : !tile.buffer<2x64x64xbf16>
  tile.buffer @h workspace : !tile.buffer<grouped 256 rows, 64xbf16>
  tile.buffer @route workspace : !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
  tile.tasks @gmm1 (e, g, n) in (2, 1, 1) on aic kernel "grouped_matmul" using @route
    reads @recv[grouped(e, g of 1), :], @w13[e, :, block(n by 64)]
    writes @h[grouped(e, g of 1), block(n by 64)]
}
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FixedBitwidthType,
    FlatSymbolRefAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Operation
from xdsl.ir import Region as IRRegion
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.index import IntArray, dims_used, format_index, parse_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.region import Region, format_region, parse_region, region_exprs
from hpmoe_ir.dialects.tile_types import (
    BufferType,
    IndexAttr,
    RegionAttr,
    dense_i32,
    int_array,
)
from hpmoe_ir.dialects.tile_verify import verify_program
from hpmoe_ir.kernels import Kernel, KernelError, find_kernel
from hpmoe_ir.route_layout import RouteLayout

SPACES = ("input", "output", "workspace", "window")


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """One rank's program: buffers, families of tasks and, once inserted, their dependences.

    ```
    tile.program @layer ranks 2 {
      ...
    }
    ```
    """

    name = "tile.program"

    sym_name = prop_def(SymbolNameConstraint())
    ranks = prop_def(IntegerAttr[I64])
    """Number of ranks that run the program."""
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), SymbolOpInterface(), SymbolTable())

    def __init__(self, name: str, ranks: int, ops: Sequence[Operation] = ()) -> None:
        super().__init__(
            properties={"sym_name": StringAttr(name), "ranks": IntegerAttr(ranks, i64)},
            regions=[IRRegion(Block(ops))],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ProgramOp:
        name = parser.parse_symbol_name().data
        parser.parse_keyword("ranks")
        ranks = parser.parse_integer(allow_boolean=False, allow_negative=False)
        op = cls(name, ranks)
        op.body.detach_block(0)
        op.body.add_block(_single_block(parser.parse_region()))
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string(f" ranks {self.ranks.value.data} ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        verify_program(buffers_of(self), families_of(self), self.ranks.value.data)


def _single_block(region: IRRegion) -> Block:
    return region.detach_block(0) if region.blocks else Block()


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
        if self.space.data in ("input", "output") and (copies != 1 or self.offset is not None):
            raise VerifyException(
                f"an {self.space.data} buffer belongs to the caller: it has one copy and no offset"
            )
        if not isinstance(self.type, BufferType | RouteType):
            raise VerifyException(f"expected !tile.buffer or !moe.route, found {self.type}")
        if self.offset is not None and (self.offset.value.data < 0 or self.offset.value.data % 64):
            raise VerifyException(
                f"the offset of a buffer must be a multiple of 64, found {self.offset.value.data}"
            )


@irdl_op_definition
class TasksOp(IRDLOperation):
    """A family of tile tasks: one task for each point of a grid.

    The task at a point runs `kernel` with the tiles that the read and write regions name, reads
    first, then the scalars. A task whose write regions have no rows does not run its kernel.
    `using` names the route whose row ranges the regions need.

    ```
    tile.tasks @gmm1 (e, g, n) in (2, 1, 1) on aic
      kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64}
      using @route
      reads @recv[grouped(e, g of 1), :], @w13[e, :, block(n by 64)]
      writes @h[grouped(e, g of 1), block(n by 64)]
    ```
    """

    name = "tile.tasks"

    sym_name = prop_def(SymbolNameConstraint())
    dims = prop_def(ArrayAttr[StringAttr])
    """Names of the grid's coordinates."""
    grid = prop_def(DenseArrayBase.constr(i64))
    """Extent of each coordinate."""
    core = prop_def(StringAttr)
    """Kind of core that runs the tasks: aic or aiv."""
    kernel = prop_def(StringAttr)
    """Name of a registered kernel."""
    options = prop_def(DictionaryAttr)
    """Integer options of the kernel, template arguments of its function."""
    route = opt_prop_def(FlatSymbolRefAttrConstr)
    """Buffer of the route that the regions' row ranges are read from."""
    reads = prop_def(ArrayAttr[RegionAttr])
    writes = prop_def(ArrayAttr[RegionAttr])
    scalars = prop_def(ArrayAttr[IndexAttr])
    """Further unsigned arguments of the kernel."""

    traits = traits_def(SymbolOpInterface())

    CORES: ClassVar = ("aic", "aiv")

    def __init__(
        self,
        name: str,
        grid: Sequence[tuple[str, int]],
        core: str,
        kernel: str,
        reads: Sequence[Region],
        writes: Sequence[Region],
        options: dict[str, int] | None = None,
        route: str | None = None,
        scalars: Sequence[AffineExpr] = (),
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "dims": ArrayAttr(StringAttr(n) for n, _ in grid),
                "grid": DenseArrayBase.from_list(i64, [n for _, n in grid]),
                "core": StringAttr(core),
                "kernel": StringAttr(kernel),
                "options": DictionaryAttr(
                    {k: IntegerAttr(v, i64) for k, v in (options or {}).items()}
                ),
                "route": None if route is None else SymbolRefAttr(route),
                "reads": ArrayAttr(RegionAttr(r) for r in reads),
                "writes": ArrayAttr(RegionAttr(r) for r in writes),
                "scalars": ArrayAttr(IndexAttr(s) for s in scalars),
            }
        )

    @property
    def dim_names(self) -> tuple[str, ...]:
        """Names of the grid's coordinates."""
        return tuple(n.data for n in self.dims)

    @property
    def extents(self) -> tuple[int, ...]:
        """Extent of each coordinate."""
        return cast(tuple[int, ...], self.grid.get_values())

    @property
    def task_count(self) -> int:
        """Number of tasks of the family on one rank."""
        return int(np.prod(self.extents, dtype=np.int64))

    @property
    def read_regions(self) -> tuple[Region, ...]:
        """The regions that a task reads."""
        return tuple(r.data for r in self.reads)

    @property
    def write_regions(self) -> tuple[Region, ...]:
        """The regions that a task writes."""
        return tuple(r.data for r in self.writes)

    @property
    def int_options(self) -> dict[str, int]:
        """The kernel's options as numbers."""
        return {k: v.value.data for k, v in self.options.data.items() if isinstance(v, IntegerAttr)}

    @property
    def target_peer(self) -> AffineExpr | None:
        """The rank whose memory the tasks write, None where it is their own."""
        return next((r.peer for r in self.write_regions if r.peer is not None), None)

    def find_kernel(self) -> Kernel:
        """The registered kernel; raises KernelError for an unknown name."""
        return find_kernel(self.kernel.data)

    def coordinates(self) -> list[IntArray]:
        """One array for each coordinate, over all points in row-major order."""
        extents = self.extents
        if not extents:
            return []
        return [c.ravel() for c in np.indices(extents, dtype=np.int64)]

    @classmethod
    def parse(cls, parser: Parser) -> TasksOp:
        name = parser.parse_symbol_name().data
        dims = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_identifier)
        parser.parse_keyword("in")
        grid = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_integer)
        if len(dims) != len(grid):
            parser.raise_error(
                f"expected as many extents as coordinates, found {len(grid)} and {len(dims)}"
            )
        parser.parse_keyword("on")
        core = parser.parse_keyword_in(cls.CORES, " as the kind of core")
        parser.parse_keyword("kernel")
        kernel = parser.parse_str_literal()
        options = parser.parse_optional_dictionary_attr_dict()
        route = parser.parse_symbol_name().data if parser.parse_optional_keyword("using") else None

        def regions(keyword: str) -> list[Region]:
            if not parser.parse_optional_keyword(keyword):
                return []
            return parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: parse_region(parser, dims)
            )

        reads = regions("reads")
        writes = regions("writes")
        scalars: list[AffineExpr] = []
        if parser.parse_optional_keyword("scalars"):
            scalars = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_index(parser, dims)
            )
        grid_dims = list(zip(dims, grid, strict=True))
        op = cls(name, grid_dims, core, kernel, reads, writes, None, route, scalars)
        op.options = DictionaryAttr(options)
        return op

    def print(self, printer: Printer) -> None:
        names = self.dim_names
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        extents = ", ".join(str(n) for n in self.extents)
        printer.print_string(f" ({', '.join(names)}) in ({extents}) on {self.core.data}")
        with printer.indented():
            _new_line(printer)
            printer.print_string(f'kernel "{self.kernel.data}"')
            if self.options.data:
                printer.print_string(" ")
                printer.print_attr_dict(self.options.data)
            if self.route is not None:
                printer.print_string(" using ")
                printer.print_attribute(self.route)
            for keyword, regions in (("reads", self.read_regions), ("writes", self.write_regions)):
                if regions:
                    _new_line(printer)
                    text = ", ".join(format_region(r, names) for r in regions)
                    printer.print_string(f"{keyword} {text}")
            if self.scalars.data:
                _new_line(printer)
                text = ", ".join(format_index(s.data, names) for s in self.scalars)
                printer.print_string(f"scalars ({text})")

    def verify_(self) -> None:
        if len(self.dims) != len(self.extents):
            raise VerifyException(
                f"expected as many extents as coordinates, found {len(self.extents)} and "
                f"{len(self.dims)}"
            )
        if len(set(self.dim_names)) != len(self.dim_names):
            raise VerifyException("the grid names a coordinate twice")
        if any(n <= 0 for n in self.extents):
            raise VerifyException(
                f"extents of the grid must be positive, found {list(self.extents)}"
            )
        used = {
            d
            for region in (*self.read_regions, *self.write_regions)
            for e in region_exprs(region)
            for d in dims_used(e)
        }
        used |= {d for s in self.scalars for d in dims_used(s.data)}
        if used and max(used) >= len(self.dims):
            raise VerifyException(
                f"a region uses coordinate d{max(used)} of a grid of {len(self.dims)} coordinates"
            )
        try:
            kernel = self.find_kernel()
        except KernelError as e:
            raise VerifyException(str(e)) from e
        kernel_problem = kernel.mismatch(
            core=self.core.data,
            reads=len(self.reads),
            writes=len(self.writes),
            scalars=len(self.scalars),
            options=set(self.options.data),
        )
        if kernel_problem:
            raise VerifyException(kernel_problem)
        peers = {r.peer for r in self.write_regions}
        if len(peers) > 1:
            raise VerifyException("all write regions of a family must be in the same rank's memory")
        if any(r.peer is not None for r in self.read_regions):
            raise VerifyException(
                "a task cannot read another rank's memory: communication is by puts"
            )


def _new_line(printer: Printer) -> None:
    printer.print_string("\n")


@irdl_op_definition
class DependenceOp(IRDLOperation):
    """Tasks of one family wait for tasks of another.

    Each task of `producer` counts towards one event of the family of events, each task of
    `consumer` waits for one; an event is reached when `counts` tasks have counted towards it.
    `on p` says that the event is in the memory of rank p, the expression being the producer's.

    ```
    tile.dependence @dispatch (p, e, c) -> @gmm1 (e, g, n) on @recv
      events (2, 2) from (e, rank floordiv 2) on (rank + p) mod 4 to (e, g) count 2
    ```
    """

    name = "tile.dependence"

    producer = prop_def(FlatSymbolRefAttrConstr)
    consumer = prop_def(FlatSymbolRefAttrConstr)
    producer_dims = prop_def(ArrayAttr[StringAttr])
    consumer_dims = prop_def(ArrayAttr[StringAttr])
    buffers = prop_def(ArrayAttr[FlatSymbolRefAttr])
    """The buffers on which the two families conflict."""
    events = prop_def(DenseArrayBase.constr(i64))
    """Extents of the family of events; empty for a single event."""
    source = prop_def(ArrayAttr[IndexAttr])
    """Event that a producer counts towards, over the producer's coordinates."""
    target = prop_def(ArrayAttr[IndexAttr])
    """Event that a consumer waits for, over the consumer's coordinates."""
    peer = opt_prop_def(IndexAttr)
    """Rank whose event the producer counts towards, over its coordinates; absent: its own."""
    counts = prop_def(DenseArrayBase.constr(i32))
    """Threshold of each event, row-major; one number where all are equal."""

    def __init__(
        self,
        producer: TasksOp,
        consumer: TasksOp,
        buffers: Sequence[str],
        events: Sequence[int],
        source: Sequence[AffineExpr],
        target: Sequence[AffineExpr],
        counts: IntArray,
        peer: AffineExpr | None = None,
    ) -> None:
        if counts.size and (counts == counts.flat[0]).all():
            counts = counts.ravel()[:1]
        super().__init__(
            properties={
                "producer": SymbolRefAttr(producer.sym_name),
                "consumer": SymbolRefAttr(consumer.sym_name),
                "producer_dims": producer.dims,
                "consumer_dims": consumer.dims,
                "buffers": ArrayAttr(SymbolRefAttr(b) for b in buffers),
                "events": DenseArrayBase.from_list(i64, list(events)),
                "source": ArrayAttr(IndexAttr(e) for e in source),
                "target": ArrayAttr(IndexAttr(e) for e in target),
                "peer": None if peer is None else IndexAttr(peer),
                "counts": dense_i32(counts),
            }
        )

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the family of events."""
        return cast(tuple[int, ...], self.events.get_values())

    @property
    def event_count(self) -> int:
        """Number of events."""
        return int(np.prod(self.extents, dtype=np.int64))

    @property
    def thresholds(self) -> IntArray:
        """Threshold of each event."""
        counts = int_array(self.counts)
        return np.broadcast_to(counts, (self.event_count,)) if counts.size == 1 else counts

    @property
    def source_exprs(self) -> tuple[AffineExpr, ...]:
        """Event that a producer counts towards."""
        return tuple(e.data for e in self.source)

    @property
    def target_exprs(self) -> tuple[AffineExpr, ...]:
        """Event that a consumer waits for."""
        return tuple(e.data for e in self.target)

    @property
    def peer_expr(self) -> AffineExpr | None:
        """Rank whose event the producer counts towards."""
        return None if self.peer is None else self.peer.data

    @classmethod
    def parse(cls, parser: Parser) -> DependenceOp:
        def family() -> tuple[SymbolRefAttr, list[str]]:
            symbol = SymbolRefAttr(parser.parse_symbol_name())
            dims = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_identifier
            )
            return symbol, dims

        def indices(names: Sequence[str]) -> ArrayAttr[IndexAttr]:
            exprs = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: IndexAttr(parse_index(parser, names))
            )
            return ArrayAttr(exprs)

        producer, producer_dims = family()
        parser.parse_punctuation("->")
        consumer, consumer_dims = family()
        parser.parse_keyword("on")
        buffers = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: SymbolRefAttr(parser.parse_symbol_name())
        )
        parser.parse_keyword("events")
        events = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_integer)
        parser.parse_keyword("from")
        source = indices(producer_dims)
        peer = None
        if parser.parse_optional_keyword("on"):
            peer = IndexAttr(parse_index(parser, producer_dims))
        parser.parse_keyword("to")
        target = indices(consumer_dims)
        parser.parse_keyword("count")
        counts = parser.parse_optional_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_integer
        )
        if counts is None:
            counts = [parser.parse_integer()]
        return cls.create(
            properties={
                "producer": producer,
                "consumer": consumer,
                "producer_dims": ArrayAttr(StringAttr(n) for n in producer_dims),
                "consumer_dims": ArrayAttr(StringAttr(n) for n in consumer_dims),
                "buffers": ArrayAttr(buffers),
                "events": DenseArrayBase.from_list(i64, events),
                "source": source,
                "target": target,
                "counts": DenseArrayBase.from_list(i32, counts),
                **({} if peer is None else {"peer": peer}),
            }
        )

    def print(self, printer: Printer) -> None:
        def indices(exprs: Sequence[AffineExpr], dims: ArrayAttr[StringAttr]) -> str:
            names = [n.data for n in dims]
            return "(" + ", ".join(format_index(e, names) for e in exprs) + ")"

        def dims(names: ArrayAttr[StringAttr]) -> str:
            return "(" + ", ".join(n.data for n in names) + ")"

        printer.print_string(f" @{self.producer.root_reference.data} {dims(self.producer_dims)}")
        printer.print_string(f" -> @{self.consumer.root_reference.data} {dims(self.consumer_dims)}")
        buffers = ", ".join(f"@{b.root_reference.data}" for b in self.buffers)
        printer.print_string(f" on {buffers}")
        with printer.indented():
            _new_line(printer)
            events = ", ".join(str(n) for n in self.extents)
            printer.print_string(f"events ({events})")
            printer.print_string(f" from {indices(self.source_exprs, self.producer_dims)}")
            if self.peer is not None:
                names = [n.data for n in self.producer_dims]
                printer.print_string(f" on {format_index(self.peer.data, names)}")
            printer.print_string(f" to {indices(self.target_exprs, self.consumer_dims)}")
            counts = self.counts.get_values()
            text = str(counts[0]) if len(counts) == 1 else str(list(counts))
            printer.print_string(f" count {text}")

    def verify_(self) -> None:
        if not (len(self.source) == len(self.target) == len(self.events)):
            raise VerifyException(
                f"a family of events with {len(self.events)} coordinates needs as many "
                f"expressions on each side, found {len(self.source)} and {len(self.target)}"
            )
        if any(n <= 0 for n in self.extents):
            raise VerifyException(
                f"extents of the events must be positive, found {list(self.extents)}"
            )
        if len(self.counts) not in (1, self.event_count):
            raise VerifyException(
                f"expected 1 or {self.event_count} thresholds, found {len(self.counts)}"
            )
        if any(n <= 0 for n in cast(tuple[int, ...], self.counts.get_values())):
            raise VerifyException("a threshold must be positive")
        for side, names, exprs in (
            ("producer", self.producer_dims, self.source_exprs),
            ("consumer", self.consumer_dims, self.target_exprs),
        ):
            used = {d for e in exprs for d in dims_used(e)}
            if used and max(used) >= len(names):
                raise VerifyException(f"an event index uses a coordinate the {side} does not have")


def buffers_of(program: Operation) -> dict[str, BufferOp]:
    """The buffers of a program by name, in order."""
    block = program.regions[0].block
    return {op.sym_name.data: op for op in block.ops if isinstance(op, BufferOp)}


def families_of(program: Operation) -> dict[str, TasksOp]:
    """The families of tasks of a program by name, in order."""
    block = program.regions[0].block
    return {op.sym_name.data: op for op in block.ops if isinstance(op, TasksOp)}


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
    used = int(np.prod(type.dims, dtype=np.int64)) * element_bytes(type.element_type)
    return -(-used // 64) * 64


def buffer_bytes(buffer: BufferOp) -> int:
    """Bytes of all copies of a buffer."""
    return copy_bytes(buffer) * buffer.copies.value.data


def route_type(buffer: BufferOp) -> RouteType:
    """The route type of a route buffer."""
    assert isinstance(buffer.type, RouteType), f"@{buffer.sym_name.data} is not a route"
    return buffer.type


def buffer_type(buffer: BufferOp) -> BufferType:
    """The buffer type of a buffer of elements."""
    assert isinstance(buffer.type, BufferType), f"@{buffer.sym_name.data} has no elements"
    return buffer.type


Tile = Dialect(
    "tile",
    [ProgramOp, BufferOp, TasksOp, DependenceOp],
    [BufferType, RegionAttr, IndexAttr],
)
