"""`hpmoe import`: a layer of a preset, a configuration or MindSpore as a graph."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.tools.layer_options import add_size_options, layer_of


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]
    """Adds the command to the parser of `hpmoe`."""
    parser = commands.add_parser(
        "import",
        help="write the graph of a layer",
        description="Writes the expert part of a layer as a graph at the moe level.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--preset", metavar="NAME", help="the layer of a published model")
    source.add_argument(
        "--config", metavar="FILE", help="a Hugging Face config.json or a MindFormers YAML"
    )
    source.add_argument(
        "--mindspore",
        metavar="FILE.py:CLASS|FILE.mindir",
        help="a MindSpore Cell, or an exported graph",
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="graph to write")
    add_size_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from hpmoe_ir.compiler import module_text
    from hpmoe_ir.frontends.build_layer import layer_module
    from hpmoe_ir.graph_layer import graph_layer
    from hpmoe_ir.tools.summary import layer_line

    if args.mindspore is not None:
        raise InputError("--mindspore is being connected")
    config = layer_of(args)
    module = layer_module(config)
    for note in config.notes:
        print(f"note: outside the expert part: {note}", file=sys.stderr)
    try:
        Path(args.output).write_text(module_text(module))
    except OSError as e:
        raise InputError(f"can't write the file: {e.strerror}", args.output) from e
    print(layer_line(graph_layer(module).config))
    print(f"{'written':<9} {args.output}")
    return 0
