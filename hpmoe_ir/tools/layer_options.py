"""Command-line options that select the layer, its sizes, its pipeline and its directions."""

from __future__ import annotations

import argparse
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import InputError, location_of
from hpmoe_ir.driver.source import read_module
from hpmoe_ir.driver.specs import passes_in
from hpmoe_ir.dtypes import DtypeError, check_dtype
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.config import LayerConfig, LayerError
from hpmoe_ir.machines.machine import (
    Machine,
    MachineError,
    Variant,
    load_machine,
    reference_of,
    split_reference,
)
from hpmoe_ir.options.machine import DEFAULT_MACHINE
from hpmoe_ir.passes.analysis.level import level_of
from hpmoe_ir.schedule.named import (
    AUTO_SCHEDULE,
    DEFAULT_SCHEDULE,
    SCHEDULE_NAMES,
    ScheduleError,
    find_schedule,
)

SIZES = ("ranks", "top_k", "capacity", "hidden", "width", "experts")


def add_size_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Adds options that override the layer's sizes; `several` allows a list of --ranks."""
    group = parser.add_argument_group("sizes, instead of the layer's own")
    group.add_argument(
        "--ranks",
        type=str if several else int,
        metavar="N[,N...]" if several else "N",
        help="expert-parallel ranks",
    )
    group.add_argument(
        "--tokens",
        metavar="N[,N...]",
        help="maximum tokens of a rank, or (hpmoe run, simulate) the tokens of each rank",
    )
    group.add_argument("--top-k", type=int, metavar="K", help="experts per token")
    group.add_argument("--hidden", type=int, metavar="H", help="elements of a token")
    group.add_argument("--width", type=int, metavar="I", help="width of an expert")
    group.add_argument("--experts", type=int, metavar="E", help="experts of all ranks")
    group.add_argument("--capacity", type=int, metavar="ROWS", help="maximum rows a rank receives")
    group.add_argument("--dtype", metavar="TYPE", help="bf16 or f16")


DIRECTIONS = ("forward", "backward", "both")


