"""The choice of a schedule for a command's input."""

from __future__ import annotations

import argparse

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.driver.compiler import Progress
from hpmoe_ir.driver.specs import pipeline_text
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.schedule.auto import NoCandidateError
from hpmoe_ir.schedule.candidates import Layer
from hpmoe_ir.schedule.chosen import chosen_schedule
from hpmoe_ir.schedule.conditions import USUAL, conditions_for
from hpmoe_ir.schedule.named import AUTO_SCHEDULE, DEFAULT_SCHEDULE
from hpmoe_ir.tools.layer_input import LayerInput
from hpmoe_ir.tools.layer_options import machine_of, recompute_of, require_graph


def choose_schedule(
    args: argparse.Namespace, ctx: Context, source: LayerInput, progress: Progress
) -> list[str]:
    """Replaces the schedule `auto` in `args` by the selected passes; returns lines for a report.

    `auto` is the default for a graph that does not come with its passes; other inputs and schedules
    are left as they are. If the default can't choose, the line says so and which schedule is taken
    instead. Raises InputError if `auto` was asked for and can't choose.
    """
    by_default = args.schedule is None and source.level == "moe"
    if args.passes is not None or not (by_default or args.schedule == AUTO_SCHEDULE):
        return []
    if by_default and source.recorded and args.machine is None and args.links is None:
        return []
    require_graph(source.module, "--schedule auto")
    layer = layer_to_schedule(args, ctx, source.module)
    try:
        chosen = chosen_schedule(layer, progress)
    except InputError as e:
        if not by_default:
            raise
        if isinstance(e, NoCandidateError) and e.refused_by_passes:
            return []  # They refuse that schedule, too, and say why.
        return [f"{'schedule':<9} {DEFAULT_SCHEDULE}, since auto can't choose: {e.message}"]
    args.schedule = args.machine = args.links = None
    args.allow_over_memory = False
    args.passes = chosen.pipeline
    if layer.backward is not None:
        args.recompute = ""
        args.passes = f"{pipeline_text([layer.backward])},{chosen.pipeline}"
    routing = args.schedule_for or "any routing"
    return [f"{'schedule':<9} auto, for {routing}: {chosen.pipeline}", *chosen.lines]


def layer_to_schedule(args: argparse.Namespace, ctx: Context, graph: ModuleOp) -> Layer:
    """Returns the input of a schedule search, from the options. Raises InputError."""
    require_graph(graph, "a schedule search")
    backward = None
    if args.direction != "forward":
        backward = DeriveBackwardPass(recompute=recompute_of(args))
    elif args.recompute:
        raise InputError("--recompute: there is no backward direction, see --direction")
    machine = machine_of(args)
    conditions = conditions_for(args.schedule_for) if args.schedule_for else USUAL
    over_memory: bool = getattr(args, "allow_over_memory", False)
    return Layer(ctx, graph, backward, machine, conditions, over_memory)
