"""Schedule `auto`: of a few pipelines the one that is fastest on the timing model.

Nothing here decides how tasks are cut or ordered: each candidate is a pipeline whose text
`hpmoe-opt -p` takes, and what is chosen is one of them. Each is compiled and timed as any pipeline
is (docs/timing.md): for a balanced routing, which looks the same from each rank, on one rank that
stands for all, for another on all ranks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.driver.compiler import Compiled, CompiledKernel, PassError, Progress, compile_module
from hpmoe_ir.driver.specs import pipeline_text
from hpmoe_ir.frontends.graph_layer import graph_layer
from hpmoe_ir.integers import ceil_div, round_up
from hpmoe_ir.kernels.device import CUBE_MACS, ELEMENT_BYTES, FRACTAL
from hpmoe_ir.kernels.matmul_tile import largest_matmul_tile
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import IdArray, RoutingError, generate_routing, parse_routing
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.passes.analysis.pass_kinds import expanded, is_check
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.overlap import Overlap
from hpmoe_ir.passes.tiling.options import MIN_TOKENS
from hpmoe_ir.run.execution import ExecutionError, build_program
from hpmoe_ir.runtime.cpu_build import CompileError, CompilerMissing
from hpmoe_ir.runtime.device_fault import DeviceFault
from hpmoe_ir.timing.bounds import Bounds, bounds
from hpmoe_ir.timing.mirrored import simulate_mirrored
from hpmoe_ir.timing.timed_run import RankIntegers, ids_of, simulate

GRADIENT_COLS = 1024
"""Columns of the narrower tasks of the last expert's weight gradients."""

UNTIMED = (DeviceFault, CompileError, ExecutionError)
"""What says that a kernel can't be timed, though others may be."""


Passes: TypeAlias = tuple[ModulePass, ...]
"""A pipeline from the `moe` level to queues."""


@dataclass(frozen=True)
class TimedKernel:
    """One direction of a candidate on the timing model."""

    time_us: float
    bounds: Bounds


@dataclass(frozen=True)
class Candidate:
    """A pipeline and what it takes, or why it can't be used."""

    passes: Passes
    kernels: tuple[TimedKernel, ...] = ()
    """Of each direction, forward first."""
    refused: str = ""

    @property
    def text(self) -> str:
        """The pipeline as `hpmoe-opt -p` takes it."""
        return pipeline_text(self.passes)

    @property
    def time_us(self) -> float:
        """All directions together; infinite where it can't be used."""
        return sum(k.time_us for k in self.kernels) if self.kernels else float("inf")

    @property
    def over_bound(self) -> float:
        """The time over the largest bound, of all directions together."""
        return self.time_us / sum(k.bounds.bound_us for k in self.kernels)


@dataclass(frozen=True)
class Layer:
    """What is scheduled: a graph at the `moe` level, with its backward direction or without."""

    ctx: Context
    graph: ModuleOp
    backward: DeriveBackwardPass | None
    machine: Machine
    routing: str = "balanced"
    """The routing that is timed, as `parse_routing` takes it; others than balanced on all ranks."""

    @property
    def config(self) -> LayerConfig:
        """The sizes of the layer."""
        return graph_layer(self.graph).config

    @cached_property
    def ids(self) -> list[IdArray]:
        """The experts [T, K] of each rank's tokens under the routing that is timed.

        Raises InputError where the layer can't take it.
        """
        config = self.config
        if self.routing == "balanced":
            return same_from_each_rank(config)
        counts = [config.tokens] * config.ranks
        try:
            routing = generate_routing(parse_routing(self.routing), config, counts, 0)
        except RoutingError as e:
            raise InputError(f"--schedule-for: {e}") from e
        return [part.ids for part in routing]


def auto_candidates(layer: Layer) -> list[Passes]:
    """The pipelines that `auto` tries, see `auto_lowerings`."""
    return [(lowering,) for lowering in auto_lowerings(layer)]


