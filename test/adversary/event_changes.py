"""Changes of events, their counters, waits and signals."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import (
    IntegerAttr,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.dialects.queue import (
    ProgramOp,
    WaitOp,
    events_of,
    signals_of,
    waits_of,
)
from hpmoe_ir.dialects.tile import (
    MemorySpace,
    buffer_bytes,
    buffers_of,
    families_of,
)
from hpmoe_ir.dialects.tile.types import dense_i32

Mutation: TypeAlias = Callable[[ProgramOp, random.Random], bool]
"""Changes a program in place; says whether there was anything to change."""


def remove(op: Operation) -> None:
    op.detach()
    op.erase()


def insert_before(op: Operation, other: Operation) -> None:
    block = other.parent_block()
    assert block is not None
    block.insert_op_before(op, other)


def pack_lines(program: ProgramOp) -> None:
    line = 0
    for event in events_of(program).values():
        event.line = IntegerAttr(line, i64)
        line += event.line_count


def _signals_in_launch(program: ProgramOp, name: str) -> list[int] | None:
    """Signals of each event of a family, if all ranks get as many."""
    event, families = events_of(program)[name], families_of(program)
    ranks = program.ranks.value.data
    found = [[0] * event.event_count for _ in range(ranks)]
    for signal in signals_of(program):
        if signal.event_name != name:
            continue
        family = families[signal.family_name]
        for point in np.ndindex(*family.extents):
            for rank in range(ranks):
                number = 0
                for expr, extent in zip(signal.index_exprs, event.extents, strict=True):
                    number = number * extent + expr.eval(point, (rank,))
                peer = signal.peer_expr
                found[rank if peer is None else peer.eval(point, (rank,))][number] += 1
    return found[0] if all(f == found[0] for f in found) else None


def retune(program: ProgramOp, chance: random.Random) -> bool:
    """Thresholds are the signals that there are; events without signals go, with their waits."""
    for name, event in list(events_of(program).items()):
        counts = _signals_in_launch(program, name)
        if counts is None:
            continue
        if any(counts):
            if all(counts):
                event.counts = dense_i32(np.array(counts, dtype=np.int64))
            continue
        for wait in waits_of(program):
            if wait.event_name == name:
                remove(wait)
        remove(event)
        if chance.random() < 0.7:
            pack_lines(program)
    return True


def fewer_signals(program: ProgramOp, chance: random.Random) -> bool:
    """A family no longer signals an event, whose threshold is lower by as much."""
    signals = signals_of(program)
    if not signals:
        return False
    remove(chance.choice(signals))
    return retune(program, chance)


def merged_events(program: ProgramOp, chance: random.Random) -> bool:
    """Two families of events become one, and the lines of the second are free."""
    events = list(events_of(program).values())
    pairs = [
        (a, b)
        for a in events
        for b in events
        if a is not b and a.extents == b.extents and a.copy_count == b.copy_count
    ]
    if not pairs:
        return False
    kept, gone = chance.choice(pairs)
    name = gone.sym_name.data
    for use in (*signals_of(program), *waits_of(program)):
        if use.event_name == name:
            use.event = SymbolRefAttr(kept.sym_name.data)
    counts = np.array(kept.thresholds, dtype=np.int64) + gone.thresholds
    kept.counts = dense_i32(counts)
    remove(gone)
    if chance.random() < 0.7:
        pack_lines(program)
    return True


def line_gap(program: ProgramOp, chance: random.Random) -> bool:
    """The lines of an event, or of all from it on, are further behind; or all are renumbered."""
    events = list(events_of(program).values())
    if not events or any(e.line is None for e in events):
        return False
    kind = chance.random()
    if kind < 0.3:
        line = 0
        for event in chance.sample(events, len(events)):
            event.line = IntegerAttr(line, i64)
            line += event.line_count
        return True
    at = chance.randrange(len(events))
    by = chance.choice((1, 1, 2, 64, 100000))
    for event in events[at : at + 1] if kind < 0.65 else events[at:]:
        assert event.line is not None
        event.line = IntegerAttr(event.line.value.data + by, i64)
    return True


def other_counters(program: ProgramOp, chance: random.Random) -> bool:
    """The counters begin somewhere else, or waits have a budget and report behind them."""
    ends = [
        b.offset.value.data + buffer_bytes(b)
        for b in buffers_of(program).values()
        if b.space.data is MemorySpace.WINDOW and b.offset is not None
    ]
    last = max(ends, default=0)
    if chance.random() < 0.6:
        program.properties["budget"] = IntegerAttr(1000000, i64)
    if chance.random() < 0.7:
        program.counters = IntegerAttr(64 * chance.randint(0, last // 64 + 2), i64)
    return True


def own_credit(program: ProgramOp, chance: random.Random) -> bool:
    """Puts are credited that were not, or signal themselves although they were credited."""
    signals = signals_of(program)
    if not signals:
        return False
    signal = chance.choice(signals)
    if signal.credit is not None:
        signal.credit = None
        return True
    givers = [n for n, f in families_of(program).items() if f.kernel.data == "build_route"]
    if not givers or signal.peer is None:
        return False
    signal.credit = SymbolRefAttr(givers[0])
    return True


def more_waits(program: ProgramOp, chance: random.Random) -> bool:
    """A family also waits for some other event."""
    events, families = list(events_of(program).values()), list(families_of(program).values())
    if not events:
        return False
    event, family = chance.choice(events), chance.choice(families)
    names = family.dim_names
    index: list[AffineExpr] = []
    for extent in event.extents:
        fit = [i for i, n in enumerate(family.extents) if n <= extent]
        if fit and chance.random() < 0.6:
            index.append(AffineExpr.dimension(chance.choice(fit)))
        else:
            index.append(AffineExpr.constant(chance.randrange(extent)))
    wait = WaitOp(family.sym_name.data, list(names), event.sym_name.data, index)
    insert_before(wait, event)
    return True
