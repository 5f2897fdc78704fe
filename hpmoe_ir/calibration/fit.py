"""Rates of a machine that the rows of a profile identify."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import TypeVar

from hpmoe_ir.calibration.linear import LinearFit, robust_fit
from hpmoe_ir.calibration.op_summary import OpRow, Pipe
from hpmoe_ir.calibration.trace_view import Timeline, Transfer
from hpmoe_ir.calibration.work import Elementwise, Product, elementwise_of, product_of
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.machines.rates import RATE_NAMES

W = TypeVar("W", Product, Elementwise)

LARGEST_ERROR = 0.005
"""Largest standard error of an identified rate, as a part of it: 2% are four of them."""

CORE_BOUND = 1.2
"""A collective on few cores is bound by them if it is this much slower than one on all links."""


@dataclass(frozen=True)
class Estimate:
    """A rate of a machine as a profile gives it."""

    name: str
    """Section and key, such as "core_bandwidth.gm_to_ub"."""
    value: float
    """In the unit of the rate."""
    error: float
    """Standard error, as a part of the value."""
    residual: float
    """Root mean square of what the fit leaves of the rows' times, as a part of them."""
    rows: int
    """Rows that were fitted, without outliers."""
    source: str
    """What was fitted."""


@dataclass(frozen=True)
class Calibration:
    """The rates that a profile identifies, and why it doesn't identify the others."""

    estimates: tuple[Estimate, ...]
    unknown: dict[str, str]
    """Reason, by name of the rate."""


def calibrate(rows: Sequence[OpRow], timeline: Timeline | None, base: Machine) -> Calibration:
    """Fits the rates. `base` has the sizes of the memories; its ranges say which rows share none.

    A rate with a standard error above `LARGEST_ERROR` is not identified.
    """
    return _Fit(rows, timeline, base).result()