def auto_lowerings(layer: Layer) -> list[LowerMoePass]:
    """The lowerings that `auto` tries, the same for the same sizes and machine.

    The default, and `overlap` with the numbers that follow from the sizes: source groups so large
    that a part has the rows of a matrix tile, and twice as large; about a seventh or a quarter of
    the columns to a block on the way back; as many experts cut finely at the end as the sums take
    (`experts_beside_sums`), three quarters of them, or none; with the backward direction,
    the last expert's weight gradients in wide tasks or in narrower ones, which take longer alone
    but let the cores end together. One vector core is left out of the tokens' parts: it builds the
    route meanwhile. The last product is three tasks a core behind the first: with fewer it waits,
    more changes nothing. At last, products and rows of an expert that many cores share, for uneven
    routing.
    """
    config, machine = layer.config, layer.machine
    tile = largest_matmul_tile(machine)
    groups = fitting_groups(config, tile.m)
    seventh, quarter = _columns(config.hidden, 7, tile.n), _columns(config.hidden, 4, tile.n)
    most = experts_beside_sums(config, machine)
    some = ceil_div(3 * most, 4)
    choices = [
        (groups[0], seventh, some),
        (groups[0], seventh, most),
        (groups[0], quarter, some),
        (groups[0], quarter, 0),
        (groups[-1], seventh, some),
    ]
    enough = config.tokens >= MIN_TOKENS * machine.aiv_cores > MIN_TOKENS
    default = LowerMoePass(machine=machine.reference)
    overlap = replace(
        default,
        policy=Overlap(behind=3),
        rotate_sources=True,
        token_chunks=machine.aiv_cores - 1 if enough else 0,
    )
    cuts = [(*choice, 0) for choice in dict.fromkeys(choices)]
    if layer.backward is not None:
        cuts += [(*choice, GRADIENT_COLS) for choice in dict.fromkeys(choices[:2])]
    fine = [
        replace(
            overlap,
            source_groups=groups,
            return_cols=columns,
            last_experts=last,
            gradient_cols=gradient,
            last_gradients=1 if gradient else 0,
        )
        for groups, columns, last, gradient in cuts
    ]
    # However many rows come: all matrix cores share each expert's product, as many vector cores its
    # rows.
    shared = replace(
        overlap,
        source_groups=1,
        return_cols=quarter,
        matrix_shares=machine.aic_cores,
        vector_chunks=machine.aic_cores,
    )
    return [default, *fine, shared]


def fitting_groups(config: LayerConfig, rows: int) -> list[int]:
    """Numbers of source groups whose parts of an expert have so many rows, and twice as many."""
    each = config.tokens * config.top_k / config.experts
    even = [g for g in range(1, config.ranks + 1) if config.ranks % g == 0]
    fit = [g for g in even if each * config.ranks / g >= rows * 0.99] or [1]
    return sorted(fit[-2:], reverse=True)


def experts_beside_sums(config: LayerConfig, machine: Machine) -> int:
    """Local experts whose last products take as long as the sums over all tokens' copies.

    Sums get half of memory's bandwidth, products their peak.
    """
    rates = machine.rates
    copies = config.tokens * (config.top_k + 1) * config.hidden
    sums = copies * ELEMENT_BYTES / (rates.shared_bandwidth_hbm / 2)
    macs = config.tokens * config.top_k * config.hidden * config.width
    products = macs / (machine.aic_cores * CUBE_MACS * rates.clock_frequency)
    return min(config.local_experts, math.ceil(config.local_experts * sums / products))


def _columns(width: int, parts: int, tile: int) -> int:
    """Columns of about `parts` blocks: of equal ones of whole matrix tiles if there are such."""
    for count in range(parts, 2 * parts):
        if width % (count * tile) == 0:
            return width // count
    return round_up(ceil_div(width, parts), FRACTAL)


def choose(
    layer: Layer, pipelines: Sequence[Passes], progress: Progress = lambda _: None
) -> list[Candidate]:
    """The candidates with their times, the fastest first; of equal ones the earlier.

    While one candidate is compiled, others are timed; what is the same in several is timed once.
    Only the fastest is verified by `verify-queues`: what that refuses is not chosen. Raises
    InputError where none can be used, or the layer can't take the routing.
    """
    _ = layer.ids  # A routing that does not fit is refused before anything is compiled.
    found = list(_evaluated(layer, pipelines, progress))
    found.sort(key=lambda candidate: candidate.time_us)
    while found and found[0].kernels:
        try:
            _compiled(layer, found[0].passes)
            return found
        except PassError as e:
            found = [*found[1:], Candidate(found[0].passes, refused=str(e))]
    why = found[0].refused if found else "there is none"
    raise InputError(f"--schedule: auto: no candidate can be used: {why}")


