"""Plain-text tables of timed runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from timed_cases import Case, Result

Table = Callable[[Callable[[Case], Result]], Iterator[str]]
"""Returns the lines of a table, given a function that finds results."""


GAP = "  "
"""Between the columns of a table; no cell contains it."""


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields a table with aligned columns: text on the left, numbers on the right."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numbers = [all(cell[:1].isdigit() or cell == "-" for cell in c[1:]) for c in columns]
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numbers, strict=True)
        ]
        yield GAP.join(cells).rstrip()


def ratio(result: Result, serial: Result) -> str:
    """Returns the speedup over `serial`, or the reason why there is none."""
    if result.refused or serial.refused:
        return "-"
    return f"{serial.time_us / result.time_us:.3f}"


def compared(
    cases: Sequence[Case], heads: Sequence[str], names: Callable[[Case], list[str]]
) -> tuple[list[Case], Table]:
    """Returns the runs with their serial counterparts, and a table with a row for each."""

    def table(of: Callable[[Case], Result]) -> Iterator[str]:
        rows: list[list[str]] = []
        for case in cases:
            rows.append([*names(case), *_measures(of(case), of(case.serial), case.ranks)])
        columns = ["us", "speed-up", "over bound", "bound", "over own", "overlap"]
        columns += ["AIC", "AIV", "link", "HBM", "exposed us", "simulated"]
        yield from table_lines([*heads, *columns], rows)

    needed = [c for case in cases for c in (case.serial, case)]
    return list(dict.fromkeys(needed)), table


def _measures(result: Result, serial: Result, ranks: int) -> list[str]:
    if result.refused:
        return [f"refused: {result.refused}", *["-"] * 11]
    assert result.used is not None
    used = result.used
    return [
        f"{result.time_us:.1f}",
        ratio(result, serial),
        f"{result.time_us / result.bound_us:.3f}",
        result.bound,
        f"{result.time_us / result.own_bound_us:.3f}",
        f"{result.overlap * 100:.1f}%",
        *(f"{part * 100:.1f}%" for part in (used.aic, used.aiv, used.link, used.hbm)),
        f"{result.exposed_us:.1f}",
        f"{result.simulated} of {ranks}",
    ]
