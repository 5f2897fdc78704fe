"""Bytes of collectives in the timeline that msprof exports: `msprof_*.json`, `trace_view.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from hpmoe_ir.diagnostics import InputError

SIZE = "size(Byte)"
SOURCE = "src rank"
TARGET = "dst rank"
RANKS = "rank_size"


@dataclass(frozen=True)
class Transfer:
    """A task of a collective that moves bytes between two ranks. `start` is in us."""

    start: float
    duration: float
    bytes: int
    source: int
    target: int


@dataclass(frozen=True)
class Timeline:
    """The transfers of a profile, in the order of the file, and the largest group of ranks."""

    transfers: tuple[Transfer, ...]
    ranks: int | None


def read_trace_view(text: str, file: str) -> Timeline:
    """Reads the transfers of a timeline in the Chrome trace event format.

    The file is a list of events, or an object with the list `traceEvents`. Raises InputError for
    anything else, and for a transfer without its time, ranks or size.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise InputError(f"not a JSON file: {e}", file) from e
    events = cast("dict[str, Any]", data).get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(events, list):
        raise InputError("expected a list of trace events", file)
    transfers: list[Transfer] = []
    ranks: list[int] = []
    for event in cast("list[Any]", events):
        if not isinstance(event, dict):
            continue
        fields = cast("dict[str, Any]", event)
        arguments = fields.get("args")
        if not isinstance(arguments, dict):
            continue
        values = cast("dict[str, Any]", arguments)
        try:
            if RANKS in values:
                ranks.append(int(values[RANKS]))
            if SIZE in values and _between_ranks(values):
                transfers.append(
                    Transfer(
                        float(fields["ts"]),
                        float(fields["dur"]),
                        int(values[SIZE]),
                        int(values[SOURCE]),
                        int(values[TARGET]),
                    )
                )
        except (KeyError, TypeError, ValueError) as e:
            raise InputError(
                f"a transfer: expected ts, dur, '{SIZE}', '{SOURCE}' and '{TARGET}' as numbers "
                f"({type(e).__name__}: {e})",
                file,
            ) from e
    return Timeline(tuple(transfers), max(ranks, default=None))


LOCAL = 2**32 - 1
"""Number of a rank in a copy within the rank."""


def _between_ranks(values: dict[str, Any]) -> bool:
    """Whether a task of a collective has two different ranks."""
    ranks = [values.get(name) for name in (SOURCE, TARGET)]
    return all(isinstance(r, int) and r < LOCAL for r in ranks) and ranks[0] != ranks[1]


def trace_view_file(transfers: Iterable[Transfer], ranks: int) -> bytes:
    """Returns a timeline with `transfers`, one event a line."""
    events: Sequence[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "Communication"}},
        *(
            {
                "ph": "X",
                "pid": 1,
                "tid": 0,
                "name": "Memcpy",
                "ts": f"{t.start:.3f}",
                "dur": round(t.duration, 3),
                "args": {SIZE: t.bytes, SOURCE: t.source, TARGET: t.target, RANKS: ranks},
            }
            for t in transfers
        ),
    ]
    return ("[\n" + ",\n".join(json.dumps(event) for event in events) + "\n]\n").encode()
