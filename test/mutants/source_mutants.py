"""Mutants of the device headers and of the generated source.

Statements that order things are dropped one at a time wherever they stand; slots, flag ids, rows
and local addresses are changed where the table below says.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpmoe_ir.run.execution import DEVICE_INCLUDE
from mutants.header_picks import PICKS

MEANINGS = {
    "drop-flag": "One `SetFlag` or `WaitFlag` is missing.",
    "drop-handover": "A `SetFlag` with its `WaitFlag` is missing.",
    "drop-barrier": "A `PipeBarrier` is missing.",
    "drop-sync": "The `DataSyncBarrier` before a signal is missing.",
    "drop-cache": "A `DataCacheCleanAndInvalid` is missing, or one place that needs it.",
    "drop-init": "The word that signals add, or the atomic mode, is not set or not reset.",
    "wrong-flag": "A flag of the other slot is set or waited for.",
    "one-slot": "The first of two buffers is always used.",
    "launch": "Counters are compared with the threshold of another launch, or grow by two.",
    "credit": "Some puts without rows are counted twice, not at all, or signal as well.",
    "wrong-rows": "A task has one row too many or too few, or the rows of another part.",
    "overlap": "Two local buffers share addresses.",
    "early-signal": "A task signals before its work.",
}
"""Meaning of each kind."""


@dataclass(frozen=True)
class HeaderChange:
    """One device header with another text."""

    kind: str
    header: str
    """Below the include directory: `hpmoe/swiglu.h`."""
    line: int
    what: str
    text: str


STATEMENTS = {
    "drop-flag": r"AscendC::(?:SetFlag|WaitFlag)<[^;]*;",
    "drop-handover": r"Handover<AscendC::HardEvent::\w+>\([^;]*;",
    "drop-barrier": r"AscendC::PipeBarrier<\w+>\(\);",
    "drop-sync": r"AscendC::DataSyncBarrier<[^;]*;",
    "drop-cache": r"AscendC::DataCacheCleanAndInvalid<[^;]*;",
    "drop-init": r"InitSignals\(\);|AscendC::SetAtomic(?:Add|None)<?[\w]*>?\(\);",
}
"""Statements that are dropped, by kind."""

REPLACEMENTS = {
    "wrong-flag": (r"((?:SetFlag|WaitFlag|Handover)<[^;(]*\()(slot_?|l0|result)\)", r"\1\2 ^ 1)"),
    "one-slot": (r"% 2\b|slot_ \^= 1", "% 1"),
}
"""Text that is replaced, by kind: what, and by what."""


def header_changes() -> Iterator[HeaderChange]:
    """All changes of the headers."""
    for path in sorted((DEVICE_INCLUDE / "hpmoe").rglob("*.h")):
        text = path.read_text()
        name = path.relative_to(DEVICE_INCLUDE).as_posix()
        for kind, pattern in STATEMENTS.items():
            for match in re.finditer(pattern, text):
                what = "without " + " ".join(match.group().split())
                yield _change(kind, name, text, match.start(), match.end(), "(void)0;", what)
        for kind, (pattern, new) in REPLACEMENTS.items():
            for match in re.finditer(pattern, text):
                other = match.expand(new)
                what = f"{match.group()} is {other}"
                yield _change(kind, name, text, match.start(), match.end(), other, what)
        for pick in PICKS:
            if pick.header == path.name and pick.old in text:
                at = text.index(pick.old)
                what = f"{pick.old} is {pick.new}"
                yield _change(pick.kind, name, text, at, at + len(pick.old), pick.new, what)


def _change(
    kind: str, header: str, text: str, begin: int, end: int, new: str, what: str
) -> HeaderChange:
    line = text.count("\n", 0, begin) + 1
    return HeaderChange(kind, header, line, what, text[:begin] + new + text[end:])


def includes(source: str) -> set[str]:
    """The device headers that a source includes, directly or not."""
    found: set[str] = set()
    todo = re.findall(r'#include "(hpmoe/[\w/]+\.h)"', source)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += re.findall(r'#include "(hpmoe/[\w/]+\.h)"', (DEVICE_INCLUDE / name).read_text())
    return found


@dataclass(frozen=True)
class SourceChange:
    """A generated source with another text."""

    kind: str
    what: str
    text: str
    early: tuple[str, int] | None = None
    """A signal that is sent too early: the family's function, and which of its signals."""


def _functions(source: str) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of each family's function."""
    for match in re.finditer(r"__aicore__ inline void (\w+)\(const hpmoe::Env& env", source):
        yield match.group(1), match.start(), source.index("\n}\n", match.start())


def _other_credit(lines: list[str], i: int) -> Iterator[tuple[list[str], str]]:
    """A credit that is not given, or twice; the signal of a put sent without rows too."""
    if lines[i].startswith("  Credit"):
        yield [*lines[:i], *lines[i + 1 :]], "is missing"
        yield [*lines[:i], lines[i], *lines[i:]], "comes twice"
    if lines[i].startswith("    env.Signal"):
        end = lines.index("  }", i)
        moved = [*lines[:i], *lines[i + 1 : end + 1], lines[i][2:], *lines[end + 1 :]]
        yield moved, "whatever the rows"


WRONG_ROWS = (
    (r"route\.Dest\(", "route.Sent("),
    (r"route\.Sent\(", "route.Dest("),
    (r"route\.Grouped\(\s*e,", "route.Grouped((e + 1) % 2,"),
    (r"\+ 1\) \*\s+env\.Ranks\(\)", "+ 0) * env.Ranks()"),
)


def source_changes(source: str) -> Iterator[SourceChange]:
    """Signals before the work, other credits, other rows."""
    for name, begin, end in _functions(source):
        body = source[begin:end]
        lines = body.split("\n")
        signals = [i for i, line in enumerate(lines) if line.strip().startswith("env.Signal")]
        for number, i in enumerate(signals):
            first = next(j for j, line in enumerate(lines) if "hpmoe::Tile" in line)
            moved = [*lines[:i], *lines[i + 1 :]]
            moved.insert(first, lines[i])
            text = source[:begin] + "\n".join(moved) + source[end:]
            what = f"{name}: {lines[i].strip()}"
            yield SourceChange("early-signal", what, text, (name, number))
        for i, line in enumerate(lines):
            for changed, how in _other_credit(lines, i):
                text = source[:begin] + "\n".join(changed) + source[end:]
                yield SourceChange("credit", f"{name}: {line.strip()} {how}", text)
        for pattern, new in WRONG_ROWS:
            for match in re.finditer(pattern, body):
                text = source[: begin + match.start()] + new + source[begin + match.end() :]
                yield SourceChange("wrong-rows", f"{name}: {match.group()} is {new}", text)


def patched_headers(directory: Path, change: HeaderChange) -> Path:
    """An include directory below `directory` with one header changed."""
    shutil.copytree(DEVICE_INCLUDE / "hpmoe", directory / "hpmoe")
    (directory / change.header).write_text(change.text)
    return directory
