"""The timed runs that tables are made of; each is kept in a file, so that a stopped run goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import numpy as np
from xdsl.passes import ModulePass

from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.driver.compiler import CompiledKernel, PassError, compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.driver.specs import passes_in, pipeline_text
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RoutingError, generate_routing, parse_routing, received_rows
from hpmoe_ir.layer.values import launch_seed
from hpmoe_ir.machines.machine import Machine, load_machine
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.run.execution import ExecutionError, build_program
from hpmoe_ir.schedule.candidates import Layer
from hpmoe_ir.schedule.chosen import chosen_schedule
from hpmoe_ir.schedule.conditions import USUAL, conditions_for
from hpmoe_ir.schedule.named import AUTO_SCHEDULE, find_schedule
from hpmoe_ir.schedule.remembered import source_digest
from hpmoe_ir.timing.bounds import parts_of_peak
from hpmoe_ir.timing.mirrored import simulate_mirrored
from hpmoe_ir.timing.serial_stages import launched_stages
from hpmoe_ir.timing.simulation import Configuration, Simulation
from hpmoe_ir.timing.timed_run import RankIntegers, Stages, Timeline, ids_of, simulate
from hpmoe_ir.timing.usage import Utilisation

SEED = 0


@dataclass(frozen=True)
class Case:
    """One timed run."""

    preset: str
    ranks: int
    schedule: str
    """A name of `hpmoe_ir.schedule.named`."""
    direction: str = "forward"
    routing: str = "balanced"
    without: tuple[str, ...] = ()
    """Passes of the schedule that are left out, and options that have their default values."""
    rates: tuple[tuple[str, float], ...] = ()
    """Numbers of the machine that are different in the timed run; the program is the same."""
    tokens: int | None = None
    """Of each rank, where they are not those of the command."""
    all_ranks: bool = False
    """Whether all ranks are simulated, not one that stands for all."""

    @property
    def serial(self) -> Case:
        """The same with the schedule `serial`."""
        return replace(self, schedule="serial", without=())

    @property
    def best_case(self) -> bool:
        """Whether `auto` is chosen for balanced routing alone, and not for any routing."""
        return self.routing == "balanced"

    @property
    def program(self) -> tuple[str, int, int, str, str, tuple[str, ...], bool]:
        """What is compiled: cases in which it is equal share it."""
        chosen = self.schedule == AUTO_SCHEDULE and self.best_case
        tokens = self.tokens or 0
        return self.preset, self.ranks, tokens, self.schedule, self.direction, self.without, chosen


@dataclass(frozen=True)
class Shares:
    """us of a run of operators: each moment belongs to one of them."""

    communication: float
    """Operators that put rows or counts into other ranks' memory."""
    vector: float
    matrix: float
    between: float
    """Launches and synchronisations."""


@dataclass(frozen=True)
class Result:
    """What a timed run found; where the schedule can't be used, only why."""

    refused: str = ""
    time_us: float = 0.0
    bound_us: float = 0.0
    """The largest bound that no schedule moves."""
    bound: str = ""
    own_bound_us: float = 0.0
    """The largest bound of the program's own tasks."""
    overlap: float = 0.0
    """The part of the ideal gain by overlap that is reached."""
    used: Utilisation | None = None
    exposed_us: float = 0.0
    simulated: int = 0
    """Number of ranks that were simulated."""
    imbalance: float = 0.0
    """Largest over mean number of rows that a rank receives."""
    products: dict[str, float] = field(default_factory=dict[str, float])
    """Of each family of matrix tasks, the part of the peak that its tasks reach alone."""
    shares: Shares | None = None
    """Of the schedule `serial`."""
    wall_s: float = 0.0
    """What the simulation took here, without compiling and building."""