def evaluate(layer: Layer, passes: Passes) -> Candidate:
    """Compiles a pipeline and times each direction, under the routing of the layer.

    Raises InputError where there is no such routing, or the CPU model can't be built here at all.
    """
    try:
        compiled = _compiled(layer, passes)
        kernels = [_timed(layer, kernel) for kernel in compiled.kernels.values()]
    except (PassError, *UNTIMED) as e:
        return Candidate(passes, refused=str(e))
    return Candidate(passes, tuple(kernels))


def _evaluated(
    layer: Layer, pipelines: Sequence[Passes], progress: Progress
) -> Iterator[Candidate]:
    """What `evaluate` says of each, but for `verify-queues`; several at a time."""
    waiting: list[tuple[Passes, list[Future[TimedKernel]] | str]] = []
    known: dict[tuple[str, bytes], Future[TimedKernel]] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for i, passes in enumerate(pipelines, 1):
            progress(f"candidate {i} of {len(pipelines)}")
            try:
                kernels = list(_compiled(layer, passes, verify=False).kernels.values())
            except PassError as e:
                waiting.append((passes, str(e)))
                continue
            for kernel in kernels:
                if (kernel.source, kernel.table) not in known:
                    timed = pool.submit(_timed, layer, kernel)
                    known[kernel.source, kernel.table] = timed
            waiting.append((passes, [known[kernel.source, kernel.table] for kernel in kernels]))
        progress("waiting for timed runs")
        for passes, timed in waiting:
            if isinstance(timed, str):
                yield Candidate(passes, refused=timed)
                continue
            try:
                yield Candidate(passes, tuple(future.result() for future in timed))
            except UNTIMED as e:
                yield Candidate(passes, refused=str(e))


def _compiled(layer: Layer, passes: Passes, *, verify: bool = True) -> Compiled:
    """A candidate in all directions, without passes that only check if they are not wanted."""
    lowering = [single for single in expanded(passes) if verify or not is_check(single)]
    return compile_module(layer.ctx, layer.graph, lowering, backward=layer.backward)


def _timed(layer: Layer, kernel: CompiledKernel) -> TimedKernel:
    """Raises one of UNTIMED where the kernel can't be used, InputError where none can."""
    try:
        executable = build_program(kernel.program, kernel.source)
    except CompilerMissing as e:
        raise InputError(str(e)) from e
    name = ids_of(kernel.program)
    ranks = [RankIntegers({name: part}, len(part)) for part in layer.ids]
    run = simulate_mirrored if layer.routing == "balanced" else simulate
    timeline = run(kernel.program, executable, kernel.table, ranks, layer.machine)
    return TimedKernel(timeline.time_us, bounds(timeline, ranks))


def same_from_each_rank(config: LayerConfig) -> list[IdArray]:
    """Balanced routing, ids [T, K] of each rank: what rank r sends to rank r + d, all ranks do.

    Rank 0 has that of `balanced`, rank r the same with all experts r ranks further.
    """
    counts = [config.tokens] * config.ranks
    own = generate_routing(parse_routing("balanced"), config, counts, 0)[0].ids
    return [
        ((own + rank * config.local_experts) % config.experts).astype(own.dtype)
        for rank in range(config.ranks)
    ]


def candidate_lines(candidates: Sequence[Candidate]) -> list[str]:
    """What was tried, the fastest first, for people: times, the largest bounds, both ratios."""
    lines: list[str] = []
    for candidate in candidates:
        if not candidate.kernels:
            lines.append(f"  {'refused':>16}  {candidate.text}: {candidate.refused}")
            continue
        peak = sum(k.bounds.matrix_us for k in candidate.kernels)
        names = ", ".join(dict.fromkeys(k.bounds.largest for k in candidate.kernels))
        times = " + ".join(f"{k.time_us:.0f}" for k in candidate.kernels)
        lines.append(
            f"  {times:>13} us  {candidate.over_bound:.3f} of {names}, "
            f"{candidate.time_us / peak:.3f} of matrix  {candidate.text}"
        )
    return lines
