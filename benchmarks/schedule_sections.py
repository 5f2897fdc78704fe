"""The sections of the comparison: which runs each needs, and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from auto_sections import gain, products
from case_tables import compared, ratio, table_lines
from section import LINKS, Options, Section, link_rates, skewed_cases
from timed_cases import Case, Result

from hpmoe_ir.machines.numbers import SIZES


def calibration(options: Options) -> Section:
    """The shares of the serial run, and what jobs run, beside `published`."""
    rows = [Case(options.preset, ranks, "published") for ranks in options.ranks]

    def table(of: Callable[[Case], Result]) -> Iterator[str]:
        lines: list[list[str]] = []
        for case in rows:
            serial, shares = of(case.serial), of(case.serial).shares
            assert shares is not None
            parts = (shares.communication, shares.vector, shares.matrix, shares.between)
            published, stock = of(case), of(replace(case, schedule="stock"))
            lines.append(
                [
                    str(case.ranks),
                    f"{serial.time_us:.1f}",
                    *(f"{part / serial.time_us * 100:.1f}%" for part in parts),
                    f"{stock.time_us:.1f}",
                    f"{published.time_us:.1f}",
                    ratio(published, serial),
                    ratio(published, stock),
                ]
            )
        head = ["ranks", "serial us", "communication", "vector", "matrix", "launches"]
        yield from table_lines(
            [*head, "stock us", "published us", "over serial", "over stock"], lines
        )

    cases = [c for case in rows for c in (case.serial, replace(case, schedule="stock"), case)]
    text = (
        "Forward, balanced routing, one rank that stands for all. Shares are of the time of "
        "serial, in which one operator follows the other, so that each moment is on the critical "
        "path of one: an operator lasts from its first task that begins to its last that ends; "
        "communication are those that put rows or counts into other ranks' memory, vector and "
        "matrix the others by their cores, launches is the time between operators. The last "
        "columns are the times of serial and stock over that of published."
    )
    return Section("Calibration", text, cases, table)


def schedules(options: Options) -> Section:
    """All schedules on all numbers of ranks, in both directions."""
    found = [
        Case(options.preset, ranks, schedule, direction)
        for direction in options.directions
        for ranks in options.ranks
        for schedule in options.schedules
    ]
    cases, table = compared(
        found, ["direction", "ranks", "schedule"], lambda c: [c.direction, str(c.ranks), c.schedule]
    )
    text = (
        "Balanced routing. Speed-up is the time of serial over that of the schedule, "
        '"over bound" the time over the largest bound; the other columns are those of '
        "hpmoe simulate (timing.md)."
    )
    return Section("Schedules", text, cases, table)


ROUTINGS = ("uniform", "zipf:0.5")


def routing(options: Options) -> Section:
    """All schedules under random routing, on the first number of ranks."""
    found = [
        Case(options.preset, options.ranks[0], schedule, direction, routing, all_ranks=True)
        for direction in options.directions
        for routing in ROUTINGS
        for schedule in options.schedules
    ]
    cases, table = compared(
        found,
        ["direction", "routing", "ranks", "schedule"],
        lambda c: [c.direction, c.routing, str(c.ranks), c.schedule],
    )
    text = "All ranks are simulated; auto is chosen for any routing."
    return Section("Routing", text, cases, table)


def skew(options: Options) -> Section:
    """All schedules where one rank receives several times the mean."""
    by_schedule = [
        skewed_cases(options, direction, schedule)
        for direction in options.directions
        for schedule in options.schedules
    ]
    found = sorted(
        (case for cases in by_schedule for case in cases),
        key=lambda c: (options.directions.index(c.direction), c.ranks, c.routing),
    )
    cases, table = compared(
        found,
        ["direction", "routing", "ranks", "schedule"],
        lambda c: [c.direction, c.routing, str(c.ranks), c.schedule],
    )
    text = (
        "All ranks are simulated. One rank receives X times the mean number of rows, spread "
        "evenly over its experts; the others share the rest evenly."
    )
    return Section("Skew", text, cases, table)


def link(options: Options) -> Section:
    """All schedules with slower links."""
    found = [
        Case(options.preset, ranks, schedule, rates=link_rates(rate))
        for ranks in options.ranks
        for schedule in options.schedules
        for rate in LINKS
    ]
    cases, table = compared(
        found,
        ["link GB/s", "ranks", "schedule"],
        lambda c: [f"{c.rates[0][1] / 1e9:.0f}", str(c.ranks), c.schedule],
    )
    text = (
        "Forward, balanced routing. The bandwidth out of and into each rank is changed in the "
        "timed run; the program is that for the machine as described."
    )
    return Section("Link bandwidth", text, cases, table)


def models(options: Options) -> Section:
    """All schedules on the layers of other models."""
    found = [
        Case(preset, options.ranks[0], schedule, direction)
        for direction in options.directions
        for preset in options.models
        for schedule in options.schedules
    ]
    cases, table = compared(
        found,
        ["layer", "direction", "ranks", "schedule"],
        lambda c: [c.preset, c.direction, str(c.ranks), c.schedule],
    )
    return Section("Models", "Balanced routing.", cases, table)


def sensitivity(options: Options) -> Section:
    """Speedup of `published` and of the best schedule when a number of the machine changes."""
    base = Case(options.preset, options.ranks[0], "serial")
    names = list(dict.fromkeys(("published", options.best)))
    numbers = {k: n for k, n in options.machine.numbers.items() if n.uncertain and k not in SIZES}
    left_out = [k for k, n in options.machine.numbers.items() if n.uncertain and k in SIZES]

    def at(schedule: str, key: str, value: float) -> Case:
        same = value == numbers[key].value
        return replace(base, schedule=schedule, rates=() if same else ((key, value),))

    def table(of: Callable[[Case], Result]) -> Iterator[str]:
        def speed_up(schedule: str, key: str, value: float) -> float:
            return of(at("serial", key, value)).time_us / of(at(schedule, key, value)).time_us

        known = [of(base).time_us / of(replace(base, schedule=name)).time_us for name in names]
        lines: list[tuple[float, list[str]]] = []
        for key, number in numbers.items():
            gains = [
                speed_up(name, key, end) for name in names for end in (number.low, number.high)
            ]
            cells = [
                f"{gain:.3f} ({gain - known[i // 2]:+.3f})".replace("-0.000", "+0.000")
                for i, gain in enumerate(gains)
            ]
            ends = f"{number.low:g} to {number.high:g} {number.unit}"
            span = max(abs(gain - known[0]) for gain in gains[:2])
            lines.append((span, [key, f"{number.value:g}", ends, *cells]))
        lines.sort(key=lambda line: -line[0])
        heads = [f"{name} at {end}" for name in names for end in ("low", "high")]
        yield (
            "As described: "
            + ", ".join(f"{name} {gain:.3f}" for name, gain in zip(names, known, strict=True))
            + " times as fast as serial."
        )
        yield ""
        yield from table_lines(["number", "value", "range", *heads], [row for _, row in lines])

    order = ("serial", *names)
    cases = [replace(base, schedule=name) for name in order]
    cases += [at(s, k, v) for s in order for k, n in numbers.items() for v in (n.low, n.high)]
    text = (
        f"Forward, balanced routing, {base.ranks} ranks, one that stands for all. Each number is "
        "moved to the ends of its range, alone, in the timed run of both schedules; the programs "
        "are those for the machine as described. Rows are in the order of what they change of "
        "published. Left out, as the program would be another: "
        + (", ".join(left_out) or "none")
        + "."
    )
    return Section("Sensitivity", text, list(dict.fromkeys(cases)), table)


def cost(options: Options) -> Section:
    """Time of the simulations themselves."""
    ranks = options.ranks[-1]
    found = [Case(options.preset, ranks, options.best, all_ranks=every) for every in (False, True)]

    def table(of: Callable[[Case], Result]) -> Iterator[str]:
        rows = [
            [c.schedule, f"{r.simulated} of {ranks}", f"{r.wall_s:.1f}"]
            for c in found
            if (r := of(c))
        ]
        yield from table_lines(["schedule", "simulated", "seconds"], rows)

    text = "Wall time of a timed run, without compiling; it depends on what else this machine does."
    return Section("Cost", text, found, table)


SECTIONS: dict[str, Callable[[Options], Section]] = {
    "calibration": calibration,
    "schedules": schedules,
    "routing": routing,
    "skew": skew,
    "link": link,
    "gain": gain,
    "products": products,
    "models": models,
    "sensitivity": sensitivity,
    "cost": cost,
}
