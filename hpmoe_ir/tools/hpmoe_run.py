"""`hpmoe run`: a layer at any level on made-up values, compared with MindSpore."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import TypeVar

from hpmoe_ir.diagnostics import InputError, one_line
from hpmoe_ir.tools.layer_options import (
    DEFAULT_PASSES,
    add_pipeline_option,
    add_size_options,
    graph_of,
    pipeline_of,
    refuse_sizes,
    token_counts,
)

if TYPE_CHECKING:
    from hpmoe_ir.compiler import Compiled, CompiledKernel
    from hpmoe_ir.dtypes import Dtype
    from hpmoe_ir.graph_layer import GraphLayer
    from hpmoe_ir.interpreter.values import Array
    from hpmoe_ir.layer import LayerConfig
    from hpmoe_ir.oracle import Oracle
    from hpmoe_ir.run_levels import Values
    from hpmoe_ir.tolerance import Comparison
    from hpmoe_ir.tools.progress import Progress
    from hpmoe_ir.values import LayerValues

T = TypeVar("T")

RUN_LEVELS = ("moe", "comm", "tile", "queue", "code")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]
    """Adds the command to the parser of `hpmoe`."""
    parser = commands.add_parser(
        "run",
        help="run a layer on values, at any level, and check the result",
        description="Runs a compiled layer, a graph or a preset on seeded values, all ranks in one "
        "process: its generated code on the CPU model, or an upper level in NumPy.",
    )
    parser.add_argument(
        "graph", nargs="?", help="a graph, or a directory that hpmoe compile has written"
    )
    parser.add_argument("--preset", metavar="NAME", help="the layer of a published model")
    parser.add_argument(
        "--routing",
        default="uniform",
        metavar="balanced|uniform|zipf:S|one-expert|FILE.npz",
        help="which experts tokens go to",
    )
    parser.add_argument("--level", choices=RUN_LEVELS, default="code", help="level to run")
    parser.add_argument("--seed", type=int, default=0, help="of values, routing and order")
    parser.add_argument("--launches", type=int, default=1, metavar="N", help="launches in a row")
    parser.add_argument(
        "--interleavings", type=int, default=1, metavar="K", help="orders of the cores to try"
    )
    parser.add_argument("--check", action="store_true", help="compare with MindSpore")
    add_pipeline_option(parser)
    add_size_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command; the status is 0 only where everything asked for held."""
    from hpmoe_ir.tools.progress import Progress

    for name in ("launches", "interleavings"):
        if getattr(args, name) < 1:
            raise InputError(f"--{name}: expected at least 1, found {getattr(args, name)}")
    with Progress() as progress:
        return _Runner(args, progress).run()


@dataclass(frozen=True)
class _FirstWrongTask:
    """What it takes to find the task that made a result wrong."""

    kernel: CompiledKernel
    dtype: Dtype
    launches: Sequence[Sequence[Values]]
    executable: Path

    def find(self, launch: int, seed: int) -> str:
        """The first wrong task of a launch, empty if there is none."""
        from hpmoe_ir.run_levels import explain

        return explain(self.kernel, self.dtype, self.launches[: launch + 1], seed, self.executable)