class _Fit:
    """Fits group after group of rates; later ones use the clock of the first."""

    def __init__(self, rows: Sequence[OpRow], timeline: Timeline | None, base: Machine) -> None:
        self.rows = rows
        self.timeline = timeline
        self.base = base
        self.found: list[Estimate] = []
        self.unknown: dict[str, str] = {}
        self.cycles_per_us = base.rates.clock_frequency / 1e6

    def result(self) -> Calibration:
        self._clock()
        self._products()
        self._vectors()
        self._memory()
        self._links()
        self._launches()
        found = {estimate.name for estimate in self.found}
        reasons = {
            name: self.unknown.get(name, "no row of a profile depends on it alone")
            for name in RATE_NAMES
            if name not in found
        }
        return Calibration(tuple(self.found), reasons)

    def _add(self, name: str, value: float, error: float, fit: LinearFit, source: str) -> None:
        """Adds an estimate, or why there is none. `error` is that of `value`."""
        if not value > 0:
            self.unknown[name] = f"the fit of {source} gives {value:.3g}, which no chip has"
        elif error > LARGEST_ERROR * value:
            self.unknown[name] = (
                f"{source} give it to {error / value:.1%} only, expected {LARGEST_ERROR:.1%}"
            )
        else:
            self.found.append(Estimate(name, value, error / value, fit.residual, fit.rows, source))

    def _rate(self, name: str, fit: LinearFit, at: int, source: str, unit: float = 1) -> None:
        """Adds a rate whose inverse is a coefficient, in us per byte, element or the like."""
        slope, error = float(fit.values[at]), float(fit.errors[at])
        if not slope > 0:
            self.unknown[name] = f"{source} don't take longer with more work"
            return
        self._add(name, unit / slope, unit * error / slope**2, fit, source)

    def _cost(self, name: str, fit: LinearFit, at: int, source: str, unit: float) -> None:
        """Adds a cost that is a coefficient, in us."""
        self._add(name, fit.values[at] * unit, fit.errors[at] * unit, fit, source)

    def _clock(self) -> None:
        name, source = "clock.frequency", "cycles of the cores"
        pairs = [
            (core.us * row.blocks, core.cycles)
            for row in self.rows
            for core in (row.aic, row.aiv)
            if core is not None and row.blocks
        ]
        if len(pairs) < 3:
            self.unknown[name] = "no row has cycles of the cores"
            return
        # Times as a function of cycles, as their rounding is the error.
        us, cycles = np.array(pairs).T
        fit = robust_fit(cycles[:, None], us)
        if fit is None:
            self.unknown[name] = "no row has cycles of the cores"
            return
        self._rate(name, fit, 0, source, 1e6)
        self.cycles_per_us = float(1 / fit.values[0])

    def _products(self) -> None:
        base, numbers = self.base, self.base.numbers
        works = [
            (row, work)
            for row in self.rows
            if (work := product_of(row)) is not None and work.one_pass(base)
        ]
        names = ("matrix.mmad_head", "matrix.l1_to_l0a", "matrix.l1_to_l0b")
        loads = ("core_bandwidth.gm_to_l1", "dma.gm_to_l1_start")
        stores = ("core_bandwidth.l0c_to_gm", "dma.l0c_to_gm_start")
        lone = numbers["shared_bandwidth.hbm"].low / numbers["core_bandwidth.gm_to_l1"].high
        few = [(row, work) for row, work in works if work.blocks <= lone]
        source = "products of one Mmad a core"

        def fitted(
            pipe: Pipe,
            rows: list[tuple[OpRow, Product]],
            factors: Callable[[Product], list[float]],
            rates: Sequence[str],
        ) -> LinearFit | None:
            fit = _pipe_fit(pipe, rows, factors)
            if fit is None:
                self._missing(rates, f"{len(rows)} rows with {pipe.time_column} of {source}")
            return fit

        cycles = 1 / self.cycles_per_us
        if fit := _excess_fit(works, cycles):
            self._cost(names[0], fit, 0, f"{Pipe.MAC.time_column} of {source}", 1 / cycles)
        else:
            self._missing(names[:1], f"{len(works)} {source}")
        fit = fitted(Pipe.MTE1, works, lambda w: [w.left_bytes, w.right_bytes], names[1:])
        if fit:
            for at, name in enumerate(names[1:]):
                unit = 1 / self.cycles_per_us
                self._rate(name, fit, at, f"{Pipe.MTE1.time_column} of {source}", unit)
        fit = fitted(Pipe.AIC_MTE2, few, lambda w: [w.left_bytes + w.right_bytes, 2], loads)
        if fit:
            self._transfer(loads, fit, f"{Pipe.AIC_MTE2.time_column} of {source}")
        fit = fitted(Pipe.FIXPIPE, works, lambda w: [w.result_bytes, 1], stores)
        if fit:
            self._transfer(stores, fit, f"{Pipe.FIXPIPE.time_column} of {source}")

    def _transfer(self, names: Sequence[str], fit: LinearFit, source: str) -> None:
        """Adds a bandwidth and the start of an instruction."""
        self._rate(names[0], fit, 0, source, 1e6)
        self._cost(names[1], fit, 1, source, self.cycles_per_us)

    def _missing(self, names: Sequence[str], found: str) -> None:
        for name in names:
            self.unknown[name] = f"found {found}, too few or too much alike"

    def _vectors(self) -> None:
        base, numbers = self.base, self.base.numbers
        works = [
            (row, work)
            for row in self.rows
            if (work := elementwise_of(row)) is not None and work.one_pass(base)
        ]
        highest = max(numbers[f"core_bandwidth.{name}"].high for name in ("gm_to_ub", "ub_to_gm"))
        lone = numbers["shared_bandwidth.hbm"].low / highest
        few = [(row, work) for row, work in works if work.blocks <= lone]
        source = "element-wise operators of one piece a core"
        loads = ("core_bandwidth.gm_to_ub", "dma.gm_to_ub_start")
        stores = ("core_bandwidth.ub_to_gm", "dma.ub_to_gm_start")

        def load(w: Elementwise) -> list[float]:
            return [w.in_bytes / w.blocks, w.inputs]

        def store(w: Elementwise) -> list[float]:
            return [w.out_bytes / w.blocks, 1]

        for pipe, names, factors in (
            (Pipe.AIV_MTE2, loads, load),
            (Pipe.MTE3, stores, store),
        ):
            if fit := _pipe_fit(pipe, few, factors):
                self._transfer(names, fit, f"{pipe.time_column} of {source}")
            else:
                self._missing(names, f"{len(few)} rows with {pipe.time_column} of {source}")
        for slow, name in ((False, "vector.bytes_per_cycle"), (True, "vector.slow_elements")):
            kind = [(row, work) for row, work in works if work.slow is slow]

            def compute(w: Elementwise, slow: bool = slow) -> list[float]:
                return [(w.elements if slow else w.wide_bytes) / w.blocks, 1]

            if fit := _pipe_fit(Pipe.VEC, kind, compute):
                self._rate(
                    name, fit, 0, f"{Pipe.VEC.time_column} of {source}", 1 / self.cycles_per_us
                )
            else:
                which = "slow" if slow else "fast"
                self._missing([name], f"{len(kind)} {which} {source}")

    def _memory(self) -> None:
        name, source = "shared_bandwidth.hbm", "operators that stream more than L2 holds"
        works = [
            (row, work)
            for row in self.rows
            if (work := elementwise_of(row)) is not None
            and work.streams(self.base)
            and row.aiv is not None
        ]
        bytes = np.array([[w.in_bytes + w.out_bytes, 1.0] for _, w in works]).reshape(-1, 2)
        us = np.array([row.aiv.us for row, _ in works if row.aiv is not None])
        fit = robust_fit(bytes, us)
        if fit is None:
            self._missing([name], f"{len(works)} {source}")
            return
        values = {estimate.name: estimate.value for estimate in self.found}
        loads = values.get("core_bandwidth.gm_to_ub")
        stores = values.get("core_bandwidth.ub_to_gm")
        if loads is None or stores is None:
            self.unknown[name] = "what a core reaches alone is not identified"
            return
        cores = self.base.aiv_cores
        alone = [max(w.in_bytes / loads, w.out_bytes / stores) / cores * 1e6 for _, w in works]
        if float(np.median(np.array(alone) / us)) > 0.95:
            self.unknown[name] = "the cores' own bandwidth bounds the operators that stream"
            return
        self._rate(name, fit, 0, source, 1e6)

    def _links(self) -> None:
        out, into, core = (
            "shared_bandwidth.link_out",
            "shared_bandwidth.link_in",
            "core_bandwidth.link",
        )
        moved = _collectives(self.rows, self.timeline)
        if not moved:
            for name in (out, into, core):
                self.unknown[name] = "no timeline gives the bytes of collectives"
            return
        ranks = self.timeline.ranks if self.timeline else None
        source = "collectives" + (f" of {ranks} ranks" if ranks else "")
        wide = [m for m in moved if m.blocks == 0]
        for name, side in ((out, 0), (into, 1)):
            # Where one direction has far more bytes, it is the bound.
            mine = [m for m in wide if m.bytes[side] > 2 * m.bytes[1 - side]]
            fit = _link_fit(mine, side)
            if fit is None:
                if any(m.bytes[0] and m.bytes[1] for m in wide) and not mine:
                    self.unknown[name] = f"{source} have as many bytes out as in"
                else:
                    self._missing([name], f"{len(mine)} {source} with most bytes that way")
            else:
                self._rate(name, fit, 0, source, 1e6)
        values = {estimate.name: estimate.value for estimate in self.found}
        few = [m for m in moved if m.blocks]
        fit = _link_fit(few, 0, by_core=True)
        if fit is None or out not in values:
            self._missing([core], f"{len(few)} collectives that vector cores carry out")
            return
        rate = 1e6 / float(fit.values[0])
        if any(CORE_BOUND * m.blocks * rate > values[out] for m in few):
            self.unknown[core] = "the links bound the collectives that vector cores carry out"
            return
        self._rate(core, fit, 0, "collectives on few vector cores", 1e6)

    def _launches(self) -> None:
        gaps = {True: list[float](), False: list[float]()}
        last: dict[str, OpRow] = {}
        for row in self.rows:
            if (before := last.get(row.stream)) is not None and row.wait > 0:
                gaps[before.communicates].append(row.wait)
            last[row.stream] = row
        fits = {key: robust_fit(np.ones((len(us), 1)), np.array(us)) for key, us in gaps.items()}
        launch, collective = fits[False], fits[True]
        if launch is None:
            self._missing(["latency.launch"], f"{len(gaps[False])} gaps between tasks")
        else:
            self._cost("latency.launch", launch, 0, "gaps between tasks", 1e-6)
        if launch is None or collective is None:
            self._missing(["latency.collective"], f"{len(gaps[True])} gaps after collectives")
            return
        more = float(collective.values[0] - launch.values[0]) * 1e-6
        error = float(np.hypot(collective.errors[0], launch.errors[0])) * 1e-6
        self._add("latency.collective", more, error, collective, "gaps after collectives")


