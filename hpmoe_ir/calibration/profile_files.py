"""The files of a profile: one CSV file of operators and, if there is one, one timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpmoe_ir.calibration.op_summary import OpRow, read_op_summary
from hpmoe_ir.calibration.trace_view import Timeline, read_trace_view
from hpmoe_ir.diagnostics import InputError

TABLES = ("op_summary*.csv", "kernel_details*.csv")
TIMELINES = ("msprof*.json", "trace_view*.json")


@dataclass(frozen=True)
class Profile:
    """The rows and the timeline of a profile."""

    file: str
    """The file of the rows."""
    rows: Sequence[OpRow]
    timeline: Timeline | None


def read_profile(path: Path) -> Profile:
    """Reads a CSV file, or the directory that holds it and the timeline.

    Raises InputError if there is none, or more than one, and for what the files can't hold.
    """
    if not path.is_dir():
        return Profile(str(path), read_op_summary(_text(path), str(path)), None)
    table = _only(path, TABLES)
    if table is None:
        raise InputError(f"expected a file {' or '.join(TABLES)} in the directory", str(path))
    timeline = _only(path, TIMELINES)
    events = None if timeline is None else read_trace_view(_text(timeline), str(timeline))
    return Profile(str(table), read_op_summary(_text(table), str(table)), events)


def _only(directory: Path, patterns: Sequence[str]) -> Path | None:
    """Returns the file of the first pattern that has one. Raises InputError if it has several."""
    for pattern in patterns:
        found = sorted(directory.glob(pattern))
        if len(found) > 1:
            raise InputError(
                f"expected one file {pattern}, found {found[0].name} and {found[1].name}; a "
                "profile is of one device",
                str(directory),
            )
        if found:
            return found[0]
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as e:
        raise InputError(f"can't read the file: {e.strerror}", str(path)) from e
    except UnicodeDecodeError as e:
        raise InputError("expected text in UTF-8", str(path)) from e
