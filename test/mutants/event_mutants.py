"""Mutants of a queue program's events, waits and signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, SymbolRefAttr, i64
from xdsl.ir import Operation
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from hpmoe_ir.dialects.index import format_index
from hpmoe_ir.dialects.queue import (
    EventOp,
    ProgramOp,
    SignalOp,
    WaitOp,
    events_of,
    signals_of,
    waits_of,
)
from hpmoe_ir.dialects.tile import MemorySpace, buffers_of
from hpmoe_ir.dialects.tile.types import IndexAttr, dense_i32
from mutants.mutant import Change


def _remove(op: Operation) -> None:
    op.detach()
    op.erase()


def use_text(use: WaitOp | SignalOp) -> str:
    """`@swiglu for @matmul_done`."""
    word = "for" if isinstance(use, WaitOp) else "to"
    return f"@{use.family_name} {word} @{use.event_name}"


def drop_wait(program: ProgramOp) -> Iterator[Change]:
    """A family no longer waits for an event."""
    for i, wait in enumerate(waits_of(program)):
        yield Change(use_text(wait), lambda p, i=i: _remove(waits_of(p)[i]))


def drop_signal(program: ProgramOp) -> Iterator[Change]:
    """A family no longer signals an event."""
    for i, signal in enumerate(signals_of(program)):
        yield Change(use_text(signal), lambda p, i=i: _remove(signals_of(p)[i]))


def repeat_signal(program: ProgramOp) -> Iterator[Change]:
    """A family signals an event twice."""
    for i, signal in enumerate(signals_of(program)):

        def change(p: ProgramOp, i: int = i) -> None:
            p.body.block.add_op(signals_of(p)[i].clone())

        yield Change(use_text(signal), change)


def _shifted(
    uses: Callable[[ProgramOp], Sequence[WaitOp | SignalOp]], program: ProgramOp
) -> Iterator[Change]:
    events = events_of(program)
    for i, use in enumerate(uses(program)):
        for axis, extent in enumerate(events[use.event_name].extents):
            if extent == 1:
                continue

            def change(p: ProgramOp, i: int = i, axis: int = axis, extent: int = extent) -> None:
                op = uses(p)[i]
                index = list(op.index_exprs)
                index[axis] = (index[axis] + 1) % extent
                op.index = ArrayAttr(IndexAttr(e) for e in index)

            yield Change(f"{use_text(use)}, index {axis} plus 1", change)


def shift_wait(program: ProgramOp) -> Iterator[Change]:
    """A family waits for another event of the same family of events."""
    yield from _shifted(waits_of, program)


def shift_signal(program: ProgramOp) -> Iterator[Change]:
    """A family signals another event of the same family of events."""
    yield from _shifted(signals_of, program)


def _constant(
    uses: Callable[[ProgramOp], Sequence[WaitOp | SignalOp]], program: ProgramOp
) -> Iterator[Change]:
    for i, use in enumerate(uses(program)):
        for axis, expr in enumerate(use.index_exprs):
            if isinstance(expr, AffineConstantExpr):
                continue

            def change(p: ProgramOp, i: int = i, axis: int = axis) -> None:
                op = uses(p)[i]
                index = list(op.index_exprs)
                index[axis] = AffineExpr.constant(0)
                op.index = ArrayAttr(IndexAttr(e) for e in index)

            yield Change(f"{use_text(use)}, index {axis} is 0", change)


def constant_wait(program: ProgramOp) -> Iterator[Change]:
    """All tasks of a family wait for the first event on one axis."""
    yield from _constant(waits_of, program)


def constant_signal(program: ProgramOp) -> Iterator[Change]:
    """All tasks of a family signal the first event on one axis."""
    yield from _constant(signals_of, program)


def _other_event(
    uses: Callable[[ProgramOp], Sequence[WaitOp | SignalOp]], program: ProgramOp
) -> Iterator[Change]:
    events = events_of(program)
    for i, use in enumerate(uses(program)):
        extents = events[use.event_name].extents
        for name, event in events.items():
            if name != use.event_name and event.extents == extents:

                def change(p: ProgramOp, i: int = i, name: str = name) -> None:
                    uses(p)[i].event = SymbolRefAttr(name)

                yield Change(f"{use_text(use)}, now @{name}", change)


def other_wait(program: ProgramOp) -> Iterator[Change]:
    """A family waits for an event of another family of events."""
    yield from _other_event(waits_of, program)


def other_signal(program: ProgramOp) -> Iterator[Change]:
    """A family signals an event of another family of events."""
    yield from _other_event(signals_of, program)


def change_peer(program: ProgramOp) -> Iterator[Change]:
    """A signal goes to the next rank, or to the own instead of a peer."""
    ranks = program.ranks.value.data
    if ranks == 1:
        return
    for i, signal in enumerate(signals_of(program)):
        peer = signal.peer_expr
        own = AffineExpr.symbol(0)
        peers = [((own if peer is None else peer) + 1) % ranks]
        if peer is not None:
            peers.append(own)
        for other in peers:

            def change(p: ProgramOp, i: int = i, other: AffineExpr = other) -> None:
                signals_of(p)[i].peer = IndexAttr(other)

            names = [n.data for n in signal.dims]
            yield Change(f"{use_text(signal)} on {format_index(other, names)}", change)


def _thresholds(program: ProgramOp, step: int) -> Iterator[Change]:
    for name, event in events_of(program).items():
        for at in {None, event.event_count - 1} if event.event_count > 1 else {None}:

            def change(p: ProgramOp, name: str = name, at: int | None = at) -> None:
                op = events_of(p)[name]
                counts = np.array(op.thresholds, dtype=np.int64)
                counts[slice(None) if at is None else at] += step
                op.counts = dense_i32(counts)

            which = "all" if at is None else f"event {at}"
            yield Change(f"@{name}, {which}", change)


def raise_threshold(program: ProgramOp) -> Iterator[Change]:
    """One signal more than there was."""
    yield from _thresholds(program, 1)


def lower_threshold(program: ProgramOp) -> Iterator[Change]:
    """One signal fewer than there was."""
    yield from _thresholds(program, -1)


def _lines(event: EventOp) -> int:
    assert event.line is not None
    return event.line.value.data


def share_counter(program: ProgramOp) -> Iterator[Change]:
    """A family of events uses the counters of the one before it."""
    names = list(events_of(program))
    for earlier, name in pairwise(names):

        def change(p: ProgramOp, earlier: str = earlier, name: str = name) -> None:
            events = events_of(p)
            events[name].line = IntegerAttr(_lines(events[earlier]), i64)

        yield Change(f"@{name} on the line of @{earlier}", change)


def counters_in_window(program: ProgramOp) -> Iterator[Change]:
    """The counters begin where a window lies."""
    for name, buffer in buffers_of(program).items():
        if buffer.space.data is MemorySpace.WINDOW:

            def change(p: ProgramOp, name: str = name) -> None:
                offset = buffers_of(p)[name].offset
                assert offset is not None
                p.counters = IntegerAttr(offset.value.data, i64)

            yield Change(f"counters in @{name}", change)
