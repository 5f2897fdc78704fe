"""Rows of operators as msprof exports them: `op_summary_*.csv`, and `kernel_details.csv` of the
framework profilers, which has the same columns under shorter names."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from hpmoe_ir.diagnostics import InputError


class Column(StrEnum):
    """A column that is read; the value is its name in `op_summary_*.csv`."""

    STREAM = "Stream ID"
    NAME = "Op Name"
    TYPE = "OP Type"
    TASK_TYPE = "Task Type"
    START = "Task Start Time(us)"
    DURATION = "Task Duration(us)"
    WAIT = "Task Wait Time(us)"
    BLOCKS = "Block Dim"
    INPUT_SHAPES = "Input Shapes"
    INPUT_TYPES = "Input Data Types"
    OUTPUT_SHAPES = "Output Shapes"
    OUTPUT_TYPES = "Output Data Types"
    AIC_TIME = "aicore_time(us)"
    AIC_CYCLES = "aic_total_cycles"
    AIV_TIME = "aiv_time(us)"
    AIV_CYCLES = "aiv_total_cycles"


class Pipe(StrEnum):
    """A pipe of a core; the value begins the names of its columns."""

    MAC = "aic_mac"
    MTE1 = "aic_mte1"
    AIC_MTE2 = "aic_mte2"
    FIXPIPE = "aic_fixpipe"
    VEC = "aiv_vec"
    AIV_MTE2 = "aiv_mte2"
    MTE3 = "aiv_mte3"

    @property
    def time_column(self) -> str:
        """Name of the column with the mean time in us over the cores of a task."""
        return f"{self}_time(us)"

    @property
    def ratio_column(self) -> str:
        """Name of the column with that time over the time of a core."""
        return f"{self}_ratio"

    @property
    def is_cube(self) -> bool:
        """Whether it is a pipe of the matrix cores."""
        return self.value.startswith("aic")


SHORT_NAMES = {
    Column.NAME: "Name",
    Column.TYPE: "Type",
    Column.TASK_TYPE: "Accelerator Core",
    Column.START: "Start Time(us)",
    Column.DURATION: "Duration(us)",
    Column.WAIT: "Wait Time(us)",
}
"""Names in `kernel_details.csv` that differ."""

ELEMENT_BYTES = {
    "FLOAT": 4,
    "DT_FLOAT": 4,
    "FLOAT32": 4,
    "INT32": 4,
    "DT_INT32": 4,
    "FLOAT16": 2,
    "DT_FLOAT16": 2,
    "BF16": 2,
    "DT_BF16": 2,
    "BFLOAT16": 2,
    "INT8": 1,
    "DT_INT8": 1,
    "BOOL": 1,
    "DT_BOOL": 1,
    "INT64": 8,
    "DT_INT64": 8,
}
"""Bytes of an element, by the name of its type in a profile."""

COMMUNICATION = frozenset({"HCCL", "COMMUNICATION"})
"""Values of `Task Type` of collectives; theirs depends on the version of CANN."""


@dataclass(frozen=True)
class Tensor:
    """Shape and element type of an operand."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes in memory."""
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class PipeTime:
    """What a row says of a pipe: mean time over the cores in us, and the part of a core's time."""

    us: float
    ratio: float


@dataclass(frozen=True)
class CoreTime:
    """What a row says of the cores of a kind: mean time in us, and cycles of all together."""

    us: float
    cycles: float


@dataclass(frozen=True)
class OpRow:
    """One task of a profile. Times are in us."""

    line: int
    """Line of the file, from 1."""
    stream: str
    name: str
    op_type: str
    task_type: str
    start: float
    duration: float
    wait: float
    """Time since the end of the task before."""
    blocks: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    aic: CoreTime | None
    aiv: CoreTime | None
    pipes: dict[Pipe, PipeTime]

    @property
    def communicates(self) -> bool:
        """Whether it is a collective."""
        return self.task_type.upper() in COMMUNICATION

    @property
    def end(self) -> float:
        """End of the task."""
        return self.start + self.duration

    def core(self, pipe: Pipe) -> CoreTime | None:
        """Returns the times of the cores that have `pipe`."""
        return self.aic if pipe.is_cube else self.aiv


