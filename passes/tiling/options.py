"""Options of tiling: how `convert-comm-to-tile` splits the work into tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self, TypeAlias

from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.integers import ceil_div, round_up
from hpmoe_ir.kernels.device import FRACTAL
from hpmoe_ir.kernels.kernel import Variant
from hpmoe_ir.kernels.machine_fit import MachineFitError, layer_misfit
from hpmoe_ir.kernels.matmul_tile import (
    MatmulTile,
    check_matmul_tile,
    largest_matmul_tile,
)
from hpmoe_ir.kernels.registry import find_variant
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.options.machine import MachineOption
from hpmoe_ir.options.options import OptionError, Range

MatmulKernels: TypeAlias = Literal["default", "cann-like"]
"""Kernels of matrix tasks: the fastest, or those that use a core as CANN's grouped matmul does."""

RowCut: TypeAlias = Literal["parts", "tiles"]
"""How the rows that a rank receives are cut into matrix tasks."""

MAX_GROUPS = 8
"""Default limit of the number of source groups: once a part is smaller than a matrix tile, finer
parts cost more in waits than they save."""

MIN_TOKENS = 16
"""Smallest number of tokens of a part, by default."""

NEEDED_WITH = {
    "last_experts": "return_cols",
    "last_gradients": "gradient_cols",
    "row_tiles": "row_cut",
}
"""Options that limit another option to some experts, and the option that each one requires."""

APART = (
    ("row_cut", "source_groups"),
    ("row_cut", "row_chunks"),
    ("row_cut", "vector_rows"),
    ("row_cut", "vector_chunks"),
    ("row_cut", "matrix_shares"),
    ("row_cut", "last_experts"),
    ("put_rows", "put_chunks"),
    ("row_cut", "reorder_rows"),
    ("vector_rows", "vector_chunks"),
    ("matrix_shares", "task_cols"),
    ("matrix_shares", "gradient_cols"),
    ("matrix_shares", "last_experts"),
)
"""Pairs of mutually exclusive options."""