class Runs:
    """Compiles and times cases; `store` has a line for each that is done."""

    def __init__(self, machine: str, tokens: int | None, store: Path) -> None:
        self.machine = load_machine(machine)
        self.tokens = tokens
        self.store = store
        self.ctx = make_context()
        self._source = source_digest()
        self._known = self._read()
        self._compiled: tuple[object, tuple[CompiledKernel, Sequence[ModulePass]]] | None = None

    def is_known(self, case: Case) -> bool:
        """Whether the case was timed before, by the same sources, on the same machine."""
        return self._key(case) in self._known

    def of(self, case: Case) -> Result:
        """The result of a case, timed if it is not known."""
        key = self._key(case)
        if key not in self._known:
            result = self._timed(case)
            self.store.parent.mkdir(parents=True, exist_ok=True)
            with self.store.open("a") as file:
                file.write(json.dumps({"case": key, "result": asdict(result)}) + "\n")
            self._known[key] = result
        return self._known[key]

    def layer(self, preset: str, ranks: int, tokens: int | None = None) -> LayerConfig:
        """The layer of a preset on so many ranks, with other tokens where they are given."""
        return preset_layer(preset, ranks=ranks, tokens=tokens or self.tokens)

    def _key(self, case: Case) -> str:
        tokens = case.tokens or self.tokens
        known = {**asdict(case), "tokens": tokens, "machine": self.machine.digest}
        return json.dumps({**known, "source": self._source}, sort_keys=True)

    def _read(self) -> dict[str, Result]:
        known: dict[str, Result] = {}
        if self.store.is_file():
            for line in self.store.read_text().splitlines():
                entry = json.loads(line)
                found = entry["result"]
                for name, kind in (("used", Utilisation), ("shares", Shares)):
                    found[name] = None if found[name] is None else kind(**found[name])
                known[entry["case"]] = Result(**found)
        return known

    def _kernel(self, case: Case) -> tuple[CompiledKernel, Sequence[ModulePass]]:
        if self._compiled is None or self._compiled[0] != case.program:
            self._compiled = None  # one at a time: those of 64 ranks are large
            self._compiled = case.program, self._compile(case)
        return self._compiled[1]

    def _compile(self, case: Case) -> tuple[CompiledKernel, Sequence[ModulePass]]:
        # The gradients of the largest layers exceed a die's memory without a capacity.
        module = layer_module(self.layer(case.preset, case.ranks, case.tokens))
        backward = DeriveBackwardPass() if case.direction == "backward" else None
        if case.schedule == AUTO_SCHEDULE:
            conditions = conditions_for("balanced") if case.best_case else USUAL
            layer = Layer(self.ctx, module, backward, self.machine, conditions, over_memory=True)
            passes = passes_in(chosen_schedule(layer).pipeline)
        else:
            passes = find_schedule(case.schedule).passes(self.machine, over_memory=True)
        for name in case.without:
            passes = without(passes, name)
        compiled = compile_module(self.ctx, module, passes, backward=backward)
        return list(compiled.kernels.values())[-1], passes

    def _timed(self, case: Case) -> Result:
        config = self.layer(case.preset, case.ranks, case.tokens)
        try:
            kernel, passes = self._kernel(case)
            routing = generate_routing(
                parse_routing(case.routing),
                config,
                [config.tokens] * config.ranks,
                launch_seed(SEED, 1),
            )
        except (PassError, RoutingError) as e:
            return Result(refused=str(e))
        machine = self.machine
        for name, value in case.rates:
            machine = machine.with_rate(name, value)
        ids = ids_of(kernel.program)
        ranks = [RankIntegers({ids: r.ids}, len(r.ids)) for r in routing]
        stages = launched_stages(kernel.program.op, passes)
        executable = build_program(kernel.program, kernel.source)
        start = time.perf_counter()
        timeline = _timeline(case, kernel, executable, ranks, machine, stages)
        wall = time.perf_counter() - start
        what = Configuration(
            config.summary(), case.ranks, (config.tokens,), case.routing, SEED, "", "", ""
        )
        found = Simulation(what, timeline, ranks, stages)
        rows = received_rows(config, [r.ids for r in routing])
        return Result(
            time_us=found.time_us,
            bound_us=found.bounds.bound_us,
            bound=found.bounds.largest,
            own_bound_us=found.program_bounds.bound_us,
            overlap=found.overlap.reached,
            used=found.utilisation,
            exposed_us=found.exposed_us,
            simulated=found.simulated_ranks,
            imbalance=max(rows) * len(rows) / sum(rows),
            products=parts_of_peak(timeline, ranks),
            shares=None if stages is None else stage_shares(timeline, stages),
            wall_s=wall,
        )


def without(passes: Sequence[ModulePass], name: str) -> tuple[ModulePass, ...]:
    """The passes without one, or with the default value of an option.

    Raises ValueError where there is no such pass, and no such option with another value.
    """
    options = {
        i: {field.name: field.default}
        for i, found in enumerate(passes)
        for field in fields(found)
        if field.name == name and getattr(found, name) != field.default
    }
    changed = tuple(
        replace(found, **options.get(i, {})) for i, found in enumerate(passes) if found.name != name
    )
    if changed == tuple(passes):
        raise ValueError(f"expected a pass or an option '{name}' in '{pipeline_text(passes)}'")
    return changed


def _timeline(
    case: Case,
    kernel: CompiledKernel,
    executable: Path,
    ranks: Sequence[RankIntegers],
    machine: Machine,
    stages: Stages | None,
) -> Timeline:
    """One rank that stands for all where the case asks for it and the ranks do the same."""
    if not case.all_ranks:
        try:
            return simulate_mirrored(
                kernel.program, executable, kernel.table, ranks, machine, stages
            )
        except ExecutionError:
            pass  # the ranks are too different; `simulated` of the result says so
    return simulate(kernel.program, executable, kernel.table, ranks, machine, stages)


def stage_shares(timeline: Timeline, stages: Stages) -> Shares:
    """Time of the operators of each kind, from the first task that begins to the last that ends."""
    program = timeline.program
    numbers = np.array([stages.stage[name] for name in program.families])
    of_task = numbers[timeline.tasks["slot"] >> POINT_BITS]
    us = {"communication": 0.0, "vector": 0.0, "matrix": 0.0, "between": 0.0}
    last = 0.0
    for number, communicates in enumerate(stages.communicates):
        tasks = timeline.tasks[of_task == number]
        if not len(tasks):
            continue
        begin, end = max(last, float(tasks["ready"].min())), float(tasks["end"].max())
        cores = {f.core.data for n, f in program.families.items() if stages.stage[n] == number}
        kind = "communication" if communicates else "matrix" if "aic" in cores else "vector"
        us["between"] += (begin - last) / 1000
        us[kind] += (end - begin) / 1000
        last = end
    us["between"] += timeline.time_us - last / 1000
    return Shares(**us)
