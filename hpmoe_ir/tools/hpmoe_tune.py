"""`hpmoe tune`: searches options of the lowering on the timing model, with a time limit."""

from __future__ import annotations

import argparse
from pathlib import Path

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.tools.layer_options import (
    DIRECTIONS,
    add_links,
    add_schedule_routing,
    add_size_options,
    graph_of,
)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]
    """Adds the command to the parser of `hpmoe`."""
    parser = commands.add_parser(
        "tune",
        help="search for faster options of the lowering on the timing model",
        description="Begins with the candidates of --schedule auto and varies options of lower-moe "
        "on the timing model until the time limit. Writes the fastest pipeline, in the syntax of "
        "hpmoe-opt -p and hpmoe compile -p.",
    )
    parser.add_argument("graph", nargs="?", help="a graph, as hpmoe import writes it")
    parser.add_argument("--preset", metavar="NAME", help="the layer of a published model")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="file to write")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="time to search")
    parser.add_argument(
        "--trials", type=int, metavar="N", help="maximum number of pipelines to try"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the search")
    parser.add_argument(
        "--machine", metavar="NAME|FILE.toml", help="machine description, by default ascend-a3"
    )
    add_links(parser)
    parser.add_argument(
        "--direction", choices=DIRECTIONS, default="forward", help="forward, or with the gradients"
    )
    parser.add_argument(
        "--recompute", default="", metavar="swiglu,up,dispatch", help="as for hpmoe compile"
    )
    add_schedule_routing(parser)
    add_size_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from hpmoe_ir.driver.source import make_context
    from hpmoe_ir.driver.specs import pipeline_text
    from hpmoe_ir.output import check_writable, write_file
    from hpmoe_ir.schedule.auto import Candidate, candidate_lines
    from hpmoe_ir.schedule.tune import Budget, tune
    from hpmoe_ir.tools.progress import Progress
    from hpmoe_ir.tools.schedule_choice import layer_to_schedule

    if not args.seconds > 0:  # `not >` also rejects NaN
        raise InputError(f"--seconds: expected a positive number, found {args.seconds:g}")
    if args.trials is not None and args.trials < 1:
        raise InputError(f"--trials: expected at least 1, found {args.trials}")
    output = Path(args.output)
    check_writable([output])
    ctx = make_context()
    layer = layer_to_schedule(args, ctx, graph_of(ctx, args))
    print(f"{'seed':<9} {args.seed}", flush=True)
    with Progress() as progress:

        def say(candidate: Candidate) -> None:
            progress.clear()
            print(*candidate_lines([candidate]), sep="\n", flush=True)

        best, tried = tune(layer, Budget(args.seconds, args.trials), args.seed, say, progress)
    text = best.text if layer.backward is None else pipeline_text([layer.backward, *best.passes])
    write_file(output, f"{text}\n".encode())
    print(f"{'fastest':<9} {best.time_us:.0f} us of {tried} pipelines tried")
    print(f"{'written':<9} {output}")
    return 0