def add_pipeline_option(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Adds the options of the pipeline and directions; `several` allows a list of schedules."""
    parser.add_argument(
        "--schedule",
        metavar="NAME[,NAME...]" if several else "NAME",
        help=f"a named schedule: {', '.join(SCHEDULE_NAMES)}, or one of an "
        f"installed package; by default {AUTO_SCHEDULE}",
    )
    parser.add_argument(
        "--machine",
        metavar="NAME|FILE.toml",
        help=f"machine description to compile for; by default {DEFAULT_MACHINE}",
    )
    add_links(parser)
    parser.add_argument(
        "--allow-over-memory",
        action="store_true",
        help="compile also what needs more device memory than the machine has",
    )
    parser.add_argument(
        "-p",
        "--passes",
        metavar="'[derive-backward{...},]lower-moe{...}[,PASS...]'",
        help="the passes with their options, as hpmoe-opt takes them, instead of a schedule; also "
        "those of other packages",
    )
    parser.add_argument(
        "--direction",
        choices=DIRECTIONS,
        default="forward",
        help="forward, backward (the gradients) or both",
    )
    add_schedule_routing(parser)
    parser.add_argument(
        "--recompute",
        default="",
        metavar="swiglu,up,dispatch",
        help="values that the backward function recomputes instead of saving them",
    )


LINKS = ("nominal", "measured")


def add_links(parser: argparse.ArgumentParser) -> None:
    """Adds --links, which selects the link rates of the machine."""
    parser.add_argument(
        "--links",
        choices=LINKS,
        help="link rates of the machine: nominal, which no program exceeds, or as communication "
        "kernels were measured on the number of ranks; by default as --machine says, which is "
        "nominal for a name without :measured",
    )


def add_edited_code(parser: argparse.ArgumentParser) -> None:
    """Adds --edited-code, which accepts changed code in a compiled directory."""
    parser.add_argument(
        "--edited-code",
        action="store_true",
        help="use kernel sources and task tables of a compiled directory that were edited since; "
        "without it they are refused",
    )


def several(option: str, text: str) -> list[str]:
    """Returns the distinct names in a comma-separated list. Raises InputError for an empty name."""
    names = list(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(names):
        raise InputError(f"--{option}: expected names separated by commas, found '{text}'")
    return names


def add_schedule_routing(parser: argparse.ArgumentParser) -> None:
    """Adds --schedule-for, the routing for which a schedule is searched."""
    parser.add_argument(
        "--schedule-for",
        metavar="balanced|uniform|zipf:S|one-expert|FILE.npz",
        help="the one routing that auto or a search is for; by default several of uniform and zipf",
    )


def token_counts(args: argparse.Namespace) -> list[int] | None:
    """Parses --tokens, None if it is absent. Raises InputError for an invalid value."""
    if args.tokens is None:
        return None
    try:
        counts = [int(part) for part in args.tokens.split(",")]
    except ValueError as e:
        raise InputError(
            f"--tokens: expected numbers separated by commas, found '{args.tokens}'"
        ) from e
    if any(n < 0 for n in counts):
        raise InputError(f"--tokens: expected no negative number, found '{args.tokens}'")
    return counts


def resized(config: LayerConfig, args: argparse.Namespace) -> LayerConfig:
    """Returns the layer with the sizes in `args`. Raises InputError for inconsistent sizes."""
    counts = token_counts(args)
    sizes = {key: getattr(args, key) for key in SIZES if getattr(args, key) is not None}
    if counts is not None and (any(counts) or args.command not in ("run", "simulate")):
        # A launch without tokens says nothing about the most that a rank may have.
        sizes["tokens"] = max(counts)
    try:
        if args.dtype is not None:
            sizes["dtype"] = check_dtype(args.dtype)
        config = config.with_sizes(**sizes)
        config.check_lowerable()
    except (LayerError, DtypeError) as e:
        raise InputError(str(e)) from e
    return config


def layer_of(args: argparse.Namespace) -> LayerConfig:
    """Returns the layer of --preset. Raises InputError."""
    try:
        config = preset_layer(args.preset)
    except LayerError as e:
        raise InputError(str(e)) from e
    return resized(config, args)


def refuse_sizes(args: argparse.Namespace, why: str) -> None:
    """Raises InputError for size options without effect; run and simulate still accept --tokens."""
    runs = args.command in ("run", "simulate")
    unused = (*SIZES, "dtype") if runs else (*SIZES, "dtype", "tokens")
    for key in unused:
        if getattr(args, key) is not None:
            raise InputError(f"--{key.replace('_', '-')}: {why}")


def graph_of(ctx: Context, args: argparse.Namespace) -> ModuleOp:
    """Returns the module of --preset or of the file, which may be of any level.

    Raises InputError.
    """
    if (args.preset is None) == (args.graph is None):
        raise InputError("expected either a graph file or --preset NAME")
    if args.preset is not None:
        return layer_module(layer_of(args))
    refuse_sizes(args, "the sizes of a graph are in its types; use it with --preset")
    return read_module(ctx, Path(args.graph))


def require_graph(module: ModuleOp, what: str) -> None:
    """Raises InputError unless a module is at the `moe` level, which `what` begins with."""
    found = level_of(module)
    if found is None or found[0] != "moe":
        level = f"{found[1].name} of the {found[0]} level" if found else "no operation of moe"
        raise InputError(
            f"{what}: expected a graph at the moe level, found {level}",
            location_of(found[1]) if found else "",
        )


def refuse_pipeline(args: argparse.Namespace, why: str) -> None:
    """Raises InputError for pipeline options where the pipeline is fixed."""
    for key in ("schedule", "machine", "links", "passes", "recompute", "allow_over_memory"):
        if getattr(args, key):
            raise InputError(f"--{key.replace('_', '-')}: {why}")


def passes_of(args: argparse.Namespace) -> tuple[ModulePass, ...]:
    """Returns the passes of --schedule and --machine, or of --passes. Raises InputError."""
    if args.passes is not None:
        for key in ("schedule", "machine", "links"):
            if getattr(args, key) is not None:
                raise InputError(f"--{key}: it is among the options of --passes; give one of them")
        if args.allow_over_memory:
            raise InputError(
                "--allow-over-memory: with --passes, it is the option over-memory=true of "
                "plan-memory or lower-moe"
            )
        return passes_in(args.passes)
    try:
        schedule = find_schedule(args.schedule or DEFAULT_SCHEDULE)
    except ScheduleError as e:
        raise InputError(f"--schedule: {e}") from e
    return schedule.passes(machine_of(args), args.allow_over_memory)


def machine_of(args: argparse.Namespace, default: str = DEFAULT_MACHINE) -> Machine:
    """Loads the machine of --machine and --links. Raises InputError.

    `default` is the machine without --machine.
    """
    reference = default if args.machine is None else args.machine
    try:
        if args.links is not None:
            name, given = split_reference(reference)
            variants = {*given} - {Variant.MEASURED}
            if args.links == "measured":
                variants.add(Variant.MEASURED)
            reference = reference_of(name, variants)
        return load_machine(reference)
    except MachineError as e:
        option = "machine" if args.links is None else "links"
        raise InputError(f"--{option}: {e}") from e


def recompute_of(args: argparse.Namespace) -> tuple[str, ...]:
    """Returns the names of --recompute."""
    return tuple(name for name in args.recompute.split(",") if name)
