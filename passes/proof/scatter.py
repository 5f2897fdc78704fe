"""Refuses families whose tasks do not write each element of a scattered tile once."""

from __future__ import annotations

import numpy as np
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.access import Access, TokenRows, WholeSelector
from hpmoe_ir.dialects.index import IntArray, evaluate_index, uses_rank
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import TasksOp, buffers_of
from hpmoe_ir.passes.proof.tasks import QueueTasks


def check_scatter(tasks: QueueTasks) -> None:
    """Checks what `scatter` promises: each element is written, by one task of the family.

    Which elements a task writes follows from its share of a product, or from its part of the
    tokens. The tasks that write one tile must have all shares, or all tokens, each once. Raises
    RefusedError naming the family and what is missing or double.
    """
    for family in tasks.families:
        for access in family.write_accesses:
            if not access.scatter:
                continue
            exprs = [*access.exprs, *(s.data for s in family.scalars)]
            exprs += [e for read in family.read_accesses for e in read.exprs]
            for rank in range(tasks.ranks if any(map(uses_rank, exprs)) else 1):
                _check_family(tasks, family, access, rank)


def _check_family(tasks: QueueTasks, family: TasksOp, access: Access, rank: int) -> None:
    kernel = family.find_kernel()
    if kernel.variant.shares_product:
        first, step = (_values(family, s.data, rank) for s in list(family.scalars)[-2:])
        tile = _tiles(family, access, rank)
        _check_parts(family, access, rank, first, step, tile, "share of its product")
        return
    parts = [a for a in family.read_accesses if isinstance(a.rows, TokenRows)]
    rows = parts[0].rows if parts else None
    if not isinstance(rows, TokenRows) or access.selectors != (WholeSelector(),):
        refuse(
            family,
            f"verify-queues: @{family.sym_name.data} writes scatter @{access.buffer}: expected "
            "tasks that read tokens(...) and write `[:]`, as kernel '" + kernel.name + "' places "
            "the rows of its tokens",
        )
    part = _values(family, rows.index, rank)
    count = np.full(part.shape, rows.count)
    _check_parts(family, access, rank, part, count, np.zeros_like(part), "part of the tokens")
    scalars = dict(zip(kernel.scalars, family.scalars, strict=True))
    chunk = scalars.get("chunk")
    if chunk is not None and (_values(family, chunk.data, rank) != part).any():
        refuse(
            family,
            f"verify-queues: @{family.sym_name.data} writes scatter @{access.buffer}: expected the "
            "number of each task's part of the tokens as its scalar 'chunk'",
        )
    _check_counts(tasks, family, access, rows.count)
    _check_room(tasks, access, parts[0], family)


def _check_counts(tasks: QueueTasks, family: TasksOp, access: Access, parts: int) -> None:
    """Checks that the other tile that is read has a row of counts for each part of the tokens."""
    buffers = buffers_of(tasks.program)
    for read in family.read_accesses:
        content = buffers[read.buffer].content
        if read.rows is not None or isinstance(content, RouteType):
            continue
        whole = all(isinstance(s, WholeSelector) for s in read.selectors)
        if content.dims[0] != parts or not whole:
            refuse(
                family,
                f"verify-queues: @{family.sym_name.data} writes scatter @{access.buffer}: expected "
                f"counts of {parts} parts of the tokens in @{read.buffer}, found {content}",
            )


def _check_room(tasks: QueueTasks, access: Access, ids: Access, family: TasksOp) -> None:
    """Checks that the scattered tile has an element for each pair of a token and an expert."""
    buffers = buffers_of(tasks.program)
    listed, tokens = buffers[access.buffer].content, buffers[ids.buffer].content
    assert not isinstance(listed, RouteType)
    assert not isinstance(tokens, RouteType)
    pairs = int(np.prod(tokens.dims))
    if int(np.prod(listed.dims)) < pairs:
        refuse(
            family,
            f"verify-queues: @{family.sym_name.data} writes scatter @{access.buffer}: expected "
            f"{pairs} elements for {tokens.dims[0]} tokens of {tokens.dims[-1]} experts each, "
            f"found {listed}",
        )


def _check_parts(
    family: TasksOp,
    access: Access,
    rank: int,
    part: IntArray,
    count: IntArray,
    tile: IntArray,
    what: str,
) -> None:
    """Checks that the tasks of each tile have the parts 0 to `count` - 1, each once."""
    order = np.lexsort((part, tile))
    tile, part, count = tile[order], part[order], count[order]
    starts = np.flatnonzero(np.diff(tile, prepend=-1))
    sizes = np.diff(starts, append=len(tile))
    place = np.arange(len(tile)) - np.repeat(starts, sizes)
    wrong = np.flatnonzero((part != place) | (count != np.repeat(sizes, sizes)))
    if wrong.size:
        at = int(wrong[0])
        begin = int(starts[np.searchsorted(starts, at, side="right") - 1])
        own = part[begin : begin + int(np.repeat(sizes, sizes)[at])]
        last = max(int(count[at]), 1) - 1
        found = ", ".join(str(int(p)) for p in own[:8]) + (", ..." if len(own) > 8 else "")
        refuse(
            family,
            f"verify-queues: @{family.sym_name.data} on rank {rank} writes scatter "
            f"@{access.buffer}: expected a task for each {what}, 0 to {last}, "
            f"found {found}",
        )


def _tiles(family: TasksOp, access: Access, rank: int) -> IntArray:
    """Returns the number of the tile that each task writes, `[tasks]`."""
    values = [_values(family, e, rank) for e in access.exprs]
    if not values:
        return np.zeros(family.task_count, dtype=np.int64)
    return np.unique(np.stack(values), axis=1, return_inverse=True)[1].ravel()


def _values(family: TasksOp, expr: AffineExpr, rank: int) -> IntArray:
    value = np.asarray(evaluate_index(expr, family.coordinates(), rank), dtype=np.int64)
    return np.broadcast_to(value, (family.task_count,))
