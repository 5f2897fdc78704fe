"""Schedule `auto`: selects the fastest of a few candidate pipelines on the timing model.

Each candidate is an ordinary pipeline in the syntax of `hpmoe-opt -p`, compiled and timed as any
other (docs/timing.md). Under uniform and balanced routing, one mirrored rank is simulated, as if
each rank sent what rank 0 sends; under other routings all ranks are.
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
from hpmoe_ir.passes.policies.tiles import Tiles
from hpmoe_ir.passes.tiling.options import MIN_TOKENS
from hpmoe_ir.run.execution import ExecutionError, build_program
from hpmoe_ir.runtime.cpu_build import CompileError, CompilerMissing
from hpmoe_ir.runtime.device_fault import DeviceFault
from hpmoe_ir.timing.bounds import Bounds, bounds
from hpmoe_ir.timing.mirrored import simulate_mirrored
from hpmoe_ir.timing.timed_run import RankIntegers, ids_of, simulate

GRADIENT_COLS = 1024
"""Columns of a weight-gradient task of the last expert, in candidates with narrow tasks."""

DEFAULT_ROUTING = "uniform"
"""Routing of the timed runs. No part of the rows has a whole number of tiles, as in training."""

MIRRORED = ("balanced", "uniform")
"""Routings for which one rank is timed: no rank is expected to receive more than another."""

UNTIMED = (DeviceFault, CompileError, ExecutionError)
"""Exceptions by which one kernel can't be timed, although others may be."""


Passes: TypeAlias = tuple[ModulePass, ...]
"""A pipeline from the `moe` level to the queue level."""


@dataclass(frozen=True)
class TimedKernel:
    """Simulated time and bounds of one direction of a candidate."""

    time_us: float
    bounds: Bounds


@dataclass(frozen=True)
class Candidate:
    """A pipeline with its simulated time, or the reason why it can't be used."""

    passes: Passes
    kernels: tuple[TimedKernel, ...] = ()
    """Times and bounds of each direction, forward first; empty if the pipeline can't be used."""
    refused: str = ""

    @property
    def text(self) -> str:
        """The pipeline in the syntax of `hpmoe-opt -p`."""
        return pipeline_text(self.passes)

    @property
    def time_us(self) -> float:
        """Total time of all directions in microseconds; infinite if the pipeline can't be used."""
        return sum(k.time_us for k in self.kernels) if self.kernels else float("inf")

    @property
    def over_bound(self) -> float:
        """Ratio of the time to the largest bound, both summed over directions."""
        return self.time_us / sum(k.bounds.bound_us for k in self.kernels)


@dataclass(frozen=True)
class Layer:
    """The layer to schedule: a graph at the `moe` level, its directions, machine and routing."""

    ctx: Context
    graph: ModuleOp
    backward: DeriveBackwardPass | None
    machine: Machine
    routing: str = DEFAULT_ROUTING
    """Routing of the timed runs, in the syntax of `parse_routing`."""
    over_memory: bool = False
    """Whether a program may need more device memory than the machine has."""

    @property
    def config(self) -> LayerConfig:
        """The sizes of the layer."""
        return graph_layer(self.graph).config

    @cached_property
    def ids(self) -> list[IdArray]:
        """The expert ids [T, K] of each rank under the timed routing.

        Raises InputError if the routing does not fit the layer.
        """
        config = self.config
        if self.routing in MIRRORED:
            return same_from_each_rank(config, self.routing)
        counts = [config.tokens] * config.ranks
        try:
            routing = generate_routing(parse_routing(self.routing), config, counts, 0)
        except RoutingError as e:
            raise InputError(f"--schedule-for: {e}") from e
        return [part.ids for part in routing]


def auto_candidates(layer: Layer) -> list[Passes]:
    """Returns the candidate pipelines of `auto`, see `auto_lowerings`."""
    return [(lowering,) for lowering in auto_lowerings(layer)]


