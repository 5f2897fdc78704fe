"""Tables printed by `hpmoe simulate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from hpmoe_ir.timing.losses import Losses
from hpmoe_ir.timing.simulation import Simulation


def result_lines(simulations: Sequence[Simulation]) -> Iterator[str]:
    """Yields the tables of times and of losses, with a row for each configuration."""
    names = [_names(simulation) for simulation in simulations]
    heads = ["ranks", "routing", "function", "schedule"]
    yield from _table(
        [
            *heads,
            "us",
            "speed-up",
            "AIC",
            "AIV",
            "link",
            "HBM",
            "bound us",
            "bound",
            "over bound",
            "exposed us",
            "simulated",
        ],
        [[*name, *_result(s)] for name, s in zip(names, simulations, strict=True)],
    )
    yield ""
    yield "what the program's own order can still gain, and how its parts overlap, us"
    yield from _table(
        [
            *heads,
            "own bound us",
            "own bound",
            "over own",
            "T_comm",
            "T_matrix",
            "T_vector",
            "T_measured",
            "overlap",
        ],
        [[*name, *_own(s)] for name, s in zip(names, simulations, strict=True)],
    )
    yield ""
    losses = [field.name for field in fields(Losses)]
    yield "us over the bound, of the rank that receives most rows"
    yield from _table(
        [*heads, *(name.removesuffix("_us") for name in losses), "sum"],
        [
            [*name, *(f"{_zero(getattr(s.losses, n)):.1f}" for n in losses), _sum(s)]
            for name, s in zip(names, simulations, strict=True)
        ],
    )


def _names(simulation: Simulation) -> list[str]:
    what = simulation.configuration
    return [str(what.ranks), what.routing, f"@{what.function}", what.schedule]


def _result(simulation: Simulation) -> list[str]:
    used, bound = simulation.utilisation, simulation.bounds
    parts = [used.aic, used.aiv, used.link, used.hbm]
    speedup = simulation.speedup
    ranks = simulation.configuration.ranks
    return [
        f"{simulation.time_us:.1f}",
        "-" if speedup is None else f"{speedup:.2f}",
        *(f"{part * 100:.1f}%" for part in parts),
        f"{bound.bound_us:.1f}",
        bound.largest,
        f"{simulation.time_us / bound.bound_us:.3f}",
        f"{simulation.exposed_us:.1f}",
        f"{simulation.simulated_ranks} of {ranks}",
    ]


def _own(simulation: Simulation) -> list[str]:
    """Cells of the program's own bound and of the overlap of its parts."""
    own, parts = simulation.program_bounds, simulation.overlap
    return [
        f"{own.bound_us:.1f}",
        own.largest,
        f"{simulation.time_us / own.bound_us:.3f}",
        *(f"{v:.1f}" for v in (parts.comm_us, parts.matrix_us, parts.vector_us, parts.measured_us)),
        f"{_zero(parts.reached * 100):.1f}%",
    ]


def _zero(value: float) -> float:
    return 0.0 if abs(value) < 0.05 else value


def _sum(simulation: Simulation) -> str:
    return f"{simulation.losses.total_us:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a table; text is left-aligned, numbers are right-aligned."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    text = [not column[0][:1].isdigit() and column[0][:1] != "-" for column in zip(*rows)]
    for row in (head, *rows):
        cells = [
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, text, strict=True)
        ]
        yield "  ".join(cells).rstrip()
