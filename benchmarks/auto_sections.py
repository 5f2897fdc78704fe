"""Sections on the speedup of `auto` over `published`, and on the matrix tasks of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from case_tables import ratio, table_lines
from section import CANN_LIKE, LINKS, Options, Section, link_rates, skewed_cases
from timed_cases import Case, Result

from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.schedule.named import AUTO_SCHEDULE


def gain(options: Options) -> Section:
    """`auto` against `published`: unchanged, and with equal options except for the order."""
    rows = [
        case
        for direction in options.directions
        for case in (
            *(Case(options.preset, ranks, AUTO_SCHEDULE, direction) for ranks in options.ranks),
            *skewed_cases(options, direction, AUTO_SCHEDULE),
        )
    ]
    rows += [
        Case(options.preset, ranks, AUTO_SCHEDULE, rates=link_rates(rate))
        for ranks in options.ranks
        for rate in LINKS[:-1]
    ]

    def published(case: Case) -> tuple[Case, ...]:
        same = replace(case, schedule="published")
        return same, replace(same, without=(CANN_LIKE,))

    def table(of: Callable[[Case], Result]) -> Iterator[str]:
        lines: list[list[str]] = []
        for case in rows:
            own, others = of(case), [of(other) for other in published(case)]
            rate = (
                case.rates[0][1] if case.rates else options.machine.rates.shared_bandwidth_link_out
            )
            lines.append(
                [
                    case.direction,
                    str(case.ranks),
                    case.routing,
                    f"{rate / 1e9:.0f}",
                    *_time(own),
                    *_time(others[0]),
                    *(ratio(own, other) for other in others),
                ]
            )
        head = ["direction", "ranks", "routing", "link GB/s", "auto us", "over bound"]
        gains = ["gain", "gain, same kernels"]
        yield from table_lines([*head, "published us", "over bound", *gains], lines)

    text = (
        "How many times auto is as fast as published, as it is and with the matrix kernels that "
        "auto has, so that only cut, events and order differ."
    )
    cases = [c for case in rows for c in (case, *published(case))]
    return Section("Auto over published", text, list(dict.fromkeys(cases)), table)


def _time(result: Result) -> list[str]:
    if result.refused:
        return [f"refused: {result.refused}", "-"]
    return [f"{result.time_us:.1f}", f"{result.time_us / result.bound_us:.3f}"]


PRODUCT_ROWS = (1024, 128)
"""Rows of an expert."""


def products(options: Options) -> Section:
    """The matrix tasks of `auto` and `published`, each timed alone."""
    ranks = options.ranks[0]
    rows = [
        Case(options.preset, ranks, schedule, direction, tokens=_tokens(options, count))
        for direction in options.directions
        for count in PRODUCT_ROWS
        for schedule in (AUTO_SCHEDULE, "published")
    ]

    def table(of: Callable[[Case], Result]) -> Iterator[str]:
        lines = [
            [
                case.direction,
                str(count),
                case.schedule,
                ", ".join(f"{name} {part * 100:.1f}%" for name, part in of(case).products.items()),
            ]
            for case in rows
            for count in PRODUCT_ROWS
            if case.tokens == _tokens(options, count)
        ]
        yield from table_lines(["direction", "rows", "schedule", "of the peak"], lines)

    text = (
        f"Balanced routing, {ranks} ranks, so many tokens a rank that an expert has this number of "
        "rows. For each family of matrix tasks the part of a core's peak that its tasks reach, "
        "each as fast as it is alone: from the look that finds its counters reached to its signal."
    )
    return Section("Matrix tasks alone", text, rows, table)


def _tokens(options: Options, rows: int) -> int:
    """Returns the number of tokens of a rank for which an expert has `rows` rows."""
    layer = preset_layer(options.preset, ranks=options.ranks[0])
    return rows * layer.experts // (layer.top_k * layer.ranks)
