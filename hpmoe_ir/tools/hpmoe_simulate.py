"""`hpmoe simulate`: simulates the time of a layer's kernel and reports bounds and losses."""

from __future__ import annotations

import argparse

from hpmoe_ir.tools.layer_options import add_edited_code, add_pipeline_option, add_size_options


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]
    """Adds the command to the parser of `hpmoe`."""
    parser = commands.add_parser(
        "simulate",
        help="time a layer on a machine, with bounds and losses",
        description="Simulates the generated code of a compiled layer, a graph or a preset on a "
        "machine description, and reports its time, lower bounds and losses. Several schedules, "
        "ranks and routings make a table.",
    )
    parser.add_argument(
        "graph",
        nargs="?",
        help="IR of any level, - for standard input, or a directory that hpmoe compile has written",
    )
    parser.add_argument("--preset", metavar="NAME", help="the layer of a published model")
    parser.add_argument(
        "--routing",
        default="balanced",
        metavar="balanced|uniform|zipf:S|imbalance:X|one-expert|FILE.npz[,...]",
        help="routing of tokens to experts",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the routing and noise")
    parser.add_argument(
        "--all-ranks",
        action="store_true",
        help="simulate all ranks even under balanced routing, instead of one mirrored rank",
    )
    parser.add_argument(
        "--task-noise",
        type=float,
        default=0,
        metavar="PART",
        help="multiply the time of each task of each rank by a number drawn from 1 - PART to "
        "1 + PART, by --seed; all ranks are simulated",
    )
    parser.add_argument(
        "--no-serial",
        action="store_true",
        help="omit the schedule serial and the speed-up over it",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write results as JSON, an object for each configuration"
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="write a trace of one configuration for the Chrome and Perfetto viewers",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="write an HTML page with the timeline of a rank's cores, of one configuration",
    )
    parser.add_argument(
        "--op-summary",
        metavar="FILE.csv",
        help="write the operators of rank 0 of one configuration as msprof exports them",
    )
    add_edited_code(parser)
    add_pipeline_option(parser, several=True)
    add_size_options(parser, several=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from pathlib import Path

    from hpmoe_ir.calibration.op_summary import op_summary_file
    from hpmoe_ir.diagnostics import InputError
    from hpmoe_ir.output import check_writable, write_together
    from hpmoe_ir.timing.lane_page import lane_page
    from hpmoe_ir.timing.profile_rows import profile_rows
    from hpmoe_ir.timing.simulation import json_file
    from hpmoe_ir.timing.trace_file import trace_file
    from hpmoe_ir.tools.progress import Progress
    from hpmoe_ir.tools.simulate_run import SimulateRun
    from hpmoe_ir.tools.simulate_table import result_lines

    outputs = [
        Path(name)
        for name in (args.json, args.trace, args.html, args.op_summary)
        if name is not None
    ]
    check_writable(outputs)
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise InputError("--json, --trace, --html, --op-summary: expected different files")
    with Progress() as progress:
        simulate_run = SimulateRun(args, progress)
        for option in ("trace", "html", "op_summary"):
            if getattr(args, option) is not None and simulate_run.configurations > 1:
                name = option.replace("_", "-")
                raise InputError(
                    f"--{name}: expected one configuration, found {simulate_run.configurations}; "
                    "give one schedule, routing, direction and number of ranks"
                )
        simulations = simulate_run.run()
        progress.prefix = ""
        progress("writing")
        files: dict[Path, bytes] = {}
        if args.json is not None:
            files[Path(args.json)] = json_file(simulations)
        if args.trace is not None:
            files[Path(args.trace)] = trace_file(simulations[0])
        if args.html is not None:
            files[Path(args.html)] = lane_page(simulations[0])
        if args.op_summary is not None:
            rows = profile_rows(simulations[0].timeline, simulations[0].stages)
            files[Path(args.op_summary)] = op_summary_file(rows)
        lines = [*simulate_run.lines, "", *result_lines(simulations)]
        write_together(files)
    for line in lines:
        print(line)
    return 0
