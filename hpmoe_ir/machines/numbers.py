"""The numbers of a machine description: units, ranges, and their dependence on the ranks."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from hpmoe_ir.machines.rates import RANGES, RATE_NAMES, RATE_UNITS, WHOLE_UNITS

POINT_FIELDS = ("ranks", "value", "low", "high")
"""Fields of a point of a curve."""


class MachineError(ValueError):
    """A machine description that does not exist or is invalid."""


@dataclass(frozen=True)
class RankRate:
    """A rate on so many ranks, with its range."""

    ranks: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Number:
    """One number of a description, with the range `low` to `high` in which it is uncertain.

    A rate of `CURVES` may depend on the number of ranks: as it should be (`by_ranks`), and as it
    was measured.
    """

    value: float
    unit: str
    source: str
    low: float
    high: float
    by_ranks: tuple[RankRate, ...] = ()
    """Nominal rates on other numbers of ranks, fewest first; empty where all have `value`."""
    measured: tuple[RankRate, ...] = ()
    """Measured rates, fewest ranks first; empty if there are none."""
    measured_source: str = ""

    @property
    def uncertain(self) -> bool:
        """Whether the number has a range: its sources disagree, or it has none."""
        return self.low < self.high

    def on_ranks(self, ranks: int, measured: bool) -> Number:
        """Returns the number that holds for `ranks` ranks, without curves.

        Between two points of a curve, value and range are interpolated linearly; before the first
        and after the last point, they are those of that point. Without a curve, the number itself.
        """
        points = self.measured if measured else self.by_ranks
        if not points:
            return replace(self, by_ranks=(), measured=(), measured_source="")
        at = [point.ranks for point in points]

        def between(values: Sequence[float]) -> float:
            return float(np.interp(ranks, at, values))

        return Number(
            between([point.value for point in points]),
            self.unit,
            self.measured_source if measured else self.source,
            between([point.low for point in points]),
            between([point.high for point in points]),
        )


SIZES: dict[str, tuple[str, str]] = {
    "cores.aic": ("aic_cores", "cores"),
    "cores.aiv_per_aic": ("aiv_per_aic", "cores"),
    "memory.l0a": ("l0a_bytes", "bytes"),
    "memory.l0b": ("l0b_bytes", "bytes"),
    "memory.l0c": ("l0c_bytes", "bytes"),
    "memory.l1": ("l1_bytes", "bytes"),
    "memory.ub": ("ub_bytes", "bytes"),
    "memory.l1_reserved": ("l1_reserved", "bytes"),
    "memory.ub_reserved": ("ub_reserved", "bytes"),
    "memory.counter_line": ("counter_line", "bytes"),
    "memory.hbm": ("hbm_bytes", "bytes"),
    "limits.event_ids": ("event_ids", "flags"),
    "limits.queue_points": ("queue_points", "tasks"),
    "limits.families": ("families", "families"),
    "limits.direct_ranks": ("direct_ranks", "ranks"),
}
"""Field of `Machine` and unit of each whole number of a description."""

SAME_ADDRESS = {
    "same_address.gm_to_ub": "core_bandwidth.gm_to_ub",
    "same_address.gm_to_l1": "core_bandwidth.gm_to_l1",
}
"""For each number by which loads are slowed down where cores read the same addresses at the same
time, the rate that it divides."""

CURVES = frozenset({"shared_bandwidth.link_out", "shared_bandwidth.link_in"})
"""Rates that may depend on the number of ranks."""

OPTIONAL = frozenset({"memory.hbm", "limits.direct_ranks", *SAME_ADDRESS})
"""Numbers that a description without a base may leave out."""


UNITS = {
    **{key: unit for key, (_, unit) in SIZES.items()},
    **RATE_UNITS,
    **dict.fromkeys(SAME_ADDRESS, "ratio"),
}
"""Unit of each number of a description, by section and key."""

MAY_BE_ZERO = frozenset({"cycles", "s"})
"""Units whose numbers may be 0, since they are costs; all other numbers are positive."""


def error_of(file: str, key: str, message: str) -> MachineError:
    """Returns the error of a number, with its section and name."""
    section, _, name = key.partition(".")
    return MachineError(f"{file}: [{section}] {name}: {message}")


def read_text(file: str, data: Mapping[str, Any], key: str) -> str:
    """Reads a text of the description `data`. Raises MachineError."""
    value = data.get(key)
    if not isinstance(value, str):
        raise MachineError(f"{file}: {key}: expected a string, found {value!r}")
    return value


def read_numbers(file: str, data: Mapping[str, Any]) -> dict[str, Number]:
    """Reads all numbers of the description `data`, by section and key. Raises MachineError."""
    sections = {key.partition(".")[0] for key in UNITS}
    for section, content in data.items():
        if section in ("name", "arch", "base"):
            continue
        if section not in sections or not isinstance(content, dict):
            raise MachineError(f"{file}: [{section}]: unknown section{hint_of(section, sections)}")
        known = {k.partition(".")[2] for k in UNITS if k.startswith(f"{section}.")}
        for key in cast("dict[str, Any]", content):
            if key not in known:
                raise error_of(file, f"{section}.{key}", f"unknown number{hint_of(key, known)}")
    numbers: dict[str, Number] = {}
    for key, unit in UNITS.items():
        section, _, name = key.partition(".")
        table = data.get(section, {}).get(name)
        if table is None and key in OPTIONAL:
            continue
        if not isinstance(table, dict):
            raise error_of(
                file, key, f'expected {{ value, unit = "{unit}", source }}, found {table!r}'
            )
        numbers[key] = _number(file, key, unit, cast("dict[str, Any]", table))
    return numbers


def hint_of(name: str, known: set[str]) -> str:
    """Returns the end of a message that proposes the nearest known name, or nothing."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def _number(file: str, key: str, unit: str, table: Mapping[str, Any]) -> Number:
    allowed = {"value", "unit", "source", "low", "high"}
    if key in CURVES:
        allowed |= {"by_ranks", "measured", "measured_source"}
    for name in table:
        if name not in allowed:
            raise error_of(file, key, f"unknown field '{name}'{hint_of(name, allowed)}")
    for name in ("unit", "source", *(["measured_source"] if "measured" in table else [])):
        if not isinstance(table.get(name), str):
            raise error_of(file, key, f"{name}: expected a string, found {table.get(name)!r}")
    if table["unit"] != unit:
        raise error_of(file, key, f'unit: expected "{unit}", found "{table["unit"]}"')
    value, low, high = _with_range(file, key, unit, table)
    return Number(
        value,
        unit,
        table["source"],
        low,
        high,
        _curve(file, key, unit, table, "by_ranks"),
        _curve(file, key, unit, table, "measured"),
        table.get("measured_source", ""),
    )


