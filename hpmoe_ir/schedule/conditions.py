"""Conditions of timed runs: the routing, its seed, and the machine's uncertain numbers.

A schedule is chosen before the routing of a step is known, and for a machine of which some numbers
are known as ranges only. It is therefore timed under several conditions.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import IdArray, RoutingError, generate_routing, parse_routing
from hpmoe_ir.machines.machine import Machine

MIRRORED = ("balanced", "uniform")
"""Routings for which one rank is timed: no rank is expected to receive more than another."""

SLOW_END: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "slow links",
        ("core_bandwidth.link", "shared_bandwidth.link_out", "shared_bandwidth.link_in"),
    ),
    (
        "slow memory",
        (
            "core_bandwidth.gm_to_ub",
            "core_bandwidth.gm_to_l1",
            "core_bandwidth.ub_to_gm",
            "core_bandwidth.l0c_to_gm",
            "shared_bandwidth.l2",
            "shared_bandwidth.hbm",
        ),
    ),
)
"""Bandwidths that are uncertain together; a condition has each at the low end of its range."""


@dataclass(frozen=True)
class Condition:
    """What a candidate is timed under."""

    routing: str
    """In the syntax of `parse_routing`."""
    seed: int = 0
    """Of the routing."""
    symmetric: bool = False
    """Whether each rank sends what rank 0 draws, to the ranks after it; one rank is then timed."""
    slow: str = ""
    """The first entry of `SLOW_END` whose bandwidths are at their low ends; "" for none."""

    @property
    def text(self) -> str:
        """The condition in words, for reports."""
        return ", ".join([f"{self.routing} seed {self.seed}", *([self.slow] if self.slow else [])])

    def machine(self, machine: Machine) -> Machine:
        """Returns the machine with the rates of this condition."""
        for rate in dict(SLOW_END)[self.slow] if self.slow else ():
            machine = machine.with_rate(rate, machine.numbers[rate].low)
        return machine

    def ids(self, config: LayerConfig) -> list[IdArray]:
        """Returns the expert ids [T, K] of each rank.

        Raises InputError if the routing does not fit the layer.
        """
        # What rank 0 draws does not depend on the ranks after it.
        others = 0 if self.symmetric else config.tokens
        counts = [config.tokens, *[others] * (config.ranks - 1)]
        try:
            routing = generate_routing(parse_routing(self.routing), config, counts, self.seed)
        except RoutingError as e:
            raise InputError(f"--schedule-for: {e}") from e
        if self.symmetric:
            return same_from_each_rank(config, routing[0].ids)
        return [part.ids for part in routing]


USUAL = (
    Condition("uniform", 0, symmetric=True),
    Condition("uniform", 1, symmetric=True),
    Condition("zipf:0.3", 0, symmetric=True),
    Condition("zipf:0.5", 1, symmetric=True),
    *(Condition("uniform", 0, symmetric=True, slow=name) for name, _ in SLOW_END),
)
"""The conditions of a choice for any routing. No part of the rows has a whole number of tiles, as
in training. Under zipf experts differ and, as one rank stands for all, ranks don't."""


def conditions_for(routing: str) -> tuple[Condition, ...]:
    """Returns the one condition of a choice for a routing, on the machine as it is described.

    Raises InputError for a routing that does not parse.
    """
    try:
        parse_routing(routing)
    except RoutingError as e:
        raise InputError(f"--schedule-for: {e}") from e
    return (Condition(routing, symmetric=routing in MIRRORED),)


def same_from_each_rank(config: LayerConfig, ids: IdArray) -> list[IdArray]:
    """Returns a rank-symmetric routing: expert ids [T, K] for each rank, from those of rank 0.

    Rank r has the same shifted by r ranks, so that each rank r sends the same number of rows to
    rank r + d.
    """
    return [
        ((ids + rank * config.local_experts) % config.experts).astype(ids.dtype)
        for rank in range(config.ranks)
    ]