class _Runner:
    def __init__(self, args: argparse.Namespace, progress: Progress) -> None:
        self.args = args
        self.progress = progress
        self.look: _FirstWrongTask | None = None
        self.reference = ""

    def run(self) -> int:
        from hpmoe_ir.directions import backward_values, forward_values
        from hpmoe_ir.graph_layer import graph_layer
        from hpmoe_ir.tools.summary import compiled_lines, layer_line

        args = self.args
        compiled = self._compiled()
        layer = graph_layer(compiled.graph)
        forward, *backward = compiled.functions
        if args.direction != "forward" and not backward:
            raise InputError(
                "there is no backward direction; compile the graph with --direction both"
            )
        launches = self._values(layer.config)
        self._say(layer_line(layer.config))
        self._say(self._routing_line(launches))
        for line in compiled_lines(compiled):
            self._say(line)
        values = [forward_values(v) for v in launches]
        results = self._run_function(compiled, forward, layer.config.dtype, values)
        if args.check and args.direction != "backward":
            self._check_forward(compiled, layer, launches, results)
        if args.direction == "forward":
            return 0
        given = [backward_values(v, r) for v, r in zip(launches, results, strict=True)]
        for by_rank in given:
            for by_name in by_rank:
                by_name.update(_accumulators(compiled, backward[0]))
        gradients = self._run_function(compiled, backward[0], layer.config.dtype, given)
        if args.check:
            self._check_backward(compiled, layer, launches, gradients)
        return 0

    def _say(self, line: str) -> None:
        self.progress.clear()
        print(line, flush=True)

    def _compiled(self) -> Compiled:
        from hpmoe_ir.compiler import compile_module, read_compiled
        from hpmoe_ir.source import make_context

        ctx = make_context()
        args = self.args
        if args.preset is None and args.graph is not None and Path(args.graph).is_dir():
            refuse_sizes(args, "the layer is compiled already")
            if args.passes != DEFAULT_PASSES or args.recompute:
                raise InputError("--passes, --recompute: the layer is compiled already")
            compiled, changed = read_compiled(ctx, Path(args.graph))
            for name in changed:
                print(f"note: {name} was changed since it was compiled", file=sys.stderr)
            return compiled
        pipeline = pipeline_of(args)
        return compile_module(
            ctx,
            graph_of(ctx, args),
            pipeline.lowering,
            self.progress,
            args.level,
            pipeline.backward,
        )

    def _values(self, config: LayerConfig) -> list[LayerValues]:
        from hpmoe_ir.routing import RoutingError, parse_routing, read_routing
        from hpmoe_ir.values import make_values

        args = self.args
        try:
            routing = parse_routing(args.routing)
            counts = token_counts(args)
            if routing.path is not None and counts is None:
                counts = [len(r.ids) for r in read_routing(routing.path, config, args.seed)]
            if counts is None:
                counts = [config.tokens]
            if len(counts) == 1:
                counts *= config.ranks
            numbers = range(1, args.launches + 1)
            return [make_values(config, counts, routing, args.seed, n) for n in numbers]
        except RoutingError as e:
            raise InputError(str(e)) from e

    def _routing_line(self, launches: Sequence[LayerValues]) -> str:
        from hpmoe_ir.routing import received_rows

        values = launches[0]
        rows = received_rows(values.config, [r.ids for r in values.routing])
        mean = sum(rows) / len(rows)
        skew = f", imbalance {max(rows) / mean:.2f}" if mean else ""
        tokens = ", ".join(str(t) for t in values.tokens)
        return (
            f"{'routing':<9} {self.args.routing}, seed {self.args.seed}: {tokens} tokens, "
            f"{min(rows)} to {max(rows)} rows a rank{skew}"
        )

    def _run_function(
        self,
        compiled: Compiled,
        function: str,
        dtype: Dtype,
        launches: Sequence[Sequence[Values]],
    ) -> list[list[dict[str, Array]]]:
        """The results of a function for each launch and rank, the same for all interleavings."""
        from xdsl.utils.exceptions import InterpretationError

        from hpmoe_ir.execution import build_program
        from hpmoe_ir.lowering.task_table import TableError, read_task_table
        from hpmoe_ir.run_levels import CapacityError, run_level
        from hpmoe_ir.runtime.cpu_build import CompileError, CompilerMissing
        from hpmoe_ir.runtime.cpu_model import DeviceFault

        args = self.args
        self.look = None
        executable = None
        try:
            if args.level == "code":
                kernel = compiled.kernels[function]
                read_task_table(kernel.table)
                self.progress(f"building @{function} for the CPU model")
                executable = build_program(kernel.program, kernel.source)
                self.look = _FirstWrongTask(kernel, dtype, launches, executable)
            first: list[list[dict[str, Array]]] | None = None
            for i in range(args.interleavings):
                seed = args.seed + i
                self.progress(f"@{function}: interleaving {i + 1} of {args.interleavings}")
                try:
                    found = run_level(args.level, compiled, function, launches, seed, executable)
                except (DeviceFault, InterpretationError) as e:
                    raise InputError(f"@{function}: interleaving with seed {seed}: {e}") from e
                if first is None:
                    first = found
                self._compare_bits(function, first, found, seed)
        except TableError as e:
            raise InputError(f"table of @{function}: {e}") from e
        except (CapacityError, CompilerMissing, CompileError) as e:
            raise InputError(str(e)) from e
        assert first is not None
        same = ", the same bits each time" if args.interleavings > 1 else ""
        self._say(
            f"{'run':<9} @{function} at the level {args.level}: {args.launches} launches, "
            f"{args.interleavings} interleavings{same}"
        )
        return first

    def _compare_bits(
        self,
        function: str,
        first: Sequence[Sequence[Values]],
        found: Sequence[Sequence[Values]],
        seed: int,
    ) -> None:
        for launch, (a, b) in enumerate(zip(first, found, strict=True)):
            for rank, (x, y) in enumerate(zip(a, b, strict=True)):
                other = [name for name in x if x[name].tobytes() != y[name].tobytes()]
                if other:
                    why = self._first_wrong_task(launch, seed)
                    why = why or self._first_wrong_task(launch, self.args.seed)
                    raise InputError(
                        f"@{function}: interleaving with seed {seed}: launch {launch + 1}: "
                        f"{other[0]} of rank {rank} has other bits than with seed "
                        f"{self.args.seed}{why}"
                    )

    def _first_wrong_task(self, launch: int, seed: int) -> str:
        """A further line for a message about a wrong result of the generated code."""
        if self.look is None:
            return ""
        self.progress("looking for the first wrong task")
        why = self.look.find(launch, seed)
        return f"\n  {why}" if why else ""

    def _check_forward(
        self,
        compiled: Compiled,
        layer: GraphLayer,
        launches: Sequence[LayerValues],
        results: Sequence[Sequence[Values]],
    ) -> None:
        from hpmoe_ir.directions import OUTPUT, forward_values
        from hpmoe_ir.run_levels import run_level
        from hpmoe_ir.tolerance import compare, tolerance

        self.progress("computing the reference")
        if layer.is_textbook:
            references = self._oracle(lambda oracle: [oracle.layer(v) for v in launches])
            name = self.reference
        else:
            name = self._own_reference()
            values = [forward_values(v) for v in launches]
            found = run_level("moe", compiled, compiled.functions[0], values)
            references = [[by_name[OUTPUT] for by_name in launch] for launch in found]
        comparisons = [
            compare([by_name[OUTPUT] for by_name in result], reference, tolerance(v))
            for v, reference, result in zip(launches, references, results, strict=True)
        ]
        self._report("check", comparisons, name)

    def _check_backward(
        self,
        compiled: Compiled,
        layer: GraphLayer,
        launches: Sequence[LayerValues],
        gradients: Sequence[Sequence[Values]],
    ) -> None:
        from hpmoe_ir.gradient_tolerance import compare_gradients, gradient_tolerance

        if not layer.is_textbook:
            raise InputError(
                "--check: the graph is not a plain expert layer, its gradients have no reference"
            )
        self.progress("computing the reference")
        references = self._oracle(lambda oracle: [oracle.gradients(v) for v in launches])
        comparisons = [
            compare_gradients(found, reference, gradient_tolerance(v))
            for v, reference, found in zip(launches, references, gradients, strict=True)
        ]
        self._report("gradients", comparisons, self.reference)

    def _oracle(self, compute: Callable[[Oracle], T]) -> T:
        """What MindSpore computes."""
        from hpmoe_ir.oracle import Oracle, OracleError

        try:
            with Oracle() as oracle:
                result = compute(oracle)
                self.reference = f"MindSpore {oracle.version}"
                return result
        except OracleError as e:
            raise InputError(one_line(str(e))) from e

    def _own_reference(self) -> str:
        print(
            "note: the graph is not a plain expert layer; the reference is its own run at the moe "
            "level in NumPy",
            file=sys.stderr,
        )
        return "NumPy at the moe level"

    def _report(self, what: str, comparisons: Sequence[Comparison], name: str) -> None:
        """Says how the launches compare, or raises InputError for the first that fails."""
        for launch, result in enumerate(comparisons):
            if not result.passed:
                why = self._first_wrong_task(launch, self.args.seed)
                raise InputError(
                    f"{what} failed: launch {launch + 1}: {result}, against {name}{why}"
                )
        worst = max(comparisons, key=lambda c: c.largest_ratio)
        self._say(f"{what:<9} passed against {name}: {worst}")


def _accumulators(compiled: Compiled, function: str) -> dict[str, Array]:
    """Accumulators of weight gradients, at 0, where the function has any."""
    import numpy as np
    from xdsl.dialects.func import FuncOp
    from xdsl.utils.hints import isa

    from hpmoe_ir.dialects.placement import AnyTensor

    found: dict[str, Array] = {}
    for op in compiled.modules["moe"].ops:
        if isinstance(op, FuncOp) and op.sym_name.data == function:
            for arg in op.args:
                if (arg.name_hint or "").endswith("_acc") and isa(arg.type, AnyTensor):
                    found[arg.name_hint or ""] = np.zeros(arg.type.get_shape(), np.float32)
    return found
