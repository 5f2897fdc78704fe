"""Families of tasks of the `tile` dialect."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i64,
)
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.dialects.access import Access, format_access, parse_access
from hpmoe_ir.dialects.core_kind import parse_core_kind
from hpmoe_ir.dialects.index import IntArray, dims_used, format_index, parse_index
from hpmoe_ir.dialects.tile.types import AccessAttr, IndexAttr
from hpmoe_ir.kernels.kernel import Kernel, KernelError
from hpmoe_ir.kernels.registry import find_kernel
from hpmoe_ir.machines.core_kind import CoreKind

MOST_TASKS = 1 << 24
"""Most tasks of a family: a queue slot has 24 bits for the number of a task in its family."""


@irdl_op_definition
class TasksOp(IRDLOperation):
    """A family of tile tasks: one task for each point of a grid.

    The task at a grid point runs `kernel` on the tiles of its accesses, reads first, and the
    scalars. A task with a write access without rows does not run its kernel. `using` names the
    route in which the row ranges of the accesses are looked up.

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
    """Buffer of the route in which the row ranges of accesses are looked up."""
    reads = prop_def(ArrayAttr[AccessAttr])
    writes = prop_def(ArrayAttr[AccessAttr])
    scalars = prop_def(ArrayAttr[IndexAttr])
    """Unsigned integer arguments of the kernel, after the tiles."""

    traits = traits_def(SymbolOpInterface())

    def __init__(
        self,
        name: str,
        grid: Sequence[tuple[str, int]],
        core: CoreKind,
        kernel: str,
        reads: Sequence[Access],
        writes: Sequence[Access],
        options: dict[str, int] | None = None,
        route: str | None = None,
        scalars: Sequence[AffineExpr] = (),
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "dims": ArrayAttr(StringAttr(n) for n, _ in grid),
                "grid": DenseArrayBase.from_list(i64, [n for _, n in grid]),
                "core": StringAttr(core.value),
                "kernel": StringAttr(kernel),
                "options": DictionaryAttr(
                    {k: IntegerAttr(v, i64) for k, v in (options or {}).items()}
                ),
                "route": None if route is None else SymbolRefAttr(route),
                "reads": ArrayAttr(AccessAttr(r) for r in reads),
                "writes": ArrayAttr(AccessAttr(r) for r in writes),
                "scalars": ArrayAttr(IndexAttr(s) for s in scalars),
            }
        )

    @property
    def core_kind(self) -> CoreKind:
        """Kind of core that runs the tasks."""
        return CoreKind(self.core.data)

    @property
    def dim_names(self) -> tuple[str, ...]:
        """Names of the grid's coordinates."""
        return tuple(n.data for n in self.dims)

    @property
    def extents(self) -> tuple[int, ...]:
        """Extent of each coordinate."""
        return self.grid.get_values()

    @property
    def task_count(self) -> int:
        """Number of tasks of the family on one rank."""
        return prod(self.extents)

    @property
    def read_accesses(self) -> tuple[Access, ...]:
        """The accesses that a task reads, over the family's coordinates."""
        return tuple(r.data for r in self.reads)

    @property
    def write_accesses(self) -> tuple[Access, ...]:
        """The accesses that a task writes, over the family's coordinates."""
        return tuple(r.data for r in self.writes)

    @property
    def int_options(self) -> dict[str, int]:
        """The kernel's options as Python integers."""
        return {k: v.value.data for k, v in self.options.data.items() if isinstance(v, IntegerAttr)}

    @property
    def target_peer(self) -> AffineExpr | None:
        """The rank whose memory the tasks write; None is their own."""
        return next((r.peer for r in self.write_accesses if r.peer is not None), None)

    def find_kernel(self) -> Kernel:
        """Returns the registered kernel; raises KernelError for an unknown name."""
        return find_kernel(self.kernel.data)

    def coordinates(self) -> list[IntArray]:
        """Returns the values of each coordinate at all grid points, in row-major order."""
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
        core = parse_core_kind(parser)
        parser.parse_keyword("kernel")
        kernel = parser.parse_str_literal()
        options = parser.parse_optional_dictionary_attr_dict()
        route = parser.parse_symbol_name().data if parser.parse_optional_keyword("using") else None

        def accesses(keyword: str) -> list[Access]:
            if not parser.parse_optional_keyword(keyword):
                return []
            return parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: parse_access(parser, dims)
            )

        reads = accesses("reads")
        writes = accesses("writes")
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
            printer.print_string("\n")
            printer.print_string(f'kernel "{self.kernel.data}"')
            if self.options.data:
                printer.print_string(" ")
                printer.print_attr_dict(self.options.data)
            if self.route is not None:
                printer.print_string(" using ")
                printer.print_attribute(self.route)
            for keyword, accesses in (
                ("reads", self.read_accesses),
                ("writes", self.write_accesses),
            ):
                if accesses:
                    printer.print_string("\n")
                    text = ", ".join(format_access(a, names) for a in accesses)
                    printer.print_string(f"{keyword} {text}")
            if self.scalars.data:
                printer.print_string("\n")
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
        tasks = prod(self.extents)
        if tasks > MOST_TASKS:
            raise VerifyException(f"a family has at most {MOST_TASKS} tasks, found {tasks}")
        used = {
            d
            for access in (*self.read_accesses, *self.write_accesses)
            for e in access.exprs
            for d in dims_used(e)
        }
        used |= {d for s in self.scalars for d in dims_used(s.data)}
        if used and max(used) >= len(self.dims):
            raise VerifyException(
                f"an access uses coordinate d{max(used)} of a grid of {len(self.dims)} coordinates"
            )
        for option, value in self.options.data.items():
            if not isinstance(value, IntegerAttr):
                raise VerifyException(f"option {option}: expected an integer, found {value}")
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
        if option_problem := kernel.option_problem(self.int_options):
            raise VerifyException(f"kernel '{kernel.name}': {option_problem}")
        peers = {r.peer for r in self.write_accesses}
        if len(peers) > 1:
            raise VerifyException("all writes of a family must be to the same rank's memory")
        if any(r.peer is not None for r in self.read_accesses):
            raise VerifyException(
                "a task cannot read another rank's memory: communication is by puts"
            )
