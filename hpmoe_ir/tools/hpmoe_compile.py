"""`hpmoe compile`: writes each level's IR, the kernel, the task table and the host project."""

from __future__ import annotations

import argparse
from pathlib import Path

from hpmoe_ir.tools.layer_options import (
    add_pipeline_option,
    add_size_options,
)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]
    """Adds the command to the parser of `hpmoe`."""
    parser = commands.add_parser(
        "compile",
        help="lower a layer and write all levels, kernel, table, host project",
        description="Lowers a layer and writes every level's IR, the kernel, the task table, the "
        "host project and manifest.json into a directory. IR of any level is compiled from there "
        "downwards.",
    )
    parser.add_argument("graph", nargs="?", help="IR of any level; - is standard input")
    parser.add_argument("--preset", metavar="NAME", help="the layer of a published model")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="directory to write")
    add_pipeline_option(parser)
    add_size_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from hpmoe_ir.driver.compiled_files import write_compiled
    from hpmoe_ir.driver.source import make_context
    from hpmoe_ir.tools.layer_input import compile_input, layer_input, pipeline_of
    from hpmoe_ir.tools.progress import Progress
    from hpmoe_ir.tools.schedule_choice import choose_schedule
    from hpmoe_ir.tools.summary import compiled_lines, saved_lines

    ctx = make_context()
    source = layer_input(ctx, args)
    with Progress() as progress:
        lines = choose_schedule(args, ctx, source, progress)
        pipeline = pipeline_of(args, source)
        compiled = compile_input(ctx, source, pipeline, progress)
        progress("writing")
        write_compiled(compiled, Path(args.output))
    for line in [*lines, *compiled_lines(compiled)]:
        print(line)
    if pipeline.backward is not None:
        for line in saved_lines(compiled):
            print(line)
    print(f"{'written':<9} {args.output}")
    return 0
