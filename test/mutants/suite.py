"""All mutants, cut into pieces of work, and what becomes of each."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from typing_extensions import TypeVar

from hpmoe_ir.dialects.queue import ProgramOp, signals_of
from hpmoe_ir.lowering.plan.sizes import camel
from hpmoe_ir.run.execution import DEVICE_INCLUDE
from mutants.header_picks import PICKS
from mutants.judge import find_harm, judge_change, run_code
from mutants.kinds import IR_KINDS, TABLE_KINDS, kind_name
from mutants.mutant import Code, Notice, Outcome, Watcher
from mutants.source_mutants import (
    HeaderChange,
    header_changes,
    includes,
    patched_headers,
    source_changes,
)
from mutants.starts import HEADER_STARTS, STARTS, Program, Start, compile_start, program_op
from mutants.table_mutants import changed_table

T = TypeVar("T")

IR_MOST, TABLE_MOST, HEADER_MOST, PICKED_MOST = 1, 2, 2, 6
"""Mutants of a kind that are made from one program, or from one header."""

PICKED = frozenset(pick.kind for pick in PICKS)
"""Kinds of header changes that are named one by one."""

HEADER_SEEDS = 4
"""Orders for a change of a header: what is wrong inside a kernel is so in every order."""


@dataclass(frozen=True)
class Work:
    """Mutants that one process judges: of one start, or of one device header."""

    layer: str
    start: Start | None = None
    header: str = ""

    @property
    def name(self) -> str:
        """The first part of the names of its mutants."""
        return self.header if self.start is None else self.start.name


def all_work() -> list[Work]:
    """All pieces of work, the longest first."""
    used = {h for s in HEADER_STARTS for h in includes(compile_start(s).kernel.source)}
    headers = sorted({c.header for c in header_changes()} & used)
    work = [Work("device headers", None, header) for header in headers]
    work += [Work("generated source", s) for s in STARTS if s.ranks == 2]
    work += [Work("task table", s) for s in STARTS if s.policy == "depth-first"]
    return work + [Work("queue IR", s) for s in sorted(STARTS, key=lambda s: -s.ranks)]


def _sample(
    name: str, kind: str, changes: Sequence[T], most: int, only: Sequence[str]
) -> list[tuple[str, T]]:
    """At most `most` changes with their names, the same ones each time; or all named in `only`.

    Programs that differ in the ranks alone have mostly the same changes in the same order, and get
    the same numbers: what changes the source is then built once. Nor does the folder of a header
    change what is chosen.
    """
    if only:
        named = [(f"{name}:{kind}:{i}", change) for i, change in enumerate(changes)]
        return [(id, change) for id, change in named if _wanted(id, only)]
    chosen = random.Random(re.sub(r"/(\d+|detail)/", "/", f"{name}:{kind}"))
    numbers = sorted(chosen.sample(range(len(changes)), min(most, len(changes))))
    return [(f"{name}:{kind}:{i}", changes[i]) for i in numbers]


def _wanted(id: str, only: Sequence[str]) -> bool:
    return any(id == name or id.startswith(f"{name}:") for name in only)


def judge_work(work: Work, only: Sequence[str] = ()) -> list[Outcome]:
    """What becomes of the sampled mutants of a piece of work, or of all that `only` names.

    `only` has names of mutants, or beginnings of many: `forward/4/depth-first:drop-wait`.
    """
    judges = {
        "queue IR": _judge_ir,
        "task table": _judge_table,
        "generated source": _judge_source,
        "device headers": _judge_headers,
    }
    return list(judges[work.layer](work, only))


def _judge_ir(work: Work, only: Sequence[str]) -> Iterator[Outcome]:
    assert work.start is not None
    start = compile_start(work.start)
    for kind in IR_KINDS:
        changes = list(kind(program_op(start.module)))
        for id, change in _sample(work.start.name, kind_name(kind), changes, IR_MOST, only):
            yield judge_change(start, id, change)


def right_code(start: Program) -> Code:
    """The code of a right program."""
    kernel = start.kernel
    return Code(kernel.program, kernel.source, kernel.table, DEVICE_INCLUDE)


def _judge_table(work: Work, only: Sequence[str]) -> Iterator[Outcome]:
    assert work.start is not None
    start = compile_start(work.start)
    code = right_code(start)
    for kind in TABLE_KINDS:
        changes = list(kind(code))
        for id, change in _sample(work.start.name, kind_name(kind), changes, TABLE_MOST, only):
            harm = None
            if change.same is not None:
                program = program_op(start.module.clone())
                change.same.apply(program)
                harm = find_harm(program)
            broken = replace(code, table=changed_table(code.table, change))
            yield Outcome(id, change.what, None, run_code(start, broken), harm)


def _judge_source(work: Work, only: Sequence[str]) -> Iterator[Outcome]:
    assert work.start is not None
    start = compile_start(work.start)
    changes = list(source_changes(start.kernel.source))
    for kind in dict.fromkeys(c.kind for c in changes):
        own = [c for c in changes if c.kind == kind]
        for id, change in _sample(work.start.name, kind, own, TABLE_MOST, only):
            harm = None
            if change.early is not None:
                program = program_op(start.module)
                harm = find_harm(program, _signal_number(program, *change.early))
            broken = replace(right_code(start), source=change.text)
            yield Outcome(id, change.what, None, run_code(start, broken), harm)


def _signal_number(program: ProgramOp, function: str, number: int) -> int:
    """The number in the program of one of the signals of the family of a function."""
    signals = signals_of(program)
    own = [i for i, s in enumerate(signals) if camel(s.family_name) == function]
    # As the code sends them: those that are credited come last.
    return sorted(own, key=lambda i: signals[i].credit is not None)[number]


def _judge_headers(work: Work, only: Sequence[str]) -> Iterator[Outcome]:
    changes = [c for c in header_changes() if c.header == work.header]
    for kind in dict.fromkeys(c.kind for c in changes):
        own = [c for c in changes if c.kind == kind]
        most = PICKED_MOST if kind in PICKED else HEADER_MOST
        for id, change in _sample(work.header, kind, own, most, only):
            yield Outcome(id, f"line {change.line}: {change.what}", None, _run_header(change))


def _run_header(change: HeaderChange) -> Notice:
    notice = Notice(Watcher.NOBODY)
    with tempfile.TemporaryDirectory() as name:
        include = patched_headers(Path(name), change)
        for start in map(compile_start, HEADER_STARTS):
            if change.header in includes(start.kernel.source):
                broken = replace(right_code(start), include=include)
                notice = run_code(start, broken, HEADER_SEEDS)
                if notice.watcher is not Watcher.NOBODY:
                    break
    return notice
