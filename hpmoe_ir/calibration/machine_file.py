"""The machine file of a calibration: a base, and the rates that the profile identifies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from hpmoe_ir.calibration.fit import Calibration, Estimate
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.machines.rates import RANGES, RATE_UNITS, WHOLE_UNITS

RANGE_ERRORS = 2
"""Standard errors from the value of a rate to each end of its range."""


def calibrated(base: Machine, calibration: Calibration) -> Machine:
    """Returns `base` with the rates that a profile identifies."""
    for estimate in calibration.estimates:
        base = base.with_rate(estimate.name, estimate.value)
    return base


def machine_file(name: str, base: str, profile: str, calibration: Calibration) -> bytes:
    """Returns a description `name` that differs from the description `base` by what was fitted.

    The range of a rate is that of its standard error; `profile` is named as the source.
    """
    lines = [f"# Rates that {profile} identifies; the others are those of {base}.", ""]
    lines += [f"name = {json.dumps(name)}", f"base = {json.dumps(base)}"]

    def section(estimate: Estimate) -> str:
        return estimate.name.partition(".")[0]

    for title, members in groupby(sorted(calibration.estimates, key=section), section):
        lines += ["", f"[{title}]", *map(_number, members)]
    lines += ["", "# Not identified:"]
    lines += [f"# {rate}: {reason}" for rate, reason in sorted(calibration.unknown.items())]
    return ("\n".join(lines) + "\n").encode()


def _number(estimate: Estimate) -> str:
    unit = RATE_UNITS[estimate.name]
    assert unit not in WHOLE_UNITS, "sizes are not fitted"
    smallest, largest = RANGES.get(estimate.name, RANGES[unit])
    value = min(max(estimate.value, smallest), largest)
    width = RANGE_ERRORS * estimate.error * value
    low, high = max(value - width, smallest), min(value + width, largest)
    source = (
        f"fit of {estimate.rows} rows: {estimate.source}; residual {estimate.residual:.2%}, "
        f"standard error {estimate.error:.2%}"
    )
    key = estimate.name.partition(".")[2]
    return (
        f"{key} = {{ value = {value!r}, unit = {json.dumps(unit)}, low = {low!r}, "
        f"high = {high!r}, source = {json.dumps(source)} }}"
    )


def report_lines(base: Machine, calibration: Calibration) -> Sequence[str]:
    """Returns a line for each rate: what was fitted with its residual, or why it was not."""
    lines = [
        f"{'rate':<28} {'fitted':>11} {'base':>11} {'unit':<14} {'error':>7} {'residual':>8} rows"
    ]
    for e in calibration.estimates:
        unit = RATE_UNITS[e.name]
        lines.append(
            f"{e.name:<28} {e.value:>11.5g} {base.numbers[e.name].value:>11.5g} {unit:<14} "
            f"{e.error:>7.2%} {e.residual:>8.2%} {e.rows:>4}"
        )
    lines += ["", f"not identified, left as in {base.name}:"]
    width = max((len(rate) for rate in calibration.unknown), default=0)
    lines += [f"  {rate:<{width}}  {why}" for rate, why in sorted(calibration.unknown.items())]
    return lines
