"""The compiler driver: lowers a module of any level to source code and task tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import StringIO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer
from xdsl.utils.exceptions import DiagnosticException

from hpmoe_ir.diagnostics import (
    InputError,
    RefusedError,
    crashes_named,
    location_of,
    one_line,
    pass_named,
    verify_module,
)
from hpmoe_ir.dialects import tile
from hpmoe_ir.dialects.queue import ProgramOp
from hpmoe_ir.driver.specs import pipeline_text
from hpmoe_ir.lowering.plan.program import ProgramPlan, plan_program
from hpmoe_ir.lowering.program import LoweredProgram, lowered_program
from hpmoe_ir.lowering.targets import CodeTarget, KernelCode, code_target
from hpmoe_ir.passes.analysis.level import LEVELS, level_of
from hpmoe_ir.passes.analysis.pass_kinds import expanded, level_left
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass

Progress = Callable[[str], None]
"""Callback that receives the name of each step when it begins."""


class PassError(InputError):
    """A pass or the lowering to code rejected a module, or a pass produced an invalid one."""

    def __init__(self, pass_name: str, message: str, location: str = ""):
        super().__init__(message, location)
        self.pass_name = pass_name


@dataclass(frozen=True)
class CompiledKernel:
    """The plan, source and task table of one program (forward or backward)."""

    plan: ProgramPlan
    target: CodeTarget
    """The target that generated the code."""
    code: KernelCode

    @property
    def program(self) -> LoweredProgram:
        """The program that was lowered."""
        return self.plan.program

    @property
    def source(self) -> str:
        """Source text of the kernel."""
        return self.code.source

    @property
    def table(self) -> bytes:
        """The task table that the kernel reads."""
        return self.code.table


@dataclass
class Compiled:
    """A compiled layer: the IR of each level, and the kernel of each direction."""

    graph: ModuleOp | None
    """The graph that was compiled, without the gradients that the pipeline derives. Of a module of
    a lower level: the functions of the moe level beside its programs, None without any."""
    modules: dict[str, ModuleOp]
    """The module at each level from that of the input downwards, by level name. The moe level
    includes the backward function, if any; the tile level includes dependences and the memory
    plan."""
    kernels: dict[str, CompiledKernel]
    """Kernels by program name; the forward direction first."""
    pipeline: str
    """The passes that were run, as `hpmoe-opt -p` takes them."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Time of each pass and of the lowering to code, in seconds."""

    @property
    def level(self) -> str:
        """The level of the input."""
        return next(iter(self.modules))

    @property
    def functions(self) -> list[str]:
        """Names of the functions or programs of the input; the forward direction first."""
        ops = self.modules[self.level].ops
        kinds = (FuncOp, tile.ProgramOp, ProgramOp)
        return [op.sym_name.data for op in ops if isinstance(op, kinds)]

    @property
    def forward(self) -> CompiledKernel:
        """The kernel of the forward direction."""
        return next(iter(self.kernels.values()))


def compile_module(
    ctx: Context,
    module: ModuleOp,
    lowering: ModulePass | Sequence[ModulePass],
    progress: Progress = lambda _: None,
    down_to: str = "code",
    backward: DeriveBackwardPass | None = None,
) -> Compiled:
    """Lowers a module of any level to code or, with `down_to`, to `moe` or `comm` only.

    `lowering` is the pipeline from the level of the module to the queue level: for a graph of the
    `moe` level `lower-moe`, for others what `remaining_passes` leaves of it. `backward`, if given,
    runs first and adds the gradient function. The module itself is not modified. Raises PassError
    if a pass rejects the module, InputError if the module has no level or the pipeline skips one.
    """
    found = level_of(module)
    if found is None:
        raise InputError(
            f"expected IR of one of the levels {', '.join(LEVELS)}, found no operation of them",
            location_of(module),
        )
    level = found[0]
    graph, current = split_graph(module)
    seconds: dict[str, float] = {}
    passes = [lowering] if isinstance(lowering, ModulePass) else list(lowering)
    pipeline = pipeline_text([backward, *passes] if backward is not None else passes)
    if backward is not None:
        _apply(ctx, backward, current, seconds, progress)
    modules = {level: current.clone()}
    for module_pass in expanded(passes):
        if down_to in modules and _goes_below(down_to, module_pass):
            return Compiled(graph, modules, {}, pipeline, seconds)
        _apply(ctx, module_pass, current, seconds, progress)
        reached = level_of(current)
        if reached is not None:
            modules[reached[0]] = current.clone()
    below = LEVELS[LEVELS.index(level) :]
    if missing := [level for level in below if level not in modules]:
        raise InputError(
            f"the passes '{pipeline}' leave out the {missing[0]} level; lower-moe, or the passes "
            "that it consists of, bring a graph down"
        )
    start = time.perf_counter()
    progress("lowering")
    try:
        target = code_target()
        kernels = {
            name: compile_program(modules["queue"], target, name)
            for name in program_names(modules["queue"])
        }
    except DiagnosticException as e:
        op = e.op if isinstance(e, RefusedError) else current
        raise PassError("lowering", one_line(str(e)), location_of(op)) from e
    seconds["lowering"] = time.perf_counter() - start
    return Compiled(graph, modules, kernels, pipeline, seconds)


