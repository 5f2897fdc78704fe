"""Checks that the columns of a profile belong together, row by row.

Several columns say the same thing: start, duration and wait of successive tasks; time, cycles and
number of cores; time and part of a pipe; shapes and times. A column whose cells were moved to
other rows contradicts the others, and of two that contradict each other the one is at fault whose
values, put in another order, are what the other asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hpmoe_ir.calibration.op_summary import Column, CoreTime, OpRow, Pipe
from hpmoe_ir.calibration.work import elementwise_of, mac_us, product_of, shape_fault, type_fault
from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.dtypes import Float64Array

CLOCK_US = 0.02
"""Error of a sum of three written times, in us."""
RATIO = 0.002
"""Error of a written ratio."""
SPREAD = 0.02
"""Part by which products of written times and numbers of cores differ from cycles."""
BAD_PART = 0.05
"""Part of the rows that may contradict a rule, as a profile may lack tasks."""


@dataclass(frozen=True)
class _Side:
    """A column and what the other columns say that it holds."""

    column: str
    found: Float64Array
    expected: Float64Array

    @property
    def misplaced(self) -> float:
        """How far sorted values are from the sorted expected ones: 0 if only the order is wrong."""
        scale = max(float(np.median(np.abs(self.expected))), 1e-12)
        found, expected = np.sort(self.found), np.sort(self.expected)
        return float(np.mean(np.minimum(np.abs(found - expected) / scale, 1)))


def check_rows(rows: Sequence[OpRow], file: str) -> None:
    """Raises InputError, naming the column, if a column does not belong to the others."""
    _check_order(rows, file)
    for time, cycles, cores in (
        (Column.AIC_TIME, Column.AIC_CYCLES, [row.aic for row in rows]),
        (Column.AIV_TIME, Column.AIV_CYCLES, [row.aiv for row in rows]),
    ):
        _check_cores(rows, cores, (time, cycles), file)
    _check_order_of_times(rows, file)
    for pipe in Pipe:
        _check_pipe(rows, pipe, file)
    _check_shapes(rows, file)


def _refuse(file: str, row: OpRow, column: str, message: str) -> InputError:
    return InputError(
        f"column '{column}' does not belong to the others: {message}", f"{file}:{row.line}"
    )


def _check_order(rows: Sequence[OpRow], file: str) -> None:
    """Starts of a stream ascend, as msprof sorts by them."""
    late: list[OpRow] = []
    last: dict[str, OpRow] = {}
    for row in rows:
        before = last.get(row.stream)
        if before is not None and row.start < before.start:
            late.append(row)
        last[row.stream] = row
    if len(late) > BAD_PART * len(rows):
        raise _refuse(
            file,
            late[0],
            Column.START,
            f"{len(late)} of {len(rows)} tasks start before the task of the line before",
        )


def _check_order_of_times(rows: Sequence[OpRow], file: str) -> None:
    """A task lasts at least as long as its cores, and the next starts after it and its wait."""
    short = [
        row
        for row in rows
        for core in (row.aic, row.aiv)
        if core is not None and core.us > row.duration + CLOCK_US
    ]
    if len(short) > BAD_PART * len(rows):
        raise _refuse(
            file, short[0], Column.DURATION, f"{len(short)} tasks are shorter than their cores run"
        )
    pairs: list[tuple[OpRow, OpRow]] = []
    last: dict[str, OpRow] = {}
    for row in rows:
        if row.stream in last:
            pairs.append((last[row.stream], row))
        last[row.stream] = row
    over = [b for a, b in pairs if a.end > b.start + CLOCK_US]
    if len(over) > BAD_PART * len(pairs):
        raise _refuse(
            file, over[0], Column.DURATION, f"{len(over)} tasks overlap the next of their stream"
        )
    wrong = [(a, b) for a, b in pairs if abs(b.start - a.end - b.wait) > CLOCK_US]
    if len(wrong) <= BAD_PART * len(pairs):
        return
    step = np.array([b.start - a.start for a, b in pairs])
    wait = np.array([b.wait for _, b in pairs])
    duration = np.array([a.duration for a, _ in pairs])
    _blame(
        file,
        wrong[0][1],
        "start, duration and wait of successive tasks differ",
        _Side(Column.DURATION, duration, np.subtract(step, wait, dtype=np.float64)),
        _Side(Column.WAIT, wait, step - duration),
    )


def _blame(file: str, row: OpRow, message: str, *sides: _Side) -> None:
    worst = min(sides, key=lambda side: side.misplaced)
    raise _refuse(file, row, worst.column, message)


def _check_cores(
    rows: Sequence[OpRow],
    cores: Sequence[CoreTime | None],
    columns: tuple[Column, Column],
    file: str,
) -> None:
    """Cycles of all cores are their time times their number times one frequency."""
    none = [r for r, c in zip(rows, cores, strict=True) if c is not None and not r.blocks]
    if none:
        raise _refuse(file, none[0], Column.BLOCKS, f"{len(none)} tasks with times have no cores")
    known = [(r, c) for r, c in zip(rows, cores, strict=True) if c is not None and r.blocks]
    if len(known) < 3:
        return
    us = np.array([c.us for _, c in known])
    cycles = np.array([c.cycles for _, c in known])
    blocks = np.array([float(r.blocks) for r, _ in known])
    ratio = cycles / (us * blocks)
    off = np.abs(ratio / np.median(ratio) - 1) > SPREAD + CLOCK_US / us
    if off.sum() <= BAD_PART * len(known):
        return
    # Each hypothesis has a frequency of its own: sums don't depend on the order of a column.
    sides = [
        _Side(columns[1], cycles, us * blocks * float(cycles.sum() / (us * blocks).sum())),
        _Side(columns[0], us, cycles / blocks * float(us.sum() / (cycles / blocks).sum())),
        _Side(Column.BLOCKS, blocks, cycles / us * float(blocks.sum() / (cycles / us).sum())),
    ]
    _blame(
        file,
        known[int(np.argmax(off))][0],
        "time, cycles and number of cores differ from one frequency",
        *sides,
    )


def _check_pipe(rows: Sequence[OpRow], pipe: Pipe, file: str) -> None:
    """A ratio is the time of the pipe over that of the core."""
    known = [
        (row, row.pipes[pipe], core)
        for row in rows
        if pipe in row.pipes and (core := row.core(pipe)) is not None
    ]
    if len(known) < 3:
        return
    us = np.array([p.us for _, p, _ in known])
    ratio = np.array([p.ratio for _, p, _ in known])
    core = np.array([c.us for _, _, c in known])
    off = np.abs(us / core - ratio) > RATIO + CLOCK_US / core
    if off.sum() > BAD_PART * len(known):
        _blame(
            file,
            known[int(np.argmax(off))][0],
            "the time of the pipe is not that part of the core's time",
            _Side(pipe.time_column, us, np.multiply(ratio, core, dtype=np.float64)),
            _Side(pipe.ratio_column, ratio, us / core),
        )


def _check_shapes(rows: Sequence[OpRow], file: str) -> None:
    """Shapes agree with each other and with the times of the pipes that move and multiply."""
    known = [row for row in rows if product_of(row) or elementwise_of(row)]
    _check_types(rows, file)
    wrong = [row for row in known if shape_fault(row) is not None]
    in_bytes = _disagreement(known, lambda r: sum(t.bytes for t in r.inputs), Pipe.AIV_MTE2)
    out_bytes = _disagreement(known, lambda r: sum(t.bytes for t in r.outputs), Pipe.MTE3)
    products = [row for row in known if product_of(row)]
    result = _disagreement(products, lambda r: sum(t.bytes for t in r.outputs), Pipe.FIXPIPE)
    if len(wrong) > BAD_PART * len(known):
        fault = shape_fault(wrong[0])
        outputs = max(out_bytes, result)
        column = Column.INPUT_SHAPES if in_bytes >= outputs else Column.OUTPUT_SHAPES
        raise _refuse(file, wrong[0], column, f"{len(wrong)} rows such as: {fault}")
    cycles = _cycles_per_us(rows)
    fast = [
        row
        for row in products
        if (work := product_of(row)) is not None
        and Pipe.MAC in row.pipes
        and cycles is not None
        and mac_us(work, cycles) > row.pipes[Pipe.MAC].us * (1 + SPREAD) + CLOCK_US
    ]
    if len(fast) > BAD_PART * len(products):
        raise _refuse(
            file, fast[0], Column.INPUT_SHAPES, f"{len(fast)} products are faster than the cube"
        )
    other = [row for row in known if type_fault(row) is not None]
    if len(other) > BAD_PART * len(known):
        column = Column.INPUT_TYPES if in_bytes >= max(out_bytes, result) else Column.OUTPUT_TYPES
        raise _refuse(file, other[0], column, f"{len(other)} rows such as: {type_fault(other[0])}")
    for column, spread in ((Column.INPUT_TYPES, in_bytes), (Column.OUTPUT_TYPES, out_bytes)):
        if spread > LARGEST_SPREAD:
            raise _refuse(
                file, known[0], column, "bytes and times of loads and stores differ row by row"
            )


LARGEST_SPREAD = 0.5
"""Rank correlation that bytes and times of a pipe lack at most."""


def _check_types(rows: Sequence[OpRow], file: str) -> None:
    """An operator runs on the cores that it has times of."""
    for task_type, other in (("AI_VECTOR_CORE", "aic"), ("AI_CORE", "aiv")):
        wrong = [
            row
            for row in rows
            if row.task_type.upper() == task_type
            and (row.aic if other == "aic" else row.aiv) is not None
            and (row.aiv if other == "aic" else row.aic) is None
        ]
        wrong += [row for row in rows if row.communicates and row.aic is not None]
        if len(wrong) > BAD_PART * len(rows):
            raise _refuse(
                file, wrong[0], Column.TASK_TYPE, f"{len(wrong)} tasks ran on cores of another kind"
            )
    vector = [row for row in rows if elementwise_of(row) and row.aiv is None]
    matrix = [row for row in rows if product_of(row) and row.aic is None]
    if len(vector) + len(matrix) > BAD_PART * len(rows):
        raise _refuse(
            file,
            (vector or matrix)[0],
            Column.TYPE,
            f"{len(vector) + len(matrix)} operators have no time on the cores that carry them out",
        )


def _cycles_per_us(rows: Sequence[OpRow]) -> float | None:
    pairs = [
        core.cycles / core.us / row.blocks
        for row in rows
        for core in (row.aic, row.aiv)
        if core is not None and row.blocks
    ]
    return float(np.median(pairs)) if pairs else None


def _disagreement(rows: Sequence[OpRow], size: Callable[[OpRow], int], pipe: Pipe) -> float:
    """Returns how much of the rank correlation of bytes and times of a pipe is missing, 0 to 1."""
    known = [row for row in rows if pipe in row.pipes and row.blocks]
    if len(known) < 5:
        return 0.0
    per_core = np.array([size(row) / row.blocks for row in known])
    us = np.array([row.pipes[pipe].us for row in known])
    if len(set(per_core)) < 3 or len(set(us)) < 3:
        return 0.0
    first, second = (np.argsort(np.argsort(values)).astype(np.float64) for values in (per_core, us))
    return float(1 - np.corrcoef(np.stack([first, second]))[0, 1])