REQUIRED = (
    Column.NAME,
    Column.TYPE,
    Column.TASK_TYPE,
    Column.START,
    Column.DURATION,
    Column.WAIT,
    Column.BLOCKS,
    Column.INPUT_SHAPES,
    Column.INPUT_TYPES,
    Column.OUTPUT_SHAPES,
    Column.OUTPUT_TYPES,
)
"""Columns without which nothing can be fitted."""


def read_op_summary(text: str, file: str) -> list[OpRow]:
    """Returns the rows of a file, sorted as they are in it.

    Columns of pipes may be missing, as they are when the profile was collected without metrics.
    Raises InputError for a missing column and for a cell that is not what its column holds.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""))
    names = [name.strip() for name in reader.fieldnames or ()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"the column '{twice[0]}' is there twice", file)
    reader.fieldnames = names
    for column in REQUIRED:
        short = SHORT_NAMES.get(column, column.value)
        if column.value not in names and short not in names:
            raise InputError(f"no column '{column}', as op_summary_*.csv of msprof has it", file)
    try:
        rows = [_Cells(file, reader.line_num, record).row() for record in reader]
    except csv.Error as e:
        raise InputError(f"not a CSV file: {e}", file) from e
    if not rows:
        raise InputError("expected rows of operators, found none", file)
    return rows


@dataclass(frozen=True)
class _Cells:
    """The cells of one line."""

    file: str
    line: int
    record: dict[str, str]

    def row(self) -> OpRow:
        # DictReader keeps surplus cells and fills missing ones under or with None.
        if any(
            cell is None for cell in cast("list[object]", [*self.record, *self.record.values()])
        ):
            raise InputError("expected as many cells as columns", f"{self.file}:{self.line}")
        aic = self.cores(Column.AIC_TIME, Column.AIC_CYCLES, "aic")
        aiv = self.cores(Column.AIV_TIME, Column.AIV_CYCLES, "aiv")
        pipes = {
            pipe: time
            for pipe in Pipe
            if (time := self.pipe(pipe, aic if pipe.is_cube else aiv)) is not None
        }
        return OpRow(
            line=self.line,
            stream=self.record.get(Column.STREAM.value, ""),
            name=self.text(Column.NAME),
            op_type=self.text(Column.TYPE),
            task_type=self.text(Column.TASK_TYPE),
            start=self.number(Column.START),
            duration=self.number(Column.DURATION),
            wait=self.number(Column.WAIT),
            blocks=int(self.optional(Column.BLOCKS) or 0),
            inputs=self.tensors(Column.INPUT_SHAPES, Column.INPUT_TYPES),
            outputs=self.tensors(Column.OUTPUT_SHAPES, Column.OUTPUT_TYPES),
            aic=aic,
            aiv=aiv,
            pipes=pipes,
        )

    def text(self, column: str) -> str:
        name = column if column in self.record else SHORT_NAMES.get(Column(column), column)
        return self.record[name].strip().strip('"')

    def optional(self, column: str) -> float | None:
        """Returns a number, None where the cell or the column has none."""
        if column not in self.record and column not in SHORT_NAMES:
            return None
        text = self.text(column)
        if text in ("", "N/A"):
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise self.error(column, f"expected a number of at least 0, found '{text}'")
        return value

    def number(self, column: str) -> float:
        value = self.optional(column)
        if value is None:
            raise self.error(column, "expected a number, found none")
        return value

    def cores(self, time: str, cycles: str, kind: str) -> CoreTime | None:
        """Returns the times of the cores of a kind, None if the task did not run on them.

        Raises InputError if only one of the columns has them: the one that the pipes contradict.
        """
        us, count = self.optional(time), self.optional(cycles)
        if us and count:
            return CoreTime(us, count)
        if us or count:
            pipes = [pipe for pipe in Pipe if pipe.value.startswith(kind)]
            ran = 2 * sum(self.optional(pipe.time_column) is not None for pipe in pipes)
            if ran > len(pipes):
                column, other = (cycles, time) if us else (time, cycles)
                raise self.contradicts(column, f"it has none where '{other}' has a number")
            column = time if us else cycles
            raise self.contradicts(column, "it has a number where no pipe of the core has one")
        return None

    def pipe(self, pipe: Pipe, core: CoreTime | None) -> PipeTime | None:
        """Returns the time of a pipe, None if the task did not use it.

        Raises InputError if only one of its columns has it: the one that the core contradicts.
        """
        time, part = pipe.time_column, pipe.ratio_column
        us, ratio = self.optional(time), self.optional(part)
        if us is not None and ratio is not None:
            return PipeTime(us, ratio)
        if us is None and ratio is None:
            return None
        if core is not None:
            column, other = (time, part) if us is None else (part, time)
            raise self.contradicts(column, f"it has none where '{other}' has a number")
        column = part if us is None else time
        raise self.contradicts(column, "it has a number where the core has none")

    def contradicts(self, column: str, message: str) -> InputError:
        return InputError(
            f"column '{column}' does not belong to the others: {message}",
            f"{self.file}:{self.line}",
        )

    def tensors(self, shapes: Column, types: Column) -> tuple[Tensor, ...]:
        text, names = self.text(shapes), self.text(types)
        empty = [value in ("", "N/A") for value in (text, names)]
        if all(empty):
            return ()
        if any(empty):
            collective = self.text(Column.TASK_TYPE).upper() in COMMUNICATION
            column = shapes if empty[0] is not collective else types
            raise self.contradicts(column, f"one of '{shapes}' and '{types}' has no value")
        parts, dtypes = text.split(";"), names.split(";")
        if len(parts) != len(dtypes):
            raise InputError(
                f"columns '{shapes}' and '{types}' do not belong together: {len(parts)} shapes, "
                f"{len(dtypes)} types",
                f"{self.file}:{self.line}",
            )
        return tuple(self.tensor(shapes, types, *p) for p in zip(parts, dtypes, strict=True))

    def tensor(self, column: Column, types: Column, shape: str, dtype: str) -> Tensor:
        try:
            dims = tuple(int(size) for size in shape.split(",") if size.strip())
        except ValueError:
            dims = (-1,)
        if any(size < 0 for size in dims):
            raise self.error(column, f"expected sizes separated by commas, found '{shape}'")
        if dtype.strip().upper() not in ELEMENT_BYTES:
            raise self.error(types, f"unknown data type '{dtype}'")
        return Tensor(dims, dtype.strip().upper())

    def error(self, column: str, message: str) -> InputError:
        return InputError(f"column '{column}': {message}", f"{self.file}:{self.line}")


def op_summary_file(rows: Sequence[OpRow]) -> bytes:
    """Returns rows as msprof writes them: times in us with three decimals."""
    out = io.StringIO(newline="")
    header = [column.value for column in Column]
    for pipe in Pipe:
        header += [pipe.time_column, pipe.ratio_column]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        cells = [row.stream, row.name, row.op_type, row.task_type]
        cells += [_us(row.start), _us(row.duration), _us(row.wait), str(row.blocks)]
        for tensors in (row.inputs, row.outputs):
            shapes = ";".join(",".join(map(str, t.shape)) for t in tensors)
            cells += [f'"{shapes}"' if tensors else "N/A"]
            cells += [";".join(t.dtype for t in tensors) or "N/A"]
        for core in (row.aic, row.aiv):
            cells += [_us(core.us), f"{core.cycles:.0f}"] if core else ["0", "0"]
        for pipe in Pipe:
            time = row.pipes.get(pipe)
            cells += [_us(time.us), f"{time.ratio:.3f}"] if time else ["N/A", "N/A"]
        writer.writerow(cells)
    return out.getvalue().encode()


def _us(value: float) -> str:
    return f"{value:.3f}"
