"""Generates docs/mutants.md from the record."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mutants.judge import SEEDS, SEEDS_OF_MANY
from mutants.kinds import IR_KINDS, LAYERS, TABLE_KINDS, kind_name
from mutants.mutant import Watcher
from mutants.record import Record
from mutants.source_mutants import MEANINGS
from mutants.starts import DIRECTIONS, POLICIES, RANKS

PAGE = Path(__file__).parents[2] / "docs" / "mutants.md"

WITHOUT_RESULTS = (Watcher.OPS, Watcher.QUEUES, Watcher.LOWERING, Watcher.DETECTOR)
"""Checks that detect a mutant without comparing results."""

INTRODUCTION = """\
# Mutation tests: which check detects a broken program

A check that never fails may be broken itself. Compiled programs are therefore mutated in \
systematic ways, one change at a time, and the first check that detects the mutant is recorded: \
the verifiers of the ops, `verify-queues` ([checking.md](checking.md)), the lowering to code, a \
detector of the CPU model ([cpu-model.md](cpu-model.md)), or the comparison of results with those \
of the original program. `make mutants` writes this page; CI repeats a sample and compares.

The original programs are layers with two experts per rank on a chip with two matrix and four \
vector cores: {directions} on {ranks} ranks, {policies}. Each program has one mutant of each kind \
of change of the IR, chosen by a fixed seed. The `depth-first` programs have two of each kind of \
change of the task table, the programs of 2 ranks two of the source. Each header has two, which \
run in up to six programs. A mutant that no check refuses runs under {seeds} interleavings of the \
cores ({many} from 4 ranks on), half of them with weak memory, three launches each, until a fault \
shows. Mutants that `verify-queues` refuses run as well if that needs no build, since the \
detectors must not rely on it.

```
make mutants                                                # all of it
cd test && python -m mutants forward/4/depth-first:drop-wait:3    # one, with all messages
```
"""

ORACLE = """\
## verify-queues against an oracle

For each mutant of the IR an independent oracle decides whether the program can fail. It uses no \
families and no classes: it lists the tasks of all ranks in three launches, compares the accesses \
of each pair, and finds the tasks that can never begin before another one has ended; exactly those \
are ordered after it (`test/mutants/task_graph.py`, `needed_order.py`). `verify-queues` must \
accept no harmful mutant. It also refuses some harmless ones, such as wrong counts of an event \
that no task needs, and those whose tiles do not fit their kernel, which is no matter of order.
"""


def _wrapped(text: str) -> str:
    """Wraps paragraphs at 100 columns; code blocks and headings stay."""
    parts = text.split("\n\n")
    return "\n\n".join(part if part.startswith(("```", "#")) else _lines(part) for part in parts)


def _lines(text: str, first: str = "", rest: str = "") -> str:
    wrapped = textwrap.fill(
        text,
        100,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped + ("\n" if text.endswith("\n") else "")


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(c) if c != 0 else "" for c in cells) + " |"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [_row(head), "| --- |" + " --: |" * (len(head) - 1), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _meaning(kind: str) -> str:
    for known in (*IR_KINDS, *TABLE_KINDS):
        if kind_name(known) == kind:
            return (known.__doc__ or "").splitlines()[0]
    return MEANINGS[kind]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _summary(records: Sequence[Record]) -> str:
    rows: list[list[object]] = []
    for name, own in [(n, [r for r in records if r.layer == n]) for n in LAYERS] + [
        ("all", list(records))
    ]:
        count = Counter(r.watcher for r in own)
        without = sum(count[w] for w in WITHOUT_RESULTS)
        changed = without + count[Watcher.RESULT] + sum(r.open for r in own)
        rows.append(
            [name, len(own), *(count[w] for w in Watcher), _percent(without, changed)]
        )  # fmt: skip
    head = ["where", "all", *(w.value for w in Watcher), "share"]
    return _table(head, rows)


def _kinds(records: Sequence[Record]) -> str:
    parts: list[str] = []
    for layer in LAYERS:
        own = [r for r in records if r.layer == layer]
        rows: list[list[object]] = []
        meanings: list[str] = []
        for kind in dict.fromkeys(r.kind for r in own):
            of_kind = [r for r in own if r.kind == kind]
            count = Counter(r.watcher for r in of_kind)
            rows.append([f"`{kind}`", len(of_kind), *(count[w] for w in Watcher)])
            meanings.append(_lines(f"`{kind}`: {_meaning(kind)}", "- ", "  "))
        head = ["kind", "mutants", *(w.value for w in Watcher)]
        title = f"### {layer.capitalize().replace('ir', 'IR')}"
        parts.append("\n".join([title, "", *meanings, "", _table(head, rows)]))
    return "\n".join(parts)


def _oracle(records: Sequence[Record]) -> str:
    rows: list[list[object]] = []
    for word, refused in (("refused", True), ("accepted", False)):
        for oracle in ("harmful", "harmless"):
            own = [
                r
                for r in records
                if r.layer == "queue IR"
                and r.oracle == oracle
                and (r.watcher is Watcher.QUEUES) == refused
            ]
            runs = Counter(_shown(r.run) for r in own)
            shown = [runs[k] for k in ("detector", "wrong result", "nothing", "-")]
            rows.append([f"{word}, {oracle} by the oracle", len(own), *shown])
    head = ["verify-queues", "mutants", "run: detector", "run: wrong result", "run: nothing"]
    return _table([*head, "not run"], rows)


def _shown(run: str) -> str:
    return run if run in ("wrong result", "nothing", "-") else "detector"


def _faults(records: Sequence[Record]) -> str:
    count = Counter(
        r.run for r in records if _shown(r.run) == "detector" and r.watcher is not Watcher.LOWERING
    )
    return _table(["kind of fault", "mutants"], [[f"`{k}`", n] for k, n in count.most_common()])


def _survivors(records: Sequence[Record]) -> str:
    own = [r for r in records if r.watcher is Watcher.NOBODY]
    lines: list[str] = []
    for reason in sorted({r.reason for r in own}):
        of_reason = [r for r in own if r.reason == reason]
        if of_reason[0].layer == "queue IR":
            kinds = Counter(r.kind for r in of_reason)
            names = ", ".join(f"{n} `{k}`" for k, n in sorted(kinds.items()))
        else:
            names = ", ".join(f"`{r.id}`" for r in of_reason)
        lines.append(_lines(f"{reason or '**not explained**'}: {names}.", "- ", "  "))
    return "\n".join(lines) + "\n"


def page_text(records: Sequence[Record]) -> str:
    """Returns the text of the page."""
    introduction = INTRODUCTION.format(
        directions=" and ".join(DIRECTIONS),
        ranks=", ".join(map(str, RANKS)),
        seeds=SEEDS,
        many=SEEDS_OF_MANY,
        policies="policies " + ", ".join(f"`{p}`" for p in POLICIES),
    )
    return "\n".join(
        [
            _wrapped(introduction),
            "## Detection by check\n",
            _summary(records),
            _lines(
                "The last column is the share that is detected without comparing results, of all "
                "mutants but the harmless ones [below](#survivors).\n"
            ),
            _wrapped(ORACLE),
            _oracle(records),
            "## Faults reported by the detectors\n",
            "Counts every mutant that runs, including those that `verify-queues` refuses.\n",
            _faults(records),
            "## Kinds\n",
            _kinds(records),
            "## Survivors\n",
            "Mutants that no check detects, and why they are harmless.\n",
            _survivors(records),
        ]
    )
