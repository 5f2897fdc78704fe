"""Timed runs of all configurations given by the options of `hpmoe simulate`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.driver.compiled_files import read_compiled
from hpmoe_ir.driver.compiler import Compiled, CompiledKernel, compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.driver.specs import passes_in
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RoutingError, check_capacity, generate_routing, parse_routing
from hpmoe_ir.layer.values import launch_seed
from hpmoe_ir.lowering.task_table import TableError, read_task_table
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.machines.numbers import OPTIONAL, SIZES
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.run.execution import ExecutionError, build_program
from hpmoe_ir.run.module_layer import module_layer
from hpmoe_ir.run.signature import has_gradients
from hpmoe_ir.runtime.cpu_build import CompileError, CompilerMissing
from hpmoe_ir.runtime.cpu_timing import TaskNoise
from hpmoe_ir.runtime.device_fault import DeviceFault
from hpmoe_ir.schedule.named import AUTO_SCHEDULE, find_schedule, is_serial
from hpmoe_ir.timing.mirrored import simulate_mirrored
from hpmoe_ir.timing.serial_stages import launched_stages
from hpmoe_ir.timing.simulation import Configuration, Simulation
from hpmoe_ir.timing.timed_run import RankIntegers, Stages, Timeline, ids_of, simulate
from hpmoe_ir.tools.command_line import changed
from hpmoe_ir.tools.layer_input import compile_input, layer_input, pipeline_of
from hpmoe_ir.tools.layer_options import (
    machine_of,
    refuse_pipeline,
    refuse_sizes,
    several,
)
from hpmoe_ir.tools.progress import Progress
from hpmoe_ir.tools.run_values import rank_tokens
from hpmoe_ir.tools.schedule_choice import choose_schedule
from hpmoe_ir.tools.summary import layer_line

BAR = 20
"""Width of the progress bar, in characters."""


@dataclass(frozen=True)
class _Layer:
    """A compiled layer with its pipeline and the name of its schedule."""

    compiled: Compiled
    passes: Sequence[ModulePass]
    """The pipeline that compiled the layer."""
    schedule: str
    config: LayerConfig

    @property
    def is_serial(self) -> bool:
        """Whether its task families are operators launched separately by the host."""
        return is_serial(self.passes)


class SimulateRun:
    """All timed runs, in the order of number of ranks, routing, direction and schedule."""

    def __init__(self, args: argparse.Namespace, progress: Progress) -> None:
        self.args = args
        self.progress = progress
        self.lines: list[str] = []
        """Lines of the report about layers, machine and selected schedules."""
        self.ctx = make_context()
        self.done = 0

    def run(self) -> list[Simulation]:
        """Runs all configurations and returns their results, in order. Raises InputError."""
        if self.args.seed < 0:
            raise InputError(f"--seed: expected 0 or more, found {self.args.seed}")
        if not 0 <= self.args.task_noise < 1:
            raise InputError(
                f"--task-noise: expected a part from 0 to below 1, found {self.args.task_noise:g}"
            )
        for routing in self.routings:
            _routing(routing)
        found: list[Simulation] = []
        for ranks in self.ranks:
            found += self._ranks(ranks)
        return found

    @cached_property
    def is_compiled(self) -> bool:
        """Whether the input is a directory of a compiled layer."""
        args = self.args
        return args.preset is None and args.graph is not None and os.path.isdir(args.graph)

    @cached_property
    def ranks(self) -> Sequence[int | None]:
        """Numbers of ranks to simulate; None for the layer's own."""
        if self.args.ranks is None:
            return [None]
        try:
            return [int(part) for part in several("ranks", self.args.ranks)]
        except ValueError as e:
            raise InputError(
                f"--ranks: expected numbers separated by commas, found '{self.args.ranks}'"
            ) from e

    @cached_property
    def routings(self) -> Sequence[str]:
        """Names of the routings to simulate."""
        return several("routing", self.args.routing)

    @cached_property
    def schedules(self) -> Sequence[str | None]:
        """Names of the schedules; None if --passes or the compiled layer determine it."""
        if self.args.schedule is not None:
            return several("schedule", self.args.schedule)
        decided = self.is_compiled or self.args.passes is not None
        if not decided and self.args.graph is not None:
            # The passes of a lower level, and of a file of a compiled directory, are not chosen.
            source = layer_input(self.ctx, self.args_of(None, None))
            decided = bool(source.recorded) or source.level != "moe"
        return [None] if decided else [AUTO_SCHEDULE]

    @property
    def configurations(self) -> int:
        """Number of configurations reported."""
        directions = 2 if self.args.direction == "both" else 1
        return len(self.ranks) * len(self.routings) * len(self.schedules) * directions

    def _ranks(self, ranks: int | None) -> Iterator[Simulation]:
        layers = [self._layer(ranks, schedule) for schedule in self.schedules]
        self.lines.append(layer_line(layers[0].config))
        machine = self._machine(layers[0])
        line = f"{'machine':<9} {machine.name}, sha256 {machine.digest[:16]}"
        if line not in self.lines:
            self.lines.append(line)
        serial = next((layer for layer in layers if layer.is_serial), None)
        if serial is None and layers[0].compiled.graph is None:
            self.progress.note("there is no graph to compile with the schedule serial")
        elif serial is None and not self.args.no_serial:
            self._step("schedule serial")
            serial = self._serial(layers[0])
        for routing in self.routings:
            for place in self._directions(layers[0].compiled):
                baseline = None
                if serial is not None and not self.args.no_serial:
                    baseline = self._simulate(serial, place, routing)
                for layer in layers:
                    known = baseline is not None and layer is serial
                    run = baseline if known else self._simulate(layer, place, routing)
                    assert run is not None
                    yield replace(run, serial_us=None if baseline is None else baseline.time_us)

    def _step(self, text: str) -> None:
        """Shows the next step, after a progress bar of completed steps."""
        apart = not self.args.no_serial and "serial" not in self.schedules
        per_ranks = len(self.schedules) + apart
        directions = 2 if self.args.direction == "both" else 1
        total = len(self.ranks) * per_ranks * (1 + len(self.routings) * directions)
        part = min(self.done * BAR // total, BAR)
        self.progress.prefix = f"[{'#' * part}{'.' * (BAR - part)}] "
        self.progress(text)
        self.done += 1

    def _layer(self, ranks: int | None, schedule: str | None) -> _Layer:
        given = None if self.args.schedule is None else schedule
        args = self.args_of(ranks, given)
        if self.is_compiled:
            refuse_sizes(args, "the layer is compiled already")
            refuse_pipeline(
                changed(args, machine=None, links=None), "the layer is compiled already"
            )
            compiled, edited = read_compiled(self.ctx, Path(args.graph), args.edited_code)
            for name in edited:
                self.progress.note(f"{name} was edited since it was compiled")
            passes = passes_in(compiled.pipeline)
        else:
            self._step(f"schedule {schedule}" if schedule else "compiling")
            if args.edited_code:
                raise InputError("--edited-code: expected the directory of a compiled layer")
            source = layer_input(self.ctx, args)
            self.lines += choose_schedule(args, self.ctx, source, self.progress)
            pipeline = pipeline_of(args, source)
            passes = pipeline.passes
            compiled = compile_input(self.ctx, source, pipeline, self.progress)
        name = schedule or ("compiled" if self.is_compiled else "passes")
        module = compiled.graph if compiled.level == "moe" else compiled.modules[compiled.level]
        assert module is not None
        return _Layer(compiled, passes, name, module_layer(module).config)

    def args_of(self, ranks: int | None, schedule: str | None) -> argparse.Namespace:
        """Returns the options of one configuration."""
        return changed(self.args, ranks=ranks, schedule=schedule)

    def _serial(self, layer: _Layer) -> _Layer:
        """Compiles the same graph with the schedule `serial`."""
        graph = layer.compiled.graph
        assert graph is not None
        backward = next((p for p in layer.passes if isinstance(p, DeriveBackwardPass)), None)
        if has_gradients(graph):
            backward = None
        passes = find_schedule("serial").passes(layer.compiled.forward.program.machine)
        compiled = compile_module(self.ctx, graph, passes, self.progress, backward=backward)
        return _Layer(compiled, passes, "serial", layer.config)

    def _machine(self, layer: _Layer) -> Machine:
        """Returns the machine to simulate: for a compiled layer that of --machine and --links.

        Without these options, and for what is compiled here, it is the layer's own. Raises
        InputError if the sizes of --machine differ from those of the layer's machine.
        """
        own = layer.compiled.forward.program.machine
        if not self.is_compiled or (self.args.machine is None and self.args.links is None):
            return own
        machine = machine_of(self.args, own.reference)
        for key, (size, unit) in SIZES.items():
            if key in OPTIONAL:  # limits of what compiles, not of what runs
                continue
            mine, other = getattr(own, size), getattr(machine, size)
            if mine != other:
                raise InputError(
                    f"--machine: {key}: expected {mine} {unit}, as the layer is compiled for "
                    f"{own.name}, found {other}"
                )
        return machine

    def _directions(self, compiled: Compiled) -> list[int]:
        """Returns the indices of the programs to simulate: 0 forward, 1 backward."""
        direction = self.args.direction
        if direction != "forward" and len(compiled.kernels) < 2:
            raise InputError(
                "there is no backward direction; compile the graph with --direction both"
            )
        return {"forward": [0], "backward": [1], "both": [0, 1]}[direction]

    def _simulate(self, layer: _Layer, place: int, routing: str) -> Simulation:
        name, kernel = list(layer.compiled.kernels.items())[place]
        self._step(f"schedule {layer.schedule}, routing {routing}, @{name}")
        tokens, ranks = self._integers(kernel, layer.config, routing)
        stages = launched_stages(kernel.program.op, layer.passes)
        try:
            read_task_table(kernel.table)
            executable = build_program(kernel.program, kernel.source)
            timeline = self._timed(layer, kernel, executable, ranks, routing, stages)
        except TableError as e:
            raise InputError(f"table of @{name}: {e}") from e
        except (CompilerMissing, CompileError, ExecutionError, DeviceFault) as e:
            raise InputError(f"@{name}: {e}") from e
        configuration = Configuration(
            layer=layer.config.summary(),
            ranks=layer.config.ranks,
            tokens=tuple(tokens),
            routing=routing,
            seed=self.args.seed,
            function=name,
            schedule=layer.schedule,
            pipeline=layer.compiled.pipeline,
        )
        return Simulation(configuration, timeline, ranks, stages)

    def _timed(
        self,
        layer: _Layer,
        kernel: CompiledKernel,
        executable: Path,
        ranks: Sequence[RankIntegers],
        routing: str,
        stages: Stages | None,
    ) -> Timeline:
        """Simulates a mirrored rank under balanced routing if possible, else all ranks."""
        machine = self._machine(layer)
        part = self.args.task_noise
        noise = TaskNoise(part, self.args.seed) if part else None
        alike = parse_routing(routing).kind == "balanced" and len({r.tokens for r in ranks}) == 1
        if alike and len(ranks) > 1 and not self.args.all_ranks and noise is None:
            try:
                return simulate_mirrored(
                    kernel.program, executable, kernel.table, ranks, machine, stages
                )
            except ExecutionError as e:
                self.progress.note(f"schedule {layer.schedule}: all ranks are simulated: {e}")
        return simulate(
            kernel.program, executable, kernel.table, ranks, machine, stages, noise=noise
        )

    def _integers(
        self, kernel: CompiledKernel, config: LayerConfig, routing: str
    ) -> tuple[list[int], list[RankIntegers]]:
        """Returns token counts and integer inputs by rank, as in `hpmoe run`'s first launch."""
        args = changed(self.args, routing=routing)
        tokens = rank_tokens(args, config)
        try:
            generated = generate_routing(
                parse_routing(routing), config, tokens, launch_seed(args.seed, 1)
            )
            check_capacity(config, [rank.ids for rank in generated])
        except RoutingError as e:
            raise InputError(str(e)) from e
        ids = ids_of(kernel.program)
        return tokens, [RankIntegers({ids: rank.ids}, len(rank.ids)) for rank in generated]


def _routing(text: str) -> None:
    """Raises InputError for an invalid routing, before anything is compiled."""
    try:
        parse_routing(text)
    except RoutingError as e:
        raise InputError(str(e)) from e
