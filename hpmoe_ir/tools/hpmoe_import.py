"""`hpmoe import`: writes a layer of a preset, a configuration file or MindSpore as a graph."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.dtypes import DtypeError, check_dtype
from hpmoe_ir.layer.config import LayerConfig, LayerError
from hpmoe_ir.tools.layer_options import add_size_options, layer_of, several, token_counts
from hpmoe_ir.tools.progress import Progress


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
        help="a MindSpore Cell, whose file is executed with your rights, or an exported graph, "
        "which is only read",
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="graph to write")
    group = parser.add_argument_group("what a configuration file doesn't say itself (--config)")
    group.add_argument(
        "--family",
        metavar="NAME",
        help="the known family whose experts the model has, instead of its model_type",
    )
    group.add_argument(
        "--outside",
        action="append",
        metavar="FIELD[,FIELD...]",
        help="unknown fields that don't concern the experts",
    )
    group.add_argument(
        "--layer", type=int, metavar="N", help="layer to read from lists with a value for each"
    )
    add_size_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from hpmoe_ir.driver.compiler import module_text
    from hpmoe_ir.frontends.build_layer import layer_module
    from hpmoe_ir.frontends.graph_layer import graph_layer
    from hpmoe_ir.output import write_file
    from hpmoe_ir.tools.summary import layer_line

    if args.mindspore is not None:
        config = _mindspore_config(args)
    elif args.config is not None:
        config = _file_config(args)
    else:
        _refuse_file_options(args)
        config = layer_of(args)
    if args.mindspore is None:
        for note in config.notes:
            print(f"note: outside the expert part: {note}", file=sys.stderr)
    module = layer_module(config)
    write_file(Path(args.output), module_text(module).encode())
    print(layer_line(graph_layer(module).config))
    if config.source:
        print(f"{'source':<9} {config.source}")
    print(f"{'written':<9} {args.output}")
    return 0


def _file_config(args: argparse.Namespace) -> LayerConfig:
    """Reads the layer of a configuration file. Raises InputError."""
    from hpmoe_ir.frontends.config_file import config_layer
    from hpmoe_ir.frontends.config_model import ConfigOptions

    counts = token_counts(args)
    try:
        config = config_layer(
            Path(args.config),
            ConfigOptions(
                family=args.family,
                outside=tuple(several("outside", ",".join(args.outside))) if args.outside else (),
                layer=args.layer,
                hidden=args.hidden,
                width=args.width,
                experts=args.experts,
                top_k=args.top_k,
                ranks=args.ranks,
                tokens=None if counts is None else max(counts),
                capacity=args.capacity,
                dtype=None if args.dtype is None else check_dtype(args.dtype),
            ),
        )
        config.check_lowerable()
    except (LayerError, DtypeError) as e:
        raise InputError(str(e)) from e
    return config


def _refuse_file_options(args: argparse.Namespace) -> None:
    """Raises InputError for options of --config without it."""
    for option in ("family", "outside", "layer"):
        if getattr(args, option) is not None:
            raise InputError(f"--{option}: expected --config FILE, whose fields it is about")


def _mindspore_config(args: argparse.Namespace) -> LayerConfig:
    """Imports a MindSpore Cell or file; prints which parts were imported and which were not."""
    from hpmoe_ir.frontends.mindspore_export import mindspore_layer

    _refuse_file_options(args)
    for size in ("top_k", "hidden", "width", "experts"):
        if getattr(args, size) is not None:
            flag = size.replace("_", "-")
            raise InputError(f"--{flag}: the graph says what it is, it can't be given")
    counts = token_counts(args)
    try:
        dtype = None if args.dtype is None else check_dtype(args.dtype)
        with Progress() as progress:
            progress("MindSpore is compiling the graph")
            layer = mindspore_layer(
                args.mindspore,
                ranks=args.ranks,
                tokens=None if counts is None else max(counts),
                capacity=args.capacity,
                dtype=dtype,
            )
    except (LayerError, DtypeError) as e:
        raise InputError(str(e)) from e
    print(layer.report(), file=sys.stderr)
    try:
        layer.config.check_lowerable()
    except LayerError as e:
        print(f"note: the levels below moe will refuse it: {e}", file=sys.stderr)
    return layer.config