@dataclass(frozen=True)
class _Collective:
    """A collective with the bytes that it moves out of and into the rank."""

    us: float
    bytes: tuple[int, int]
    blocks: int


def _collectives(rows: Sequence[OpRow], timeline: Timeline | None) -> list[_Collective]:
    """Returns the collectives whose transfers the timeline has.

    The rank of the profile is the one that takes part in every transfer.
    """
    transfers: list[Transfer] = list(timeline.transfers) if timeline else []
    if not transfers:
        return []
    common = {transfers[0].source, transfers[0].target}
    for transfer in transfers:
        common &= {transfer.source, transfer.target}
    if len(common) != 1:
        return []
    rank = common.pop()
    ordered = sorted(transfers, key=lambda transfer: transfer.start)
    starts = [transfer.start for transfer in ordered]
    found: list[_Collective] = []
    for row in rows:
        if row.communicates:
            first, last = bisect_left(starts, row.start - 1e-3), bisect_left(starts, row.end + 1e-3)
            mine = ordered[first:last]
            out = sum(t.bytes for t in mine if t.source == rank)
            into = sum(t.bytes for t in mine if t.target == rank)
            if mine:
                found.append(_Collective(row.duration, (out, into), row.blocks))
    return found


def _link_fit(moved: list[_Collective], side: int, by_core: bool = False) -> LinearFit | None:
    factors = [[m.bytes[side] / (m.blocks if by_core else 1), 1.0] for m in moved]
    return robust_fit(np.array(factors).reshape(-1, 2), np.array([m.us for m in moved]))


def _pipe_fit(
    pipe: Pipe, works: list[tuple[OpRow, W]], factors: Callable[[W], list[float]]
) -> LinearFit | None:
    """Fits the time of a pipe on each core, in us."""
    pairs = [(factors(work), row.pipes[pipe].us) for row, work in works if pipe in row.pipes]
    if not pairs:
        return None
    return robust_fit(np.array([f for f, _ in pairs]), np.array([us for _, us in pairs]))


def _excess_fit(works: list[tuple[OpRow, Product]], cycle_us: float) -> LinearFit | None:
    """Fits the time of the cube in excess of its cycles at the peak, of one instruction a core.

    The error is that of the whole time, most of which is known.
    """
    pairs = [
        (work.cycles * cycle_us, row.pipes[Pipe.MAC].us)
        for row, work in works
        if Pipe.MAC in row.pipes
    ]
    if not pairs:
        return None
    return robust_fit(
        np.array([[1.0, known] for known, _ in pairs]), np.array([us for _, us in pairs])
    )
