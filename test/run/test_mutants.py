"""Mutants of compiled programs: the record is what the tool finds today, and it is good enough.

The tool is test/mutants; `make mutants` judges all and writes the record and docs/mutants.md.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest
from mutants.judge import find_harm, run_code
from mutants.kinds import IR_KINDS, LAYERS, TABLE_KINDS, kind_name
from mutants.mutant import Watcher
from mutants.page import PAGE, WITHOUT_RESULTS, page_text
from mutants.record import Record, read_record, to_record
from mutants.starts import STARTS, Start, compile_start, program_op
from mutants.suite import Work, all_work, judge_work, right_code

from hpmoe_ir.passes.verify_queues import verify_queues

SAMPLE = {
    Work("queue IR", Start("forward", 2, "published")): 8,
    Work("queue IR", Start("backward", 4, "depth-first")): 8,
    Work("queue IR", Start("forward", 1, "operator-order")): 6,
    Work("task table", Start("backward", 2, "depth-first")): 6,
    Work("generated source", Start("forward", 2, "depth-first")): 2,
    Work("device headers", None, "hpmoe/counters.h"): 1,
    Work("device headers", None, "hpmoe/put_rows.h"): 1,
}
"""How many mutants of each piece of work are judged again."""


@pytest.fixture(scope="module")
def record() -> list[Record]:
    """The committed record."""
    return read_record()


def test_page_is_made_from_record(record: list[Record]) -> None:
    assert PAGE.read_text() == page_text(record), "run `make mutants`"


def test_record_has_all_kinds(record: list[Record]) -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for r in record:
        kinds[r.layer].add(r.kind)
    assert len(record) >= 300
    assert set(kinds) == set(LAYERS)
    assert kinds["queue IR"] == set(map(kind_name, IR_KINDS))
    assert kinds["task table"] == set(map(kind_name, TABLE_KINDS))
    starts = {r.id.split(":")[0] for r in record if r.layer == "queue IR"}
    assert starts == {s.name for s in STARTS}
    headers = {r.id.split(":")[0] for r in record if r.layer == "device headers"}
    assert headers == {w.name for w in all_work() if w.layer == "device headers"}


def test_nothing_that_misbehaves_goes_unnoticed(record: list[Record]) -> None:
    assert [r.line for r in record if r.open] == []
    accepted = [
        r.line
        for r in record
        if r.layer == "queue IR" and r.oracle == "harmful" and r.watcher is not Watcher.QUEUES
    ]
    assert accepted == [], "verify-queues accepts what the oracle finds harmful"


def test_most_are_noticed_without_results(record: list[Record]) -> None:
    count = Counter(r.watcher for r in record)
    without = sum(count[w] for w in WITHOUT_RESULTS)
    assert without >= 0.9 * (without + count[Watcher.RESULT])


@pytest.mark.parametrize("work", SAMPLE, ids=lambda w: w.name)
def test_sample_of_record(work: Work, record: list[Record]) -> None:
    """Who notices, and what the oracle says, is as recorded."""
    own = [r for r in record if r.layer == work.layer and r.id.startswith(f"{work.name}:")]
    chosen = random.Random(f"{work.layer} {work.name}").sample(own, SAMPLE[work])
    found = [to_record(o) for o in judge_work(work, [r.id for r in chosen])]
    by_id = {r.id: (r.watcher, r.oracle, r.reason) for r in found}
    for r in chosen:
        assert by_id[r.id] == (r.watcher, r.oracle, r.reason), f"{r.id}: run `make mutants`"


@pytest.mark.parametrize("start", [w.start for w in SAMPLE if w.start], ids=lambda s: s.name)
def test_right_program_passes(start: Start) -> None:
    """What mutants are made from disturbs no watcher."""
    program = compile_start(start)
    verify_queues(program_op(program.module))
    assert find_harm(program_op(program.module)) == ""
    assert run_code(program, right_code(program), 3).watcher is Watcher.NOBODY
