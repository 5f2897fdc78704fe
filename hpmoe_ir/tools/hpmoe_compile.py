"""`hpmoe compile`: writes each level's IR, the kernel, the task table and the host project."""

from __future__ import annotations

import argparse
from pathlib import Path

from hpmoe_ir.tools.layer_options import (
    add_pipeline_option,
    add_size_options,
    choose_schedule,
    graph_of,
    pipeline_of,
)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]
    """Adds the command to the parser of `hpmoe`."""
    parser = commands.add_parser(
        "compile",
        help="lower a layer and write all levels, kernel, table, host project",
        description="Lowers a layer and writes every level's IR, the kernel, the task table, the "
        "host project and manifest.json into a directory.",
    )
    parser.add_argument("graph", nargs="?", help="a graph, as hpmoe import writes it")
    parser.add_argument("--preset", metavar="NAME", help="the layer of a published model")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="directory to write")
    add_pipeline_option(parser)
    add_size_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from hpmoe_ir.driver.compiler import compile_module, write_compiled
    from hpmoe_ir.driver.source import make_context
    from hpmoe_ir.tools.progress import Progress
    from hpmoe_ir.tools.summary import compiled_lines, saved_lines

    ctx = make_context()
    module = graph_of(ctx, args)
    with Progress() as progress:
        lines = choose_schedule(args, ctx, module, progress)
        pipeline = pipeline_of(args)
        compiled = compile_module(
            ctx, module, pipeline.lowering, progress, backward=pipeline.backward
        )
        progress("writing")
        write_compiled(compiled, Path(args.output))
    for line in [*lines, *compiled_lines(compiled)]:
        print(line)
    if pipeline.backward is not None:
        for line in saved_lines(compiled):
            print(line)
    print(f"{'written':<9} {args.output}")
    return 0