def _with_range(
    file: str, key: str, unit: str, table: Mapping[str, Any], place: str = ""
) -> tuple[float, float, float]:
    """Returns `value`, `low` and `high` of a table; the value itself where there is no range.

    `place` begins the messages.
    """
    value = _amount(file, key, unit, table, "value", place)
    if ("low" in table) != ("high" in table):
        raise error_of(file, key, f"{place}expected both low and high, or neither")
    if "low" not in table:
        return value, value, value
    low, high = (_amount(file, key, unit, table, name, place) for name in ("low", "high"))
    if not low <= value <= high:
        raise error_of(file, key, f"{place}value: expected {low!r} to {high!r}, found {value!r}")
    return value, low, high


def _amount(
    file: str, key: str, unit: str, table: Mapping[str, Any], name: str, place: str
) -> float:
    value = table.get(name)
    low = 0 if unit in MAY_BE_ZERO else math.ulp(0.0)
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value < math.inf:
        expected = "a number of at least 0" if low == 0 else "a positive number"
        raise error_of(file, key, f"{place}{name}: expected {expected}, found {value!r}")
    limits = RANGES.get(key, RANGES.get(unit)) if key in RATE_NAMES or unit == "ratio" else None
    if limits is not None:
        smallest, largest = limits
        whole = "a whole number from " if unit in WHOLE_UNITS else ""
        if not smallest <= value <= largest or (whole and value != int(value)):
            raise error_of(
                file,
                key,
                f"{place}{name}: expected {whole}{smallest:g} to {largest:g}, found {value!r}",
            )
    return value


def _curve(
    file: str, key: str, unit: str, table: Mapping[str, Any], name: str
) -> tuple[RankRate, ...]:
    """Returns the points of a curve over ranks, () if there is none."""
    points: list[RankRate] = []
    given: object = table.get(name, [])
    listed = cast("list[object]", given) if isinstance(given, list) else [given]
    if not all(isinstance(point, dict) for point in listed):
        expected = "a list of { ranks, value, low, high }"
        raise error_of(file, key, f"{name}: expected {expected}, found {given!r}")
    for point in cast("list[dict[str, Any]]", listed):
        for field in point:
            if field not in POINT_FIELDS:
                hint = hint_of(field, set(POINT_FIELDS))
                raise error_of(file, key, f"{name}: unknown field '{field}'{hint}")
        ranks = point.get("ranks")
        least = points[-1].ranks + 1 if points else 1
        if not isinstance(ranks, int) or isinstance(ranks, bool) or ranks < least:
            raise error_of(
                file, key, f"{name}: ranks: expected at least {least}, ascending, found {ranks!r}"
            )
        points.append(
            RankRate(ranks, *_with_range(file, key, unit, point, f"{name}, {ranks} ranks: "))
        )
    return tuple(points)
