"""A run of a layer on random values, in one or more orders of the cores, with checks."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.driver.compiled_files import read_compiled
from hpmoe_ir.driver.compiler import Compiled, CompiledKernel, PassError
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.frontends.graph_layer import GraphLayer
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.layer.values import LayerValues
from hpmoe_ir.lowering.task_table import TableError, read_task_table
from hpmoe_ir.run.check_graph import check_graph
from hpmoe_ir.run.directions import (
    backward_arguments,
    forward_arguments,
)
from hpmoe_ir.run.execution import build_program
from hpmoe_ir.run.levels import CapacityError, StatusError, Values, explain, run_level
from hpmoe_ir.run.module_layer import module_layer
from hpmoe_ir.run.signature import Signature, backward_of, forward_signature, signatures
from hpmoe_ir.runtime.cpu_build import CompileError, CompilerMissing
from hpmoe_ir.runtime.cpu_model import MemoryModel
from hpmoe_ir.runtime.device_fault import DeviceFault
from hpmoe_ir.tools.layer_check import Check, LayerCheck
from hpmoe_ir.tools.layer_input import check_level, compile_input, layer_input, pipeline_of
from hpmoe_ir.tools.layer_options import refuse_pipeline, refuse_sizes
from hpmoe_ir.tools.progress import Progress
from hpmoe_ir.tools.reference import Reference
from hpmoe_ir.tools.run_failure import RunFailure
from hpmoe_ir.tools.run_orders import late_ranks, orders_line, orders_of
from hpmoe_ir.tools.run_values import routing_line, values_of
from hpmoe_ir.tools.schedule_choice import choose_schedule
from hpmoe_ir.tools.summary import compiled_lines, layer_line

Say = Callable[[str], None]
"""Callback that prints a line of the report."""


@dataclass(frozen=True)
class _FirstWrongTask:
    """Inputs of the search for the first task with wrong writes."""

    kernel: CompiledKernel
    dtype: Dtype
    launches: Sequence[Sequence[Values]]
    executable: Path
    late: Sequence[int]
    memory: MemoryModel

    def find(self, launch: int, seed: int) -> str:
        """Describes the first wrong task of a launch; "" if there is none."""
        launches = self.launches[: launch + 1]
        return explain(
            self.kernel, self.dtype, launches, seed, self.executable, self.late, self.memory
        )


class LayerRun:
    """One run, as described by the options of `hpmoe run`."""

    def __init__(
        self, args: argparse.Namespace, reference: Reference, progress: Progress, say: Say
    ) -> None:
        self.args = args
        self.reference = reference
        self.progress = progress
        self.say = say
        self.orders = orders_of(args)
        self.late = late_ranks(args)
        self.launches: list[LayerValues] = []
        self.look: _FirstWrongTask | None = None
        self.judged = True
        """Whether every result that was to be checked has been judged."""

    def run(self) -> None:
        """Compiles the layer if necessary, runs it in all orders and performs the checks.

        Raises RunFailure for the first failure, InputError if the layer can't be run.
        """
        args = self.args
        try:
            compiled = self._compiled()
        except PassError as e:
            raise RunFailure(f"refused by {e.pass_name}", e.message, location=e.location) from e
        layer = self._layer(compiled)
        if wrong := [rank for rank in self.late if rank >= layer.config.ranks]:
            raise InputError(
                f"--late: expected ranks 0 to {layer.config.ranks - 1}, found {wrong[0]}"
            )
        if args.check and layer.is_textbook:
            self.reference.check_installed()
        known = signatures(compiled.modules[compiled.level])
        forward = forward_signature(known)
        backward = backward_of(known, forward.name)
        if args.direction != "forward" and backward is None:
            raise InputError(
                "there is no backward direction; compile the graph with --direction both"
            )
        graph = check_graph(compiled, layer, backward) if args.check else None
        launches = self.launches or values_of(args, layer.config)
        self.say(layer_line(layer.config))
        self.say(routing_line(args, launches))
        if len(self.orders) > 1 and args.order_seed is None:
            self.say(orders_line(self.orders, args.seed))
        for line in compiled_lines(compiled):
            self.say(line)
        values = [forward_arguments(forward, v) for v in launches]
        results = self._run_function(compiled, forward, layer.config.dtype, values)
        check: LayerCheck | None = None
        if graph is not None:
            check = LayerCheck(graph, layer.is_textbook, self.reference, args.seed)
        if graph is not None and check is not None and args.direction != "backward":
            self.progress("computing the reference")
            ordered = [[graph.in_order(forward, forward, rank) for rank in n] for n in results]
            self._report("check", check.output(launches, ordered), forward)
        if args.direction == "forward" or backward is None:
            return
        given = [
            backward_arguments(backward, forward, v, r)
            for v, r in zip(launches, results, strict=True)
        ]
        found = self._run_function(compiled, backward, layer.config.dtype, given)
        if graph is not None and check is not None:
            self.progress("computing the reference")
            ordered = [[graph.in_order(backward, forward, rank) for rank in n] for n in found]
            self._report("gradients", check.gradients(launches, ordered), backward)

    def _compiled(self) -> Compiled:
        ctx = make_context()
        args = self.args
        if args.preset is None and args.graph is not None and os.path.isdir(args.graph):
            refuse_sizes(args, "the layer is compiled already")
            refuse_pipeline(args, "the layer is compiled already")
            compiled, edited = read_compiled(ctx, Path(args.graph), args.edited_code)
            check_level(args.level, compiled.level)
            for name in edited:
                self.progress.note(f"{name} was edited since it was compiled")
            return compiled
        if args.edited_code:
            raise InputError("--edited-code: expected the directory of a compiled layer")
        source = layer_input(ctx, args)
        check_level(args.level, source.level)
        if args.level not in ("moe", "comm"):  # which a schedule does not change
            if source.level == "moe":
                # What can't be run or checked is refused before candidates are timed.
                layer = module_layer(source.module)
                self.launches = values_of(args, layer.config)
                if args.check and layer.is_textbook:
                    self.reference.check_installed()
            for line in choose_schedule(args, ctx, source, self.progress)[:1]:
                self.say(line)
        pipeline = pipeline_of(args, source)
        return compile_input(ctx, source, pipeline, self.progress, args.level)

    def _layer(self, compiled: Compiled) -> GraphLayer:
        """Returns the layer of the graph or, without one, of the programs.

        Raises InputError if the programs have other sizes than their graph.
        """
        if compiled.level == "moe":
            assert compiled.graph is not None
            return module_layer(compiled.graph)
        layer = module_layer(compiled.modules[compiled.level])
        if compiled.graph is None or not self.args.check:
            return layer
        graph = module_layer(compiled.graph)
        found = replace(layer.config, name=graph.config.name, source=graph.config.source)
        if found != graph.config:
            raise InputError(
                "--check: expected programs of the sizes of their graph, "
                f"{graph.config.summary()}; found {layer.config.summary()}"
            )
        return graph

    def _run_function(
        self,
        compiled: Compiled,
        signature: Signature,
        dtype: Dtype,
        launches: Sequence[Sequence[Values]],
    ) -> list[list[list[Array]]]:
        """Runs a function in all orders; returns the results for each launch and rank.

        Raises RunFailure if results differ between orders.
        """
        args, function = self.args, signature.name
        executable = self._build(compiled, signature, dtype, launches)
        first: list[list[list[Array]]] | None = None
        for i, seed in enumerate(self.orders, start=1):
            self.progress(f"@{function}: order {i} of {len(self.orders)}, seed {seed}")
            try:
                found = run_level(
                    args.level,
                    compiled,
                    function,
                    launches,
                    seed,
                    executable,
                    self.late,
                    args.memory,
                )
            except CapacityError as e:
                raise InputError(str(e)) from e
            except (DeviceFault, InterpretationError, StatusError) as e:
                message = f"@{function}: order with seed {seed}: {e}"
                raise RunFailure(
                    _kind(e), message, direction=signature.direction, orders=[seed]
                ) from e
            if first is None:
                first = found
            self._compare_bits(signature, first, found, seed)
        assert first is not None
        same = ", the same bits in each" if len(self.orders) > 1 else ""
        self.say(
            f"{'run':<9} @{function} at the level {args.level}: {args.launches} launches, "
            f"{len(self.orders)} orders{same}"
        )
        return first

    def _build(
        self,
        compiled: Compiled,
        signature: Signature,
        dtype: Dtype,
        launches: Sequence[Sequence[Values]],
    ) -> Path | None:
        """Builds the executable for the level `code`; returns None for other levels."""
        function = signature.name
        self.look = None
        if self.args.level != "code":
            return None
        kernel = compiled.kernels[function]
        try:
            read_task_table(kernel.table)
            self.progress(f"building @{function} for the CPU model")
            executable = build_program(kernel.program, kernel.source)
        except TableError as e:
            raise InputError(f"table of @{function}: {e}") from e
        except CompilerMissing as e:
            raise InputError(str(e)) from e
        except CompileError as e:
            raise RunFailure("compiler", str(e), direction=signature.direction) from e
        self.look = _FirstWrongTask(
            kernel, dtype, launches, executable, self.late, self.args.memory
        )
        return executable

    def _compare_bits(
        self,
        signature: Signature,
        first: Sequence[Sequence[Values]],
        found: Sequence[Sequence[Values]],
        seed: int,
    ) -> None:
        for launch, (a, b) in enumerate(zip(first, found, strict=True)):
            for rank, (x, y) in enumerate(zip(a, b, strict=True)):
                pairs = enumerate(zip(x, y, strict=True))
                other = [i for i, (one, two) in pairs if one.tobytes() != two.tobytes()]
                if other:
                    why = self._first_wrong_task(launch, seed)
                    why = why or self._first_wrong_task(launch, self.orders[0])
                    raise RunFailure(
                        "bits",
                        f"@{signature.name}: order with seed {seed}: launch {launch + 1}: "
                        f"{signature.describe_result(other[0])} of rank {rank} has other bits than "
                        f"with seed {self.orders[0]}{why}",
                        direction=signature.direction,
                        orders=[self.orders[0], seed],
                    )

    def _first_wrong_task(self, launch: int, seed: int) -> str:
        """Returns another line for the error message, which names the first wrong task."""
        if self.look is None:
            return ""
        self.progress("looking for the first wrong task")
        why = self.look.find(launch, seed)
        return f"\n  {why}" if why else ""

    def _report(self, what: str, check: Check, signature: Signature) -> None:
        """Prints what a check has found. Raises RunFailure if a result is wrong."""
        seed = self.orders[0]
        if check.wrong_gradient:
            raise RunFailure(
                what, f"{what} failed: {check.wrong_gradient}", direction=signature.direction
            )
        if (wrong := check.failure) is not None:
            why = self._first_wrong_task(wrong.launch - 1, seed)
            raise RunFailure(
                what,
                f"{what} failed: launch {wrong.launch}: {wrong.comparison}, against "
                f"{check.reference}{why}",
                direction=signature.direction,
                orders=[seed],
            )
        worst = check.worst
        if (unknown := check.not_judged) is not None:
            self.judged = False
            seen = f"; largest error {worst.largest_error:.3g}" if worst is not None else ""
            self.say(
                f"{what:<9} compared, not judged: launch {unknown.launch}: {unknown.reason}{seen}, "
                f"against {check.reference}"
            )
            return
        if worst is None or not worst.elements:
            self.say(f"{what:<9} passed: there are no values to compare")
            return
        self.say(f"{what:<9} passed against {check.reference}: {worst}")


def _kind(error: Exception) -> str:
    match error:
        case DeviceFault():
            return error.kind
        case StatusError():
            return "status"
        case _:
            return "deadlock" if str(error).startswith("deadlock") else "interpreter"
