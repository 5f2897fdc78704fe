"""`hpmoe simulate`: how long a layer's kernel takes on a machine, its bounds and its losses."""

from __future__ import annotations

import argparse

from hpmoe_ir.tools.layer_options import add_pipeline_option, add_size_options


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]
    """Adds the command to the parser of `hpmoe`."""
    parser = commands.add_parser(
        "simulate",
        help="time a layer on a machine, with bounds and losses",
        description="Times the generated code of a compiled layer, a graph or a preset on a "
        "machine that is described but not there, and says what it could be at best and where the "
        "rest went. Several schedules, ranks and routings make a table.",
    )
    parser.add_argument(
        "graph", nargs="?", help="a graph, or a directory that hpmoe compile has written"
    )
    parser.add_argument("--preset", metavar="NAME", help="the layer of a published model")
    parser.add_argument(
        "--routing",
        default="balanced",
        metavar="balanced|uniform|zipf:S|one-expert|FILE.npz[,...]",
        help="which experts tokens go to",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the routing")
    parser.add_argument(
        "--all-ranks",
        action="store_true",
        help="simulate all ranks also where one can stand for all, under a balanced routing",
    )
    parser.add_argument(
        "--no-serial",
        action="store_true",
        help="leave out the schedule serial, and the speed-up over it",
    )
    parser.add_argument("--json", metavar="FILE", help="write an object for each configuration")
    add_pipeline_option(parser, several=True)
    add_size_options(parser, several=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from pathlib import Path

    from hpmoe_ir.output import write_file
    from hpmoe_ir.simulation import json_file
    from hpmoe_ir.tools.progress import Progress
    from hpmoe_ir.tools.simulate_run import SimulateRun
    from hpmoe_ir.tools.simulate_table import result_lines

    with Progress() as progress:
        simulate_run = SimulateRun(args, progress)
        simulations = simulate_run.run()
        progress.prefix = ""
        if args.json is not None:
            progress(f"writing {args.json}")
            write_file(Path(args.json), json_file(simulations))
    for line in (*simulate_run.lines, "", *result_lines(simulations)):
        print(line)
    return 0