def split_graph(module: ModuleOp) -> tuple[ModuleOp | None, ModuleOp]:
    """Returns the graph of a module, None without one, and a copy of what is to be compiled.

    A module of the `moe` level is its graph. A module of the tile or queue level may hold functions
    of the `moe` level beside its programs: they are the graph that these compute. Raises InputError
    for a function of another level there, which nothing would compile.
    """
    found = level_of(module)
    if found is None or found[0] in ("moe", "comm"):
        is_graph = found is not None and found[0] == "moe"
        return module.clone() if is_graph else None, module.clone()
    graph, rest = ModuleOp([], dict(module.attributes)), module.clone()
    for op in list(rest.ops):
        if not isinstance(op, FuncOp):
            continue
        own = level_of(op)
        if own is None or own[0] != "moe":
            raise InputError(
                f"expected a function beside programs of the {found[0]} level to be the graph that "
                f"they compute, at the moe level; found @{op.sym_name.data}",
                location_of(op),
            )
        op.detach()
        graph.body.block.add_op(op)
    return (graph if graph.body.block.ops else None), rest


def _goes_below(level: str, module_pass: ModulePass) -> bool:
    """Returns whether a pass takes a module below `level`, which is `moe` or `comm`."""
    left = level_left(module_pass)
    return level in ("moe", "comm") and left in LEVELS[LEVELS.index(level) :]


def _apply(
    ctx: Context,
    module_pass: ModulePass,
    module: ModuleOp,
    seconds: dict[str, float],
    progress: Progress,
) -> None:
    progress(module_pass.name)
    start = time.perf_counter()
    try:
        with crashes_named(pass_named(module_pass)):
            module_pass.apply(ctx, module)
    except DiagnosticException as e:
        op = e.op if isinstance(e, RefusedError) else module
        raise PassError(module_pass.name, one_line(str(e)), location_of(op)) from e
    try:
        verify_module(module, module_pass.name)
    except InputError as e:
        raise PassError(module_pass.name, e.message, e.location) from e
    seconds[module_pass.name] = time.perf_counter() - start


def compile_program(module: ModuleOp, target: CodeTarget, name: str = "") -> CompiledKernel:
    """Generates the code of program `name` of a queue-level module, or of its only program.

    Raises DiagnosticException if the program cannot be lowered.
    """
    plan = plan_program(lowered_program(module, target.name, name))
    return CompiledKernel(plan, target, target.code(plan))


def program_names(module: ModuleOp) -> list[str]:
    """Returns the names of the queue programs of a module, forward ones first."""
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    ordered = sorted(programs, key=lambda op: op.forward is not None)
    return [op.sym_name.data for op in ordered]


def module_text(module: ModuleOp) -> str:
    """Prints a module to text, with a newline at the end."""
    stream = StringIO()
    Printer(stream).print_op(module)
    return stream.getvalue() + "\n"


__all__ = [
    "Compiled",
    "CompiledKernel",
    "PassError",
    "compile_module",
    "compile_program",
    "module_text",
    "program_names",
    "split_graph",
]
