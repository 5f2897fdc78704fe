"""Changes of queue programs that an adversary tries, besides those of `mutants`."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from typing import TypeAlias

import numpy as np
from mutants import event_mutants, order_mutants, region_mutants
from mutants.mutant import Kind
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import Operation
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    Chunk,
    GroupedRows,
    IndexSelector,
    Selector,
    SentRows,
    TokenRows,
    WholeSelector,
)
from hpmoe_ir.dialects.index import RANK
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.queue import (
    POINT_BITS,
    POINT_MASK,
    EventOp,
    ProgramOp,
    WaitOp,
    events_of,
    orders_of,
    signals_of,
    waits_of,
)
from hpmoe_ir.dialects.tile import (
    BufferOp,
    MemorySpace,
    TasksOp,
    buffer_bytes,
    buffers_of,
    families_of,
)
from hpmoe_ir.dialects.tile.types import AccessAttr, BufferType, IndexAttr, dense_i32

Mutation: TypeAlias = Callable[[ProgramOp, random.Random], bool]
"""Changes a program in place; says whether there was anything to change."""

ROUTING_KERNELS = frozenset({"count_tokens", "exchange_counts", "place_tokens", "build_route"})
"""Kernels whose values the judge takes for granted: what they read and write stays."""

LISTED = {
    "gather_rows": (0, 1),
    "gather_scaled_rows": (0, 1, 2),
    "weighted_sum": (0, 1),
    "sum_copies": (0, 1),
    "gate_gradient": (0, 1),
}
"""Operands that are lists, or that lists point into: their selectors stay."""


def _remove(op: Operation) -> None:
    op.detach()
    op.erase()


def _insert_before(op: Operation, other: Operation) -> None:
    block = other.parent_block()
    assert block is not None
    block.insert_op_before(op, other)


def _of(kind: Kind) -> Mutation:
    """A kind of `mutants` as a mutation."""

    def mutation(program: ProgramOp, chance: random.Random) -> bool:
        changes = list(kind(program))
        if not changes:
            return False
        chance.choice(changes).apply(program)
        return True

    mutation.__name__ = kind.__name__
    return mutation


def _free_families(program: ProgramOp) -> list[TasksOp]:
    return [f for f in families_of(program).values() if f.kernel.data not in ROUTING_KERNELS]


def _set_accesses(family: TasksOp, change: Callable[[bool, int, Access], Access]) -> bool:
    """Applies `change`(writes, operand, access) to each access; says whether any is another."""
    reads = [change(False, i, a) for i, a in enumerate(family.read_accesses)]
    writes = [change(True, i, a) for i, a in enumerate(family.write_accesses)]
    other = (*reads, *writes) != (*family.read_accesses, *family.write_accesses)
    family.reads = ArrayAttr(AccessAttr(a) for a in reads)
    family.writes = ArrayAttr(AccessAttr(a) for a in writes)
    return other


def _replace_selector(family: TasksOp, old: Selector, new: Selector, chance: random.Random) -> bool:
    """Replaces a selector in all operands of a task, so that their shapes still agree."""
    fixed = LISTED.get(family.kernel.data, ())

    def change(writes: bool, i: int, access: Access) -> Access:
        if not writes and i in fixed:
            return access
        return replace(access, selectors=tuple(new if s == old else s for s in access.selectors))

    return _set_accesses(family, change)


def _selectors(family: TasksOp) -> list[Selector]:
    fixed = LISTED.get(family.kernel.data, ())
    found = [s for i, a in enumerate(family.read_accesses) if i not in fixed for s in a.selectors]
    found += [s for a in family.write_accesses for s in a.selectors]
    return list(dict.fromkeys(found))


def recut(program: ProgramOp, chance: random.Random) -> bool:
    """The tasks of a family cut an axis in another way."""
    families = _free_families(program)
    if not families:
        return False
    family = chance.choice(families)
    old = chance.choice(_selectors(family))
    step = chance.choice((-1, 1, 1, 2))
    match old:
        case TokenRows():
            new: Selector = replace(old, count=max(1, old.count + step))
        case BlockSelector():
            new = replace(old, size=max(1, old.size + step * chance.choice((1, 16))))
        case GroupedRows() | SentRows():
            if isinstance(old, GroupedRows) and chance.random() < 0.4:
                new = replace(old, groups=max(1, old.groups + step))
            else:
                chunk = old.chunk
                count = max(1, chunk.count + step)
                align = max(1, chunk.align + chance.choice((0, 0, 1, -1)))
                new = replace(old, chunk=Chunk(chunk.index, count, align))
        case _:
            return False
    return _replace_selector(family, old, new, chance)


def whole(program: ProgramOp, chance: random.Random) -> bool:
    """The tasks of a family use the whole of a dimension, or a part of what was whole."""
    families = _free_families(program)
    if not families:
        return False
    family = chance.choice(families)
    old = chance.choice(_selectors(family))
    if isinstance(old, IndexSelector):
        return False
    if isinstance(old, WholeSelector):
        dims = len(family.extents)
        index = AffineExpr.dimension(chance.randrange(dims)) if dims else AffineExpr.constant(0)
        part = chance.choice((TokenRows(index, 2), BlockSelector(index, chance.choice((1, 2, 16)))))
        return _replace_selector(family, old, part, chance)
    return _replace_selector(family, old, WholeSelector(), chance)


def same_part(program: ProgramOp, chance: random.Random) -> bool:
    """All tasks of a family use the first part, or the next one, or that of their rank."""
    families = _free_families(program)
    if not families:
        return False
    family = chance.choice(families)
    old = chance.choice(_selectors(family))
    if not old.exprs:
        return False
    count = max(family.extents, default=1)
    match chance.randrange(3):
        case 0:
            new = old.map_exprs(lambda e: AffineExpr.constant(0))
        case 1:
            new = old.map_exprs(lambda e: (e + 1) % count)
        case _:
            new = old.map_exprs(lambda e: (e + RANK) % count)
    return _replace_selector(family, old, new, chance)


def other_buffer(program: ProgramOp, chance: random.Random) -> bool:
    """An access is of another buffer of the same type."""
    families, buffers = _free_families(program), buffers_of(program)
    if not families:
        return False
    family = chance.choice(families)
    writes = chance.random() < 0.5
    accesses = family.write_accesses if writes else family.read_accesses
    at = chance.randrange(len(accesses))
    type = buffers[accesses[at].buffer].type
    others = [n for n, b in buffers.items() if b.type == type and n != accesses[at].buffer]
    if not others or (at in LISTED.get(family.kernel.data, ()) and not writes):
        return False
    name = chance.choice(others)

    def change(of_write: bool, i: int, access: Access) -> Access:
        return replace(access, buffer=name) if (of_write, i) == (writes, at) else access

    return _set_accesses(family, change)


def own_window(program: ProgramOp, chance: random.Random) -> bool:
    """A put goes to the own rank's window, or a local write to a neighbour's."""
    families, buffers = _free_families(program), buffers_of(program)
    ranks = program.ranks.value.data
    for family in chance.sample(families, len(families)):
        (*_, access) = family.write_accesses
        if buffers[access.buffer].space.data is not MemorySpace.WINDOW or ranks == 1:
            continue
        peer = None
        if access.peer is None:
            peer = (AffineExpr.symbol(0) + chance.randint(1, ranks - 1)) % ranks
        return _set_accesses(family, lambda w, i, a: replace(a, peer=peer) if w else a)
    return False


def fewer_points(program: ProgramOp, chance: random.Random) -> bool:
    """A grid is shorter: tasks are missing, with their signals and waits."""
    families = [f for f in _free_families(program) if max(f.extents, default=1) > 1]
    if not families:
        return False
    family = chance.choice(families)
    old = family.extents
    dim = chance.choice([d for d, n in enumerate(old) if n > 1])
    new = tuple(n - (d == dim) for d, n in enumerate(old))
    family.grid = DenseArrayBase.from_list(i64, new)
    points = list(product(*map(range, old)))
    numbers = {point: i for i, point in enumerate(product(*map(range, new)))}
    for order in orders_of(program).values():
        queues: list[list[int]] = []
        bounds, slots = order.first_slots.tolist(), order.slot_values.tolist()
        for begin, end in pairwise(bounds):
            queue: list[int] = []
            for slot in slots[begin:end]:
                number, point = slot >> POINT_BITS, slot & POINT_MASK
                if order.family_names[number] == family.sym_name.data:
                    if points[point] not in numbers:
                        continue
                    point = numbers[points[point]]
                queue.append((number << POINT_BITS) + point)
            queues.append(queue)
        order.slots = dense_i32(np.array([s for q in queues for s in q], dtype=np.int64))
        order.first = dense_i32(np.cumsum([0, *map(len, queues)]))
    return retune(program, chance) if chance.random() < 0.8 else True


def other_rows(program: ProgramOp, chance: random.Random) -> bool:
    """A family looks up rows in the route that did not, or no longer does."""
    routes = [n for n, b in buffers_of(program).items() if isinstance(b.type, RouteType)]
    families = _free_families(program)
    if not routes or not families:
        return False
    family = chance.choice(families)
    family.route = SymbolRefAttr(routes[0]) if family.route is None else None
    return True


def accumulate(program: ProgramOp, chance: random.Random) -> bool:
    """Tasks add to what they write, or no longer do."""
    families = [f for f in _free_families(program) if "accumulate" in f.int_options]
    if not families:
        return False
    family = chance.choice(families)
    options = family.int_options
    options["accumulate"] = 1 - options["accumulate"]
    family.options = DictionaryAttr({k: IntegerAttr(v, i64) for k, v in options.items()})
    return True


def say_scatter(program: ProgramOp, chance: random.Random) -> bool:
    """Tasks of a family write the same elements, and say that each writes some of its own."""
    families = [f for f in _free_families(program) if f.task_count > 1]
    if not families:
        return False
    family = chance.choice(families)
    for old in _selectors(family):
        new = old.map_exprs(lambda e: AffineExpr.constant(0))
        _replace_selector(family, old, new, chance)
    return _set_accesses(family, lambda w, i, a: replace(a, scatter=True) if w else a)


def fewer_rows(program: ProgramOp, chance: random.Random) -> bool:
    """A buffer has fewer rows, or more, than what is written there."""
    fixed = {
        a.buffer
        for f in families_of(program).values()
        if f.kernel.data in ROUTING_KERNELS
        for a in (*f.read_accesses, *f.write_accesses)
    }
    choice = [
        b
        for n, b in buffers_of(program).items()
        if isinstance(b.type, BufferType) and (n not in fixed or b.type.rows.data == "sent")
    ]
    if not choice:
        return False
    buffer = chance.choice(choice)
    assert isinstance(buffer.type, BufferType)
    dims = list(buffer.type.dims)
    dims[0] = max(1, dims[0] + chance.choice((-1, -1, -2, -dims[0] // 2, 1)))
    buffer.type = BufferType(dims, buffer.type.element_type, buffer.type.rows.data)
    return True


def other_space(program: ProgramOp, chance: random.Random) -> bool:
    """A buffer of the workspace is a window, or the other way round."""
    put = {
        a.buffer
        for f in families_of(program).values()
        for a in f.write_accesses
        if a.peer is not None
    }
    choice = [
        b
        for n, b in buffers_of(program).items()
        if b.offset is not None and n not in put and isinstance(b.type, BufferType)
    ]
    if not choice:
        return False
    old = chance.choice(choice)
    space = MemorySpace.WORKSPACE
    if old.space.data is MemorySpace.WORKSPACE:
        space = MemorySpace.WINDOW
    ends = [
        b.offset.value.data + buffer_bytes(b)
        for b in buffers_of(program).values()
        if b.space.data is space and b.offset is not None
    ]
    offset = max(ends, default=0) if chance.random() < 0.9 else 0
    new = BufferOp(old.sym_name.data, space, old.content, old.copies.value.data, offset)
    _insert_before(new, old)
    _remove(old)
    _move_counters(program)
    return True


def _move_counters(program: ProgramOp) -> None:
    """Puts the counters behind the windows."""
    ends = [
        b.offset.value.data + buffer_bytes(b)
        for b in buffers_of(program).values()
        if b.space.data is MemorySpace.WINDOW and b.offset is not None
    ]
    program.counters = IntegerAttr(-(-max(ends, default=0) // 64) * 64, i64)


def copies(program: ProgramOp, chance: random.Random) -> bool:
    """A window or an event has one copy instead of two, or two instead of one."""
    windows = [b for b in buffers_of(program).values() if b.offset is not None]
    events = list(events_of(program).values())
    choice: list[BufferOp | EventOp] = [*windows, *events]
    if not choice:
        return False
    op = chance.choice(choice)
    if isinstance(op, EventOp):
        op.copies = IntegerAttr(2, i64) if op.copies is None else None
        _pack_lines(program)
        return True
    op.copies = IntegerAttr(3 - op.copies.value.data, i64)
    if op.copies.value.data == 2 and chance.random() < 0.8:
        space = op.space.data
        ends = [
            b.offset.value.data + buffer_bytes(b)
            for b in buffers_of(program).values()
            if b.space.data is space and b.offset is not None and b is not op
        ]
        op.offset = IntegerAttr(max(ends, default=0), i64)
        _move_counters(program)
    return True


def _pack_lines(program: ProgramOp) -> None:
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
                _remove(wait)
        _remove(event)
        if chance.random() < 0.7:
            _pack_lines(program)
    return True


def fewer_signals(program: ProgramOp, chance: random.Random) -> bool:
    """A family no longer signals an event, whose threshold is lower by as much."""
    signals = signals_of(program)
    if not signals:
        return False
    _remove(chance.choice(signals))
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
    _remove(gone)
    if chance.random() < 0.7:
        _pack_lines(program)
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


def window_behind(program: ProgramOp, chance: random.Random) -> bool:
    """A window, or all of them, come behind the counters, near or far."""
    lines = sum(e.line_count for e in events_of(program).values())
    windows = [b for b in buffers_of(program).values() if b.space.data is MemorySpace.WINDOW]
    if not windows or program.counters is None:
        return False
    begin = program.counters.value.data + 64 * max(0, lines + chance.choice((-1, 0, 0, 3, 6, 8)))
    chance.choice(windows).offset = IntegerAttr(begin, i64)
    if chance.random() < 0.6:
        program.properties["budget"] = IntegerAttr(1000000, i64)
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


def _most_rows(program: ProgramOp) -> int:
    """The most rows that a rank can receive under any routing."""
    types = (b.type for b in buffers_of(program).values())
    return next(t.lossless_rows for t in types if isinstance(t, RouteType))


def other_capacity(program: ProgramOp, chance: random.Random) -> bool:
    """The task that builds the route lets more rows pass, or fewer."""
    for family in families_of(program).values():
        if family.kernel.data == "build_route":
            rank, capacity = (s.data for s in family.scalars)
            assert isinstance(capacity, AffineConstantExpr)
            rows = max(1, capacity.value + chance.choice((-1, -2, 1, 2, 8, -capacity.value // 2)))
            rows = min(rows, _most_rows(program))
            if rows == capacity.value:
                return False
            family.scalars = ArrayAttr([IndexAttr(rank), IndexAttr(AffineExpr.constant(rows))])
            return True
    return False


def other_place(program: ProgramOp, chance: random.Random) -> bool:
    """A family comes earlier or later in the text, while the queues stay."""
    families = list(families_of(program).values())
    if len(families) < 2:
        return False
    at = chance.randrange(len(families) - 1)
    op = families[at + 1]
    op.detach()
    _insert_before(op, families[at])
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
    _insert_before(wait, event)
    return True


def alias(program: ProgramOp, chance: random.Random) -> bool:
    """A buffer begins at the bytes of another one of its space."""
    placed = [b for b in buffers_of(program).values() if b.offset is not None]
    pairs = [(a, b) for a in placed for b in placed if a is not b and a.space == b.space]
    if not pairs:
        return False
    moved, onto = chance.choice(pairs)
    assert onto.offset is not None
    inside = chance.choice((0, 0, 64 * chance.randrange(max(1, buffer_bytes(onto) // 64))))
    moved.offset = IntegerAttr(onto.offset.value.data + inside, i64)
    return True


MUTATIONS: tuple[Mutation, ...] = (
    *map(
        _of,
        (
            event_mutants.drop_wait,
            event_mutants.drop_wait,
            event_mutants.shift_wait,
            event_mutants.constant_wait,
            event_mutants.other_wait,
            event_mutants.other_wait,
            event_mutants.drop_signal,
            event_mutants.shift_signal,
            event_mutants.other_signal,
            event_mutants.constant_signal,
            event_mutants.change_peer,
            event_mutants.raise_threshold,
            event_mutants.lower_threshold,
            event_mutants.share_counter,
            order_mutants.swap_tasks,
            order_mutants.swap_tasks,
            order_mutants.move_task,
            order_mutants.move_task,
            order_mutants.move_task,
            region_mutants.change_put,
        ),
    ),
    recut,
    recut,
    whole,
    same_part,
    other_buffer,
    other_buffer,
    own_window,
    fewer_points,
    other_rows,
    accumulate,
    say_scatter,
    fewer_rows,
    other_space,
    copies,
    fewer_signals,
    merged_events,
    line_gap,
    line_gap,
    other_counters,
    window_behind,
    own_credit,
    other_capacity,
    other_place,
    more_waits,
    more_waits,
    more_waits,
    alias,
)
"""What is drawn from; what leaves programs right is there more often."""