@dataclass(frozen=True)
class TilingOptions(MachineOption):
    """Options of the sizes and numbers of tasks. 0 selects a default, unless stated otherwise.

    Raises OptionError for mutually exclusive options.
    """

    source_groups: Annotated[int, Range(0, unit="groups")] = 0
    """Groups of source ranks, at most the number of ranks; 0: up to 8."""
    row_chunks: Annotated[int, Range(1, unit="chunks")] = 1
    """Chunks of the rows of an expert and group, cut at multiples of tile-m."""
    row_cut: RowCut = "parts"
    """How an expert's rows are cut: `parts`, those of each source group by themselves; `tiles`,
    those from all ranks at multiples of tile-m, into tiles that the route numbers."""
    row_tiles: Annotated[int, Range(0, unit="tiles")] = 0
    """Most tiles of a rank; 0: half as many again as balanced routing needs. Where a launch has
    more, tiles have a multiple of tile-m rows."""
    put_chunks: Annotated[int, Range(1, unit="chunks")] = 1
    """Chunks of the rows from one rank to one expert."""
    put_rows: Annotated[int, Range(0, unit="rows")] = 0
    """Maximum rows of a put, instead of put-chunks."""
    reorder_rows: bool = False
    """Whether rows are copied into the order in which an all-to-all sends them, by expert after it,
    and back, as operators around a collective do; else puts gather them and write them in place."""
    return_cols: Annotated[int, Range(0, unit="columns", multiple=FRACTAL)] = 0
    """Columns of a put on the return path and of a sum over a token's copies; 0: all."""
    last_experts: Annotated[int, Range(0, unit="experts")] = 0
    """Number of last local experts that return-cols applies to, including their second matmul; 0:
    all experts, without their matmuls."""
    vector_rows: Annotated[int, Range(0, unit="rows")] = 0
    """Maximum rows of a vector task on an expert's rows, instead of row-chunks."""
    vector_chunks: Annotated[int, Range(0, unit="chunks")] = 0
    """Equal parts of the rows of an expert and group for vector tasks, instead of row-chunks."""
    matrix_shares: Annotated[int, Range(0, unit="tasks")] = 0
    """Matrix tasks that share the matmul of an expert and group tile by tile, instead of
    task-cols."""
    token_chunks: Annotated[int, Range(0, unit="chunks")] = 0
    """Parts of a rank's tokens; 0: one for each vector core, of at least 16 tokens."""
    task_cols: Annotated[int, Range(0, unit="columns", multiple=FRACTAL)] = 0
    """Columns of a matrix task; 0: as many as give four tasks for each AIC."""
    gradient_cols: Annotated[int, Range(0, unit="columns", multiple=FRACTAL)] = 0
    """Columns of a task of a weight gradient; 0: task-cols. Narrow tasks of one expert read the
    same rows at the same time, so that repeated reads hit L2."""
    last_gradients: Annotated[int, Range(0, unit="experts")] = 0
    """Number of last local experts that gradient-cols applies to; 0: all. The last tasks are then
    short, so that cores end together, while the others keep their fastest size."""
    tile_m: Annotated[int, Range(0, unit="rows", multiple=FRACTAL)] = 0
    """Rows of a matrix tile; 0: those of the largest tile that fits L0 with double buffers."""
    tile_n: Annotated[int, Range(0, unit="columns", multiple=FRACTAL)] = 0
    """Columns of a matrix tile; 0: as for tile-m."""
    tile_k: Annotated[int, Range(0, unit="elements", multiple=FRACTAL)] = 0
    """Depth of a matrix tile; 0: as for tile-m."""
    matmul_kernels: MatmulKernels = "default"
    """Kernels of matrix tasks: the fastest, or CANN-like ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for part, whole in NEEDED_WITH.items():
            if getattr(self, part) and getattr(self, whole) == getattr(TilingOptions, whole):
                raise OptionError(f"option '{_text(part)}': expected {_text(whole)} with it")
        for one, other in APART:
            if all(getattr(self, name) != getattr(TilingOptions, name) for name in (one, other)):
                raise OptionError(
                    f"options '{_text(one)}' and '{_text(other)}': expected one of them"
                )

    @property
    def matmul(self) -> MatmulTile:
        """The matrix tile."""
        return MatmulTile(self.tile_m, self.tile_n, self.tile_k)

    def matrix_kernel(self, name: str) -> str:
        """Returns the kernel of matrix tasks for `grouped_matmul` or `weight_gradient`."""
        variant = Variant(self.matrix_shares > 0, self.matmul_kernels == "cann-like")
        return find_variant(name, variant).name

    def for_route(self, route: RouteType, machine: Machine) -> Self:
        """Returns the options for a layer, with the defaults resolved that depend on its sizes.

        Raises OptionError for more parts than the layer has groups, experts or tokens,
        MachineFitError for a layer or a tile that does not fit the machine.
        """
        ranks, tokens, local = route.ranks.data, route.tokens.data, route.local_experts
        if problem := layer_misfit(machine, ranks, route.experts.data, route.top.data):
            raise MachineFitError(problem)
        for name, most, unit in (
            ("source_groups", ranks, "groups"),
            ("last_experts", local, "experts"),
            ("last_gradients", local, "experts"),
            ("token_chunks", tokens, "chunks"),
        ):
            Range(0, most, unit).check(_text(name), getattr(self, name))
        largest = largest_matmul_tile(machine)
        tiles = self._tiles(route, self.tile_m or largest.m)
        options = replace(
            self,
            source_groups=0 if tiles else self.source_groups or min(ranks, MAX_GROUPS),
            row_tiles=tiles,
            token_chunks=self.token_chunks or min(machine.aiv_cores, ceil_div(tokens, MIN_TOKENS)),
            tile_m=self.tile_m or largest.m,
            tile_n=self.tile_n or largest.n,
            tile_k=self.tile_k or largest.k,
        )
        check_matmul_tile(options.matmul, machine)
        return options

    def _tiles(self, route: RouteType, rows: int) -> int:
        """Returns the most tiles of `rows` rows of a rank, 0 if rows are cut into parts.

        Raises OptionError for fewer tiles than experts.
        """
        if self.row_cut == "parts":
            return 0
        local = route.local_experts
        if 0 < self.row_tiles < local:
            raise OptionError(
                f"option 'row-tiles': expected a tile for each of {local} local experts, found "
                f"{self.row_tiles}"
            )
        balanced = ceil_div(route.tokens.data * route.top.data, local * rows) * local
        return self.row_tiles or min(
            local + ceil_div(3 * balanced, 2), local + ceil_div(route.rows.data, rows)
        )

    @classmethod
    def tiling_space(
        cls, config: LayerConfig, machine: Machine, backward: bool
    ) -> Mapping[str, Sequence[object]]:
        """Returns the values that a search tries for each option it changes."""
        ranks, local, width = config.ranks, config.local_experts, config.hidden
        columns = sorted({round_up(ceil_div(width, parts), FRACTAL) for parts in range(2, 13)})
        tokens = (machine.aiv_cores - 1, machine.aiv_cores, 2 * machine.aiv_cores)
        gradients: dict[str, Sequence[object]] = {
            "gradient_cols": (0, 512, 1024, 2048),
            "last_gradients": range(min(local, 2) + 1),
        }
        return {
            "source_groups": [g for g in range(1, ranks + 1) if ranks % g == 0],
            "return_cols": [0, *columns],
            "last_experts": range(min(local, max(2, local // 3)) + 1),
            "task_cols": [0, *(n for n in range(256, width + 1, 256) if width % n == 0)],
            "put_chunks": (1, 2, 4),
            "token_chunks": [n for n in tokens if n <= config.tokens] or [0],
            **(gradients if backward else {}),
        }


def _text(field: str) -> str:
    return field.replace("_", "-")
