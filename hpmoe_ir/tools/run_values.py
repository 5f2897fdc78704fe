"""Random input values of `hpmoe run`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RoutingError, parse_routing, read_routing, received_rows
from hpmoe_ir.layer.values import LayerValues, kept_bytes, make_values
from hpmoe_ir.memory_limit import check_memory
from hpmoe_ir.tools.layer_options import token_counts

PYTHON_BYTES = 4096
"""About what the objects of one launch occupy, whatever the sizes of its arrays."""


def rank_tokens(args: argparse.Namespace, config: LayerConfig) -> list[int]:
    """Returns the tokens of each rank: from --tokens, the routing file, or the layer.

    Raises InputError for an invalid routing.
    """
    try:
        routing = parse_routing(args.routing)
        counts = token_counts(args)
        if routing.path is not None and counts is None:
            counts = [len(r.ids) for r in read_routing(routing.path, config, args.seed)]
    except RoutingError as e:
        raise InputError(str(e)) from e
    counts = counts or [config.tokens]
    return counts * config.ranks if len(counts) == 1 else counts


def values_of(args: argparse.Namespace, config: LayerConfig) -> list[LayerValues]:
    """Returns the values of each launch. Raises InputError if the routing doesn't fit."""
    counts = rank_tokens(args, config)
    needed = args.launches * max(kept_bytes(config, counts), PYTHON_BYTES)
    check_memory(needed, f"values of {args.launches} launches of the layer '{config.name}'")
    try:
        routing = parse_routing(args.routing)
        numbers = range(1, args.launches + 1)
        return [make_values(config, counts, routing, args.seed, n) for n in numbers]
    except RoutingError as e:
        raise InputError(str(e)) from e


def routing_line(args: argparse.Namespace, launches: Sequence[LayerValues]) -> str:
    """Returns the line of the report about the routing of the first launch."""
    values = launches[0]
    rows = received_rows(values.config, [r.ids for r in values.routing])
    mean = sum(rows) / len(rows)
    skew = f", imbalance {max(rows) / mean:.2f}" if mean else ""
    tokens = ", ".join(str(t) for t in values.tokens)
    return (
        f"{'routing':<9} {args.routing}, seed {args.seed}: {tokens} tokens, "
        f"{min(rows)} to {max(rows)} rows a rank{skew}"
    )
