"""Records of tasks that a run of the CPU model writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Records: TypeAlias = np.ndarray[Any, np.dtype[Any]]

TASK = np.dtype(
    [
        ("rank", "<i4"),
        ("core", "<i4"),
        ("slot", "<u4"),
        ("event", "<i4"),
        ("turn", "<f8"),
        ("ready", "<f8"),
        ("start", "<f8"),
        ("done", "<f8"),
        ("end", "<f8"),
        ("busy", "<f8"),
        ("alone", "<f8"),
        ("signals", "<u4"),
        ("remote", "<u4"),
    ]
)
"""The record of one task, from one PrintTimeStamp to the next. Times are ns since kernel start.

| field | meaning |
| --- | --- |
| rank, core | core of the task; numbers of AICs begin at 0, of AIVs at the number of AICs |
| slot | argument of PrintTimeStamp: number of the family, then 24 bits of its grid point |
| event | number of the counter that it waited for longest, -1 if it did not wait |
| turn | start of the task's slot in the queue |
| ready | end of its last read of a counter; `turn` if it reads none |
| start | start of its kernel; `end` if it calls none |
| done | its first signal, once all its writes are complete; `end` if it sends none |
| end | end of the task: the core starts its next slot |
| busy | ns in which the matrix unit, on an AIV the vector unit, is busy |
| alone | ns from `ready` to `done` if it shared no bandwidth with other cores |
| signals | number of signals that it sends |
| remote | of these, to counters of other ranks |

A run without clocks has only `turn`, as the number of API calls of all cores so far, and the
numbers of signals.
"""


def read_records(directory: Path, dtype: np.dtype[Any]) -> Records:
    """Reads the records of tasks (`dtype` TASK) or of ranks from a job's directory."""
    data = (directory / "timeline.bin").read_bytes()
    tasks, ranks = (int(n) for n in np.frombuffer(data, "<u8", 2))
    if dtype == TASK:
        return np.frombuffer(data, TASK, tasks, 16)
    return np.frombuffer(data, dtype, ranks, 16 + tasks * TASK.itemsize)
