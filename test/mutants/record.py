"""The record of all mutants, one line each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mutants.explained import explain
from mutants.kinds import layer_of
from mutants.mutant import Outcome, Watcher

RECORD = Path(__file__).parent / "outcomes.txt"


@dataclass(frozen=True)
class Record:
    """What is kept of an outcome."""

    id: str
    watcher: Watcher
    run: str
    """What a run shows: a kind of fault, `wrong result`, `nothing`, or `-` where nothing ran."""
    oracle: str
    """`harmful` or `harmless` by the oracle of orders, `-` where it was not asked."""
    reason: str
    """Why a survivor is equivalent; empty for others."""

    @property
    def kind(self) -> str:
        """`drop-wait`."""
        return self.id.split(":")[1]

    @property
    def layer(self) -> str:
        """Where the mutant was made."""
        return layer_of(self.id)

    @property
    def open(self) -> bool:
        """Whether nobody noticed it and nobody can say why."""
        return self.watcher is Watcher.NOBODY and not self.reason

    @property
    def line(self) -> str:
        """The line of the record."""
        return " | ".join([self.id, self.watcher.value, self.run, self.oracle, self.reason or "-"])


def to_record(outcome: Outcome) -> Record:
    """What is kept of an outcome."""
    run = "-"
    if outcome.run is not None:
        run = outcome.run.kind or outcome.run.watcher.value.replace("nobody", "nothing")
    oracle = "-" if outcome.harm is None else "harmful" if outcome.harm else "harmless"
    watcher = outcome.noticed.watcher
    reason = explain(outcome) if watcher is Watcher.NOBODY else ""
    return Record(outcome.id, watcher, run, oracle, reason)


def record_text(records: Iterable[Record]) -> str:
    """The record's text."""
    return "".join(f"{r.line}\n" for r in sorted(records, key=lambda r: r.id))


def read_record(path: Path = RECORD) -> list[Record]:
    """The committed record."""
    if not path.is_file():
        return []
    records: list[Record] = []
    for line in path.read_text().splitlines():
        id, watcher, run, oracle, reason = line.split(" | ")
        records.append(Record(id, Watcher(watcher), run, oracle, reason.strip("-")))
    return records
