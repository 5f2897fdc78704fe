"""Changes of what tasks access."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    SymbolRefAttr,
    i64,
)
from xdsl.ir.affine import AffineExpr

from adversary.buffer_changes import ROUTING_KERNELS
from adversary.event_changes import retune
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
    ProgramOp,
    orders_of,
)
from hpmoe_ir.dialects.tile import (
    MemorySpace,
    TasksOp,
    buffers_of,
    families_of,
)
from hpmoe_ir.dialects.tile.types import AccessAttr, dense_i32

LISTED = {
    "gather_rows": (0, 1),
    "gather_scaled_rows": (0, 1, 2),
    "weighted_sum": (0, 1),
    "sum_copies": (0, 1),
    "gate_gradient": (0, 1),
}
"""Operands that are lists, or that lists point into: their selectors stay."""


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
