"""What a mutant is, and what can become of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from hpmoe_ir.dialects.queue import ProgramOp
from hpmoe_ir.lowering.program import LoweredProgram


@dataclass(frozen=True)
class Change:
    """One change of a queue program in place."""

    what: str
    """The op and what is changed."""
    apply: Callable[[ProgramOp], None]


Kind = Callable[[ProgramOp], Iterator[Change]]
"""All changes of one kind that a program allows."""


@dataclass(frozen=True)
class Code:
    """What runs: a program's source and table, and where its headers are."""

    program: LoweredProgram
    source: str
    table: bytes
    include: Path


class Watcher(Enum):
    """Who notices a mutant, in the order in which they are asked."""

    OPS = "op verifiers"
    QUEUES = "verify-queues"
    LOWERING = "lowering"
    DETECTOR = "detector"
    RESULT = "wrong result"
    NOBODY = "nobody"


@dataclass(frozen=True)
class Notice:
    """Who noticed a mutant first, and what was said."""

    watcher: Watcher
    kind: str = ""
    """The kind of fault, for the detector."""
    message: str = ""
    seed: int | None = None
    """The order of the cores that showed it."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    id: str
    what: str
    static: Notice | None
    """Who refused it before any run."""
    run: Notice | None
    """What a run shows, also of what was refused; None where there is nothing to run."""
    harm: str | None = None
    """IR only: a needed order that is missing, as the oracle finds it; empty where none is."""

    @property
    def noticed(self) -> Notice:
        """Who noticed it first."""
        return self.static or self.run or Notice(Watcher.NOBODY)
