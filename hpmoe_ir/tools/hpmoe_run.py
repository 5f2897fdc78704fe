"""`hpmoe run`: runs a layer at any level on random values and compares it with MindSpore."""

from __future__ import annotations

import argparse
from functools import partial

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.passes.analysis.level import RUN_LEVELS
from hpmoe_ir.tools.layer_options import (
    add_edited_code,
    add_pipeline_option,
    add_size_options,
)

SHRINK_RUNS = 200
"""Default of --shrink-runs."""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]
    """Adds the command to the parser of `hpmoe`."""
    parser = commands.add_parser(
        "run",
        help="run a layer on values, at any level, and check the result",
        description="Runs a compiled layer, a graph or a preset on seeded values, all ranks in one "
        "process: its generated code on the CPU model, or an upper level in NumPy.",
    )
    parser.add_argument(
        "graph",
        nargs="?",
        help="IR of any level, - for standard input, or a directory that hpmoe compile has written",
    )
    parser.add_argument("--preset", metavar="NAME", help="the layer of a published model")
    parser.add_argument(
        "--routing",
        default="uniform",
        metavar="balanced|uniform|zipf:S|imbalance:X|one-expert|FILE.npz",
        help="routing of tokens to experts",
    )
    parser.add_argument("--level", choices=RUN_LEVELS, default="code", help="level to run")
    parser.add_argument("--seed", type=int, default=0, help="seed of values, routing and orders")
    parser.add_argument("--launches", type=int, default=1, metavar="N", help="consecutive launches")
    parser.add_argument(
        "--interleavings",
        type=int,
        default=1,
        metavar="K",
        help="orders of the cores to try, with seeds drawn from --seed",
    )
    parser.add_argument(
        "--order-seed",
        metavar="N[,N...]",
        help="try these orders instead; values and routing stay those of --seed",
    )
    parser.add_argument(
        "--late",
        metavar="RANK[,RANK...]",
        help="ranks that run only while no other rank can, at the level code",
    )
    parser.add_argument(
        "--memory",
        choices=("strong", "weak", "early"),
        default="weak",
        help="when writes of the generated code are visible: at once; or (default) late and out of "
        "order until a barrier; or so, and lines enter data caches early",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="judge the results, by bounds derived from the graph, against MindSpore or, if the "
        "graph is not a plain expert layer, against the graph in float64; exit status 3 if they "
        "can only be compared",
    )
    parser.add_argument(
        "--shrink",
        action="store_true",
        help="if the run fails, search for a smaller run with the same failure",
    )
    parser.add_argument(
        "--shrink-runs",
        type=int,
        default=SHRINK_RUNS,
        metavar="N",
        help="maximum number of runs of --shrink",
    )
    add_edited_code(parser)
    add_pipeline_option(parser)
    add_size_options(parser)
    parser.set_defaults(run=partial(run, parser))


def run(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    """Runs the command; returns status 0 only if the run and all requested checks succeed.

    Returns `NOT_JUDGED` if nothing has failed but a result could not be judged.
    """
    from hpmoe_ir.tools.command_line import changed, command_line
    from hpmoe_ir.tools.layer_check import NOT_JUDGED
    from hpmoe_ir.tools.layer_run import LayerRun
    from hpmoe_ir.tools.progress import Progress
    from hpmoe_ir.tools.reference import Reference
    from hpmoe_ir.tools.run_failure import RunFailure
    from hpmoe_ir.tools.shrink_run import ShrinkRun

    for name in ("launches", "shrink_runs"):
        if getattr(args, name) < 1:
            option = name.replace("_", "-")
            raise InputError(f"--{option}: expected at least 1, found {getattr(args, name)}")

    def command(options: argparse.Namespace) -> str:
        return command_line(
            parser._actions, changed(options, shrink=False, shrink_runs=SHRINK_RUNS)
        )

    with Progress() as progress, Reference() as reference:

        def say(line: str) -> None:
            progress.clear()
            print(line, flush=True)

        if args.shrink:
            return ShrinkRun(args, command, reference, progress, say).run()
        layer_run = LayerRun(args, reference, progress, say)
        try:
            layer_run.run()
        except RunFailure as failure:
            if len(layer_run.orders) == 1 or not failure.orders:
                raise
            seeds = ",".join(str(seed) for seed in failure.orders)
            alone = changed(args, interleavings=1, order_seed=seeds)
            raise failure.with_more(f"run it alone: {command(alone)}") from failure
    return 0 if layer_run.judged else NOT_JUDGED
