"""The orders of the cores that a run tries, each named by a seed."""

from __future__ import annotations

import argparse
import random

from hpmoe_ir.diagnostics import InputError

SHOWN = 8
"""Maximum number of seeds that a line of the report shows."""

MOST_ORDERS = 1_000_000
"""Maximum number of orders of one run, so that their seeds fit into memory."""


def order_seeds(seed: int, count: int) -> list[int]:
    """Returns seeds of `count` orders: `seed`, then distinct numbers below 2**31 drawn from it.

    The seeds for a smaller count are a prefix of those for a larger one.
    """
    drawn = random.Random(f"orders of {seed}")
    seeds = {seed: None}
    while len(seeds) < count:
        seeds[drawn.getrandbits(31)] = None
    return list(seeds)


def orders_of(args: argparse.Namespace) -> list[int]:
    """Returns the seeds given by --order-seed, or by --seed and --interleavings.

    Raises InputError for an invalid list, and for several orders at a level with only one.
    """
    if not 1 <= args.interleavings <= MOST_ORDERS:
        raise InputError(
            f"--interleavings: expected 1 to {MOST_ORDERS}, found {args.interleavings}"
        )
    if args.order_seed is None:
        seeds = order_seeds(args.seed, args.interleavings)
    elif args.interleavings != 1:
        raise InputError("--interleavings: --order-seed names the orders already")
    else:
        try:
            seeds = [int(part) for part in args.order_seed.split(",")]
        except ValueError as e:
            raise InputError(
                f"--order-seed: expected seeds separated by commas, found '{args.order_seed}'"
            ) from e
    if min(seeds) < 0:
        raise InputError(f"--seed, --order-seed: expected 0 or more, found {min(seeds)}")
    if args.level in ("moe", "comm") and (len(seeds) > 1 or args.order_seed is not None):
        option = "--order-seed" if args.order_seed is not None else "--interleavings"
        raise InputError(
            f"{option}: the level {args.level} is run operation by operation, in one order; "
            "tile, queue and code have more"
        )
    return seeds


def late_ranks(args: argparse.Namespace) -> list[int]:
    """Parses --late. Raises InputError for an invalid value, or at another level than `code`."""
    if args.late is None:
        return []
    if args.level != "code":
        raise InputError(f"--late: only the level code has late ranks, not the level {args.level}")
    try:
        ranks = [int(part) for part in args.late.split(",")]
    except ValueError as e:
        raise InputError(f"--late: expected ranks separated by commas, found '{args.late}'") from e
    if min(ranks) < 0:
        raise InputError(f"--late: expected 0 or more, found {min(ranks)}")
    return ranks


def orders_line(seeds: list[int], seed: int) -> str:
    """Returns the line of the report that lists the orders."""
    shown = ", ".join(str(s) for s in seeds[:SHOWN])
    more = f" and {len(seeds) - SHOWN} more" if len(seeds) > SHOWN else ""
    return f"{'orders':<9} {len(seeds)} from --seed {seed}: {shown}{more}"
