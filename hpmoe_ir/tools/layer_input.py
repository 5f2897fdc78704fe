"""The IR that a command compiles: its level, what is known of its origin, and its passes."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import InputError, location_of
from hpmoe_ir.driver.compiled_files import (
    GRAPH_FILE,
    LEVEL_FILES,
    MANIFEST_FILE,
    read_manifest,
)
from hpmoe_ir.driver.compiler import Compiled, Progress, compile_module
from hpmoe_ir.driver.remaining import remaining_passes
from hpmoe_ir.driver.source import read_module
from hpmoe_ir.driver.specs import passes_in, pipeline_text
from hpmoe_ir.passes.analysis.level import LEVELS, RUN_LEVELS, level_of
from hpmoe_ir.passes.analysis.pass_kinds import expanded, is_check, level_left
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.run.signature import has_gradients
from hpmoe_ir.tools.layer_options import graph_of, passes_of, recompute_of


@dataclass(frozen=True)
class LayerInput:
    """A module that a command has read."""

    module: ModuleOp
    level: str
    graph: ModuleOp | None = None
    """The graph of the compiled directory that the file is of, for a module of a lower level."""
    recorded: str = ""
    """The pipeline of that directory, in the syntax of `hpmoe-opt -p`; "" for other files."""
    is_graph_file: bool = False
    """Whether the file is `graph.mlir` of that directory, which no pass has changed."""

    @cached_property
    def has_gradients(self) -> bool:
        """Whether the module has a backward function or program."""
        return has_gradients(self.module)


@dataclass(frozen=True)
class Pipeline:
    """The passes that a command runs."""

    backward: DeriveBackwardPass | None
    """The pass that adds the gradients; None without it."""
    lowering: Sequence[ModulePass]
    """The passes from the level of the input to the queue level."""
    recorded: str = ""
    """The pipeline of the directory that the input is of, of which `lowering` is the rest."""

    @property
    def passes(self) -> Sequence[ModulePass]:
        """All passes: those of the directory that the input is of, or else those that are run."""
        if self.recorded:
            return passes_in(self.recorded)
        return self.lowering if self.backward is None else (self.backward, *self.lowering)

    @property
    def text(self) -> str:
        """`passes` in the syntax of `hpmoe-opt -p`."""
        return self.recorded or pipeline_text(self.passes)


def layer_input(ctx: Context, args: argparse.Namespace) -> LayerInput:
    """Reads the file of a command, or makes the graph of --preset. Raises InputError.

    A file that `hpmoe compile` has written into a directory, edited or not, comes with the graph
    and the pipeline of that directory.
    """
    module = graph_of(ctx, args)
    found = level_of(module)
    if found is None:
        raise InputError(
            f"expected IR of one of the levels {', '.join(LEVELS)}, found no operation of them",
            location_of(module) or str(args.graph),
        )
    level = found[0]
    path = Path(args.graph or "-")
    directory = path.parent
    if path.name not in (GRAPH_FILE, *LEVEL_FILES) or not (directory / MANIFEST_FILE).is_file():
        return LayerInput(module, level)
    described = read_manifest(directory)
    graph = None
    if level != "moe" and GRAPH_FILE in described.files:
        graph_path = directory / GRAPH_FILE
        data = graph_path.read_bytes() if graph_path.is_file() else b""
        if hashlib.sha256(data).hexdigest() == described.files[GRAPH_FILE]:
            graph = read_module(ctx, graph_path)
    return LayerInput(module, level, graph, described.pipeline, path.name == GRAPH_FILE)


def check_level(wanted: str, level: str) -> None:
    """Raises InputError for a --level above that of the input."""
    if wanted in LEVELS and LEVELS.index(wanted) < LEVELS.index(level):
        known = ", ".join(RUN_LEVELS[LEVELS.index(level) :])
        raise InputError(
            f"--level {wanted}: the input is at the {level} level, which can be run at {known}"
        )


CHOOSING = ("passes", "schedule", "machine", "links")
"""Options that choose passes."""


def pipeline_of(args: argparse.Namespace, source: LayerInput) -> Pipeline:
    """Returns the pipeline that the options describe for an input. Raises InputError.

    Without such options, a file of a compiled directory goes through the passes of that directory
    from its level downwards, another file through those of the default schedule.
    """
    _refuse_above(args, source)
    chosen = any(getattr(args, key) is not None for key in CHOOSING)
    recorded = "" if chosen else source.recorded
    if recorded:
        passes = _rest_of_directory(passes_in(recorded), source)
    elif args.passes is not None or source.level == "moe":
        passes = passes_of(args)
    else:
        passes = remaining_passes(passes_of(args), source.module)
    first = passes[0] if passes else None
    backward = first if isinstance(first, DeriveBackwardPass) else None
    lowering = passes if backward is None else passes[1:]
    if not lowering and source.level != "queue":
        raise InputError(
            f"--passes: expected lower-moe or the passes that it consists of, found '{args.passes}'"
        )
    recompute = recompute_of(args)
    if recompute and backward is not None:
        raise InputError("--recompute: derive-backward has this option already in --passes")
    if args.direction != "forward" and backward is None and not source.has_gradients:
        if source.level != "moe":
            raise InputError(
                f"--direction {args.direction}: the input has no backward program, and "
                f"derive-backward works at the moe level, not at the {source.level} level"
            )
        backward = DeriveBackwardPass(recompute=recompute)
        recorded = ""
    elif recompute and backward is None:
        raise InputError("--recompute: there is no backward direction, see --direction")
    return Pipeline(backward, lowering, recorded)


def _refuse_above(args: argparse.Namespace, source: LayerInput) -> None:
    """Raises InputError for options of passes that the input is below of."""
    level = source.level
    if args.schedule is not None and level in ("tile", "queue"):
        raise InputError(
            f"--schedule: it decides how tasks are cut, and the input is at the {level} level; "
            "give passes below that level by -p"
        )
    for key in ("machine", "links"):
        if getattr(args, key) is not None and level == "queue":
            raise InputError(
                f"--{key}: queues are made for a machine, which a queue.program names; edit it "
                "there"
            )
    if args.recompute and (level != "moe" or source.has_gradients):
        raise InputError(
            "--recompute: it is an option of derive-backward, and the input is "
            + ("differentiated already" if level == "moe" else f"at the {level} level")
        )


def _rest_of_directory(passes: Sequence[ModulePass], source: LayerInput) -> Sequence[ModulePass]:
    """Returns the passes that come after a file of a compiled directory.

    `LEVEL.mlir` is what the last pass of its level has left: only the checks of that level, which
    an edit calls for, and the passes from the one that leaves the level are to be run.
    """
    if source.is_graph_file and source.level == "moe":
        return passes
    whole = list(expanded(passes))
    above = LEVELS[: LEVELS.index(source.level)]
    begin = max((i for i, p in enumerate(whole) if level_left(p) in above), default=-1) + 1
    end = next((i for i, p in enumerate(whole) if level_left(p) == source.level), len(whole))
    return [*filter(is_check, whole[begin:end]), *whole[end:]]


def compile_input(
    ctx: Context,
    source: LayerInput,
    pipeline: Pipeline,
    progress: Progress,
    down_to: str = "code",
) -> Compiled:
    """Compiles an input by its pipeline, as `compile_module` does."""
    compiled = compile_module(
        ctx, source.module, pipeline.lowering, progress, down_to, pipeline.backward
    )
    compiled.pipeline = pipeline.text
    if compiled.graph is None:
        compiled.graph = source.graph
    return compiled
