"""The records that a run of the CPU model leaves of each task."""

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
"""One task, from one PrintTimeStamp to the next. Times are ns since the kernel's start.

| field | meaning |
| --- | --- |
| rank, core | where it ran; AICs of the rank count from 0, AIVs from the number of AICs |
| slot | what PrintTimeStamp was given: number of the family, then 24 bits of its grid point |
| event | counter that was short the longest, -1 where none was |
| turn | the core turned to the task |
| ready | its last look at a counter was over; `turn` where it has none |
| start | its body began; `end` where it has none |
| done | its first signal left, all that it wrote being there; `end` where it has none |
| end | the core was free again |
| busy | ns in which the matrix unit, on an AIV the vector unit, worked |
| alone | ns that it would take from its last look at a counter to `done`, shared it nothing |
| signals | how often it added to event counters |
| remote | of these, to counters of other ranks |

A run without clocks has `turn`, as the number of API calls that all cores had made, and the numbers
of signals.
"""


def read_records(directory: Path, dtype: np.dtype[Any]) -> Records:
    """The records of tasks in a job's directory, or those of ranks that follow them."""
    data = (directory / "timeline.bin").read_bytes()
    tasks, ranks = (int(n) for n in np.frombuffer(data, "<u8", 2))
    if dtype == TASK:
        return np.frombuffer(data, TASK, tasks, 16)
    return np.frombuffer(data, dtype, ranks, 16 + tasks * TASK.itemsize)
