"""Faults that the CPU model reports: errors of device code, and runs that do not end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_WAITING = 8
"""Number of waiting cores that a report lists; more would hide the fault itself."""


@dataclass(frozen=True)
class Waiting:
    """A core that waits and can't proceed.

    `offset` is in bytes from the start of `allocation`, or the id of a cross-core flag; `value` is
    the value that the core read last, `memory` the current one: they differ where the core kept
    reading its data cache.
    """

    rank: int
    core: str
    marker: int | None
    allocation: str
    offset: int
    value: int
    memory: int
    reason: str
    location: str
    task: str = ""
    """Name and grid point of its task, where the program is known."""
    event: str = ""
    """The event that it waits for and the tasks that signal it, where the program is known."""

    def __str__(self) -> str:
        who = f"rank {self.rank} {self.core}"
        who = f"{self.task} on {who}" if self.task else f"{who}{_at(self.marker)}"
        seen = f", memory holds {self.memory}" if self.memory != self.value else ""
        what = f"{self.allocation} + {self.offset}, saw {self.value}{seen}"
        match self.reason:
            case _ if self.event:
                seen = f"; saw {self.value}" if seen else ""
                return f"{who} waits for {self.event}{seen} ({self.location})"
            case "CrossCoreWaitFlag":
                what = f"flag {self.offset}"
            case "SyncAll":
                what = "all cores"
            case _:
                pass
        return f"{who} waits in {self.reason} for {what} ({self.location})"


@dataclass(frozen=True)
class Party:
    """The earlier of two unordered calls: its core, and file and line in the kernel."""

    rank: int
    core: str
    marker: int | None
    location: str
    api: str


@dataclass(frozen=True)
class MemoryRange:
    """Bytes `begin` to `end` of an allocation in global memory of a rank, or of a local memory (L1,
    L0A, L0B, L0C, UB) of one of its cores."""

    allocation: str
    rank: int
    begin: int
    end: int


class DeviceFault(RuntimeError):
    """Raised if a kernel violates a rule of the chip, races, or does not end.

    kind: address, alignment, capacity, overlap, range, event-id, flag, core-kind, state, cache,
    counter, uninitialised, stale, pipe, race, drain, line, unsupported, trap, wait, deadlock,
    livelock, timeout or crash.
    marker: the core's last PrintTimeStamp value. location: file and line of the kernel's call.
    waiting: the cores that wait, in a deadlock or livelock. other, memory: for two unordered calls,
    the earlier one and the bytes that both access.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        rank: int | None = None,
        core: str | None = None,
        marker: int | None = None,
        location: str = "",
        waiting: Sequence[Waiting] = (),
        other: Party | None = None,
        memory: MemoryRange | None = None,
    ):
        self.kind = kind
        self.message = message
        self.rank = rank
        self.core = core
        self.marker = marker
        self.location = location
        self.waiting = tuple(waiting)
        self.other = other
        self.memory = memory
        super().__init__(self.report())

    @property
    def waits(self) -> bool:
        """Whether the core at fault is among the listed waiting cores."""
        return (self.rank, self.core) in [(w.rank, w.core) for w in self.waiting[:MAX_WAITING]]

    def report(self) -> str:
        """Returns the text of the fault: a line, then one for each of MAX_WAITING waiting cores."""
        place = f"{self.location}: " if self.location else ""
        who = ""
        if self.rank is not None and not self.waits:
            who = f" (rank {self.rank} {self.core}{_at(self.marker)})"
        lines = [f"{place}{self.kind}: {self.message}{who}"]
        if (o := self.other) is not None:
            lines.append(
                f"  the other: {o.api} of rank {o.rank} {o.core}{_at(o.marker)} ({o.location})"
            )
        lines += [f"  {waiting}" for waiting in self.waiting[:MAX_WAITING]]
        if len(self.waiting) > MAX_WAITING:
            lines.append(f"  and {len(self.waiting) - MAX_WAITING} more")
        return "\n".join(lines)


def _at(marker: int | None) -> str:
    return "" if marker is None else f" at {marker}"


def _marker(value: Any) -> int | None:
    return None if value is None or value < 0 else int(value)


def read_fault(path: Path) -> DeviceFault:
    """Reads a fault from the file `fault.json` of a run."""
    data: dict[str, Any] = json.loads(path.read_text())
    entries: list[dict[str, Any]] = data["waiting"]
    for entry in entries:
        entry["marker"] = _marker(entry["marker"])
    other: dict[str, Any] | None = data.get("other")
    if other is not None:
        other["marker"] = _marker(other["marker"])
    memory: dict[str, Any] | None = data.get("memory")
    return DeviceFault(
        data["kind"],
        data["message"],
        rank=data.get("rank"),
        core=data.get("core"),
        marker=_marker(data.get("marker")),
        location=data["location"],
        waiting=[Waiting(**entry) for entry in entries],
        other=None if other is None else Party(**other),
        memory=None if memory is None else MemoryRange(**memory),
    )
