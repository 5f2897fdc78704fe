"""The compiler driver: lowers a module at the `moe` level to source code and task tables."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

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
from hpmoe_ir.dialects.queue import ProgramOp
from hpmoe_ir.driver.source import read_module
from hpmoe_ir.driver.specs import pipeline_text
from hpmoe_ir.lowering.plan.program import ProgramPlan, plan_program
from hpmoe_ir.lowering.program import LoweredProgram, lowered_program
from hpmoe_ir.lowering.targets import CodeTarget, KernelCode, code_target
from hpmoe_ir.output import write_files
from hpmoe_ir.passes.analysis.level import LEVELS, level_of
from hpmoe_ir.passes.analysis.pass_kinds import expanded, level_left
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass

GRAPH_FILE = "graph.mlir"
MANIFEST_FILE = "manifest.json"

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

    graph: ModuleOp
    """The input graph, without gradients."""
    modules: dict[str, ModuleOp]
    """The module at each level, by level name. The moe level includes the backward function, if
    any; the tile level includes dependences and the memory plan."""
    kernels: dict[str, CompiledKernel]
    """Kernels by program name; the forward direction first."""
    pipeline: str
    """The passes that were run, as `hpmoe-opt -p` takes them."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Time of each pass and of the lowering to code, in seconds."""

    @property
    def functions(self) -> list[str]:
        """Names of the functions of the graph; the forward direction first."""
        return [op.sym_name.data for op in self.modules["moe"].ops if isinstance(op, FuncOp)]

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
    """Lowers a module at the `moe` level to code or, with `down_to`, to `moe` or `comm` only.

    `lowering` is `lower-moe` or any pipeline that ends at the queue level. `backward`, if given,
    runs first and adds the gradient function. The module itself is not modified. Raises PassError
    if a pass rejects the module, InputError if the module is not at the `moe` level or the pipeline
    skips a level.
    """
    found = level_of(module)
    if found is None or found[0] != "moe":
        what = f"{found[1].name} of the {found[0]} level" if found else "no operation of moe"
        raise InputError(
            f"expected a graph at the moe level, found {what}",
            location_of(found[1]) if found else "",
        )
    graph = module.clone()
    current = module.clone()
    seconds: dict[str, float] = {}
    passes = [lowering] if isinstance(lowering, ModulePass) else list(lowering)
    pipeline = pipeline_text([backward, *passes] if backward is not None else passes)
    if backward is not None:
        _apply(ctx, backward, current, seconds, progress)
    modules = {"moe": current.clone()}
    for module_pass in expanded(passes):
        if down_to in modules and _goes_below(down_to, module_pass):
            return Compiled(graph, modules, {}, pipeline, seconds)
        _apply(ctx, module_pass, current, seconds, progress)
        level = level_of(current)
        if level is not None:
            modules[level[0]] = current.clone()
    if missing := [level for level in LEVELS if level not in modules]:
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
    """Returns the names of the queue programs of a module, in order."""
    return [op.sym_name.data for op in module.ops if isinstance(op, ProgramOp)]


def module_text(module: ModuleOp) -> str:
    """Prints a module to text, with a newline at the end."""
    stream = StringIO()
    Printer(stream).print_op(module)
    return stream.getvalue() + "\n"


def manifest(compiled: Compiled, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Returns the manifest: pipeline, sizes of each kernel, SHA-256 of each file. Deterministic."""
    programs = {name: kernel.program for name, kernel in compiled.kernels.items()}
    return {
        "hpmoe_ir": version("hpmoe-ir"),
        "pipeline": compiled.pipeline,
        "kernels": {
            name: {
                "machine": program.machine.name,
                "ranks": program.ranks,
                "tasks": {n: f.task_count for n, f in program.families.items()},
                "events": program.event_count,
                "workspace_bytes": program.workspace_bytes,
                "window_bytes": program.window_bytes,
                "table_bytes": len(compiled.kernels[name].table),
                "tile_kernels": sorted({f.kernel.data for f in program.families.values()}),
            }
            for name, program in programs.items()
        },
        "files": {n: hashlib.sha256(data).hexdigest() for n, data in sorted(files.items())},
    }


def write_compiled(compiled: Compiled, directory: Path) -> None:
    """Writes all files of a compiled layer. Raises InputError if a file can't be written."""
    files: dict[str, bytes] = {
        f"{level}.mlir": module_text(compiled.modules[level]).encode() for level in LEVELS
    }
    files[GRAPH_FILE] = module_text(compiled.graph).encode()
    for name, kernel in compiled.kernels.items():
        try:
            own = kernel.target.files(kernel.plan, kernel.code)
        except DiagnosticException as e:
            op = e.op if isinstance(e, RefusedError) else kernel.program.op
            raise InputError(one_line(str(e)), location_of(op)) from e
        files |= {f"{name}/{path}": data for path, data in own.items()}
    content = json.dumps(manifest(compiled, files), indent=2) + "\n"
    files[MANIFEST_FILE] = content.encode()
    write_files(directory, files)


def read_compiled(ctx: Context, directory: Path) -> tuple[Compiled, list[str]]:
    """Reads a compiled layer from its directory; also returns the names of files changed since.

    Files are used as they are on disk, including manual changes. Raises InputError if a file is
    missing or can't be read.
    """
    try:
        described = json.loads((directory / MANIFEST_FILE).read_text())
        digests, pipeline = dict(described["files"]), str(described["pipeline"])
    except OSError as e:
        raise InputError(
            f"expected a directory written by hpmoe compile: {e.strerror}",
            str(directory / MANIFEST_FILE),
        ) from e
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise InputError(
            f"expected the manifest of a compiled layer: {one_line(str(e))}",
            str(directory / MANIFEST_FILE),
        ) from e
    changed: list[str] = []
    for name, digest in digests.items():
        path = directory / name
        if not os.path.isfile(path):
            raise InputError("the file is missing, compile again", str(path))
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            changed.append(name)
    modules = {level: read_module(ctx, directory / f"{level}.mlir") for level in LEVELS}
    kernels: dict[str, CompiledKernel] = {}
    target = code_target()
    for name in program_names(modules["queue"]):
        try:
            plan = plan_program(lowered_program(modules["queue"], target.name, name))
        except DiagnosticException as e:
            raise InputError(one_line(str(e)), str(directory / "queue.mlir")) from e
        kernels[name] = CompiledKernel(plan, target, target.read(directory / name))
    graph = read_module(ctx, directory / GRAPH_FILE)
    return Compiled(graph, modules, kernels, pipeline), changed


__all__ = [
    "Compiled",
    "CompiledKernel",
    "PassError",
    "compile_module",
    "compile_program",
    "manifest",
    "module_text",
    "read_compiled",
    "write_compiled",
]