def auto_lowerings(layer: Layer) -> list[LowerMoePass]:
    """Returns the candidate lowerings of `auto`, determined by the sizes and the machine.

    The candidates are the default lowering, `tiles` with blocks of about a quarter or a seventh of
    the columns on the way back, and variants of `overlap`:
    - source groups such that a part has the rows of one or two matrix tiles;
    - return blocks of about a seventh or a quarter of the columns;
    - finely cut tasks for the last experts: as many experts as keep the matrix cores busy during
      the weighted sums (`experts_beside_sums`), three quarters of them, or none;
    - with the backward direction, wide or narrow weight-gradient tasks for the last expert; narrow
      tasks take longer in total but let the cores finish at the same time.

    Tokens are split over all vector cores but one, which builds the route at the same time. The
    second matmul lags behind the first by three tasks per AIC: with a smaller lag it waits, a
    larger one does not help. The last candidate shares each expert's product and rows among many
    cores, for uneven routing.
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
    default = LowerMoePass(machine=machine.reference, over_memory=layer.over_memory)
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
    # For any number of rows: all matrix cores share each expert's product, and as many vector cores
    # its rows.
    shared = replace(
        overlap,
        source_groups=1,
        return_cols=quarter,
        matrix_shares=machine.aic_cores,
        vector_chunks=machine.aic_cores,
    )
    tiles = replace(default, row_cut="tiles", policy=Tiles(), token_chunks=overlap.token_chunks)
    numbered = [replace(tiles, return_cols=columns) for columns in (quarter, seventh)]
    return [default, *numbered, *fine, shared]


def fitting_groups(config: LayerConfig, rows: int) -> list[int]:
    """Returns numbers of source groups whose parts of an expert have about `rows` rows or more.

    At most two divisors of the number of ranks, the larger first; [1] if no other fits.
    """
    each = config.tokens * config.top_k / config.experts
    even = [g for g in range(1, config.ranks + 1) if config.ranks % g == 0]
    fit = [g for g in even if each * config.ranks / g >= rows * 0.99] or [1]
    return sorted(fit[-2:], reverse=True)


def experts_beside_sums(config: LayerConfig, machine: Machine) -> int:
    """Returns how many local experts' last products take as long as the sums over token copies.

    Estimates sums at half the memory bandwidth and products at the peak rate.
    """
    rates = machine.rates
    copies = config.tokens * (config.top_k + 1) * config.hidden
    sums = copies * ELEMENT_BYTES / (rates.shared_bandwidth_hbm / 2)
    macs = config.tokens * config.top_k * config.hidden * config.width
    products = macs / (machine.aic_cores * CUBE_MACS * rates.clock_frequency)
    return min(config.local_experts, math.ceil(config.local_experts * sums / products))


def _columns(width: int, parts: int, tile: int) -> int:
    """Returns the columns of about `parts` blocks; equal blocks of whole tiles if possible."""
    for count in range(parts, 2 * parts):
        if width % (count * tile) == 0:
            return width // count
    return round_up(ceil_div(width, parts), FRACTAL)


def choose(
    layer: Layer, pipelines: Sequence[Passes], progress: Progress = lambda _: None
) -> list[Candidate]:
    """Times the candidates and returns them sorted, the fastest first; ties keep their order.

    Compilation and timed runs overlap, and identical kernels are timed once. Only the fastest
    candidate is checked by `verify-queues`; if it is rejected, the next one is. Raises InputError
    if no candidate can be used, or if the routing does not fit the layer.
    """
    _ = layer.ids  # Reject an invalid routing before compiling.
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
    """Compiles a pipeline and times each direction under the routing of the layer.

    Raises InputError if the routing does not fit the layer or no compiler is installed.
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
    """Evaluates the pipelines in parallel, without `verify-queues`; yields them in order."""
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
    """Compiles a candidate in all directions; `verify=False` omits passes that only check."""
    lowering = [single for single in expanded(passes) if verify or not is_check(single)]
    return compile_module(layer.ctx, layer.graph, lowering, backward=layer.backward)


def _timed(layer: Layer, kernel: CompiledKernel) -> TimedKernel:
    """Times a kernel. Raises one of UNTIMED for this kernel, InputError without a compiler."""
    try:
        executable = build_program(kernel.program, kernel.source)
    except CompilerMissing as e:
        raise InputError(str(e)) from e
    name = ids_of(kernel.program)
    ranks = [RankIntegers({name: part}, len(part)) for part in layer.ids]
    run = simulate_mirrored if layer.routing in MIRRORED else simulate
    timeline = run(kernel.program, executable, kernel.table, ranks, layer.machine)
    return TimedKernel(timeline.time_us, bounds(timeline, ranks))


def same_from_each_rank(config: LayerConfig, routing: str) -> list[IdArray]:
    """Returns a rank-symmetric routing: expert ids [T, K] for each rank.

    Rank 0 has the ids of `routing`, seed 0; rank r has the same shifted by r ranks, so that each
    rank r sends the same number of rows to rank r + d.
    """
    counts = [config.tokens] * config.ranks
    own = generate_routing(parse_routing(routing), config, counts, 0)[0].ids
    return [
        ((own + rank * config.local_experts) % config.experts).astype(own.dtype)
        for rank in range(config.ranks)
    ]


def candidate_lines(candidates: Sequence[Candidate]) -> list[str]:
    """Formats candidates, one a line: times, and their ratios to the largest bounds."""
    lines: list[str] = []
    for candidate in candidates:
        if not candidate.kernels:
            lines.append(f"  {'refused':>16}  {candidate.text}: {candidate.refused}")
            continue
        names = ", ".join(dict.fromkeys(k.bounds.largest for k in candidate.kernels))
        times = " + ".join(f"{k.time_us:.0f}" for k in candidate.kernels)
        lines.append(f"  {times:>13} us  {candidate.over_bound:.3f} of {names}  {candidate.text}")
    return lines
