"""Mutants of regions, buffers and of the memory plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir.affine import AffineExpr

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
    format_access,
)
from hpmoe_ir.dialects.queue import ProgramOp
from hpmoe_ir.dialects.tile import MemorySpace, TasksOp, buffer_bytes, buffers_of, families_of
from hpmoe_ir.dialects.tile.types import AccessAttr
from mutants.mutant import Change


def _set_region(family: TasksOp, writes: bool, at: int, region: Access) -> None:
    regions = list(family.write_accesses if writes else family.read_accesses)
    regions[at] = region
    attr = ArrayAttr(AccessAttr(r) for r in regions)
    if writes:
        family.writes = attr
    else:
        family.reads = attr


def _regions(program: ProgramOp) -> Iterator[tuple[str, bool, int, Access]]:
    """Regions of what the program itself writes, with their family and place."""
    buffers = buffers_of(program)
    for name, family in families_of(program).items():
        for writes in (False, True):
            for at, region in enumerate(family.write_accesses if writes else family.read_accesses):
                if buffers[region.buffer].space.data is not MemorySpace.INPUT:
                    yield name, writes, at, region


def _change(name: str, writes: bool, at: int, region: Access, names: tuple[str, ...]) -> Change:
    word = "writes" if writes else "reads"
    return Change(
        f"@{name} {word} {format_access(region, names)}",
        lambda p: _set_region(families_of(p)[name], writes, at, region),
    )


Parts = Callable[[Selector, ProgramOp, Access, int], Iterator[Selector]]
"""Other selectors for one of a region, the last number being its dimension."""


def _with_selector(program: ProgramOp, parts: Parts) -> Iterator[Change]:
    for name, writes, at, region in _regions(program):
        names = families_of(program)[name].dim_names
        for i, selector in enumerate(region.selectors):
            for other in parts(selector, program, region, i):
                selectors = (*region.selectors[:i], other, *region.selectors[i + 1 :])
                yield _change(name, writes, at, replace(region, selectors=selectors), names)


def _next(expr: AffineExpr, count: int) -> AffineExpr:
    return (expr + 1) % count


def _shifts(s: Selector, program: ProgramOp, region: Access, dim: int) -> Iterator[Selector]:
    buffer = buffers_of(program)[region.buffer]
    dims = getattr(buffer.content, "dims", ())
    match s:
        case WholeSelector():
            return
        case IndexSelector():
            if dims[dim] > 1:
                yield replace(s, index=_next(s.index, dims[dim]))
        case BlockSelector():
            count = -(-dims[dim] // s.size)
            if count > 1:
                yield replace(s, index=_next(s.index, count))
        case TokenRows():
            if s.count > 1:
                yield replace(s, index=_next(s.index, s.count))
        case GroupedRows():
            yield replace(s, expert=_next(s.expert, 2))
            if s.groups > 1:
                yield replace(s, group=_next(s.group, s.groups))
            if s.chunk.count > 1:
                index = _next(s.chunk.index, s.chunk.count)
                yield replace(s, chunk=replace(s.chunk, index=index))
        case SentRows():
            yield replace(s, expert=_next(s.expert, 2 * program.ranks.value.data))
            if s.chunk.count > 1:
                index = _next(s.chunk.index, s.chunk.count)
                yield replace(s, chunk=replace(s.chunk, index=index))
        case _:
            raise AssertionError(f"not a selector: {s}")


def shift_region(program: ProgramOp) -> Iterator[Change]:
    """A region is the next part: the next expert, group, chunk, block or row."""
    yield from _with_selector(program, _shifts)


def _grown(s: Selector, program: ProgramOp, region: Access, dim: int) -> Iterator[Selector]:
    match s:
        case WholeSelector() | IndexSelector():
            return
        case BlockSelector():
            yield WholeSelector()
        case TokenRows():
            if s.count > 1:
                yield TokenRows(AffineExpr.constant(0), 1)
        case GroupedRows():
            if s.groups > 1:
                yield replace(s, group=AffineExpr.constant(0), groups=1)
            if s.chunk.count > 1:
                yield replace(s, chunk=Chunk())
        case SentRows():
            if s.chunk.count > 1:
                yield replace(s, chunk=Chunk())
        case _:
            raise AssertionError(f"not a selector: {s}")


def grow_region(program: ProgramOp) -> Iterator[Change]:
    """A region is all groups, all chunks, all columns or all tokens."""
    yield from _with_selector(program, _grown)


def _shrunk(s: Selector, program: ProgramOp, region: Access, dim: int) -> Iterator[Selector]:
    dims = getattr(buffers_of(program)[region.buffer].content, "dims", ())
    match s:
        case WholeSelector():
            if dim and dims[dim] > 16:
                yield BlockSelector(AffineExpr.constant(0), 16)
        case GroupedRows():
            yield replace(s, chunk=replace(s.chunk, count=2 * s.chunk.count))
        case SentRows():
            yield replace(s, chunk=replace(s.chunk, count=2 * s.chunk.count))
        case TokenRows():
            yield replace(s, count=s.count + 1)
        case IndexSelector() | BlockSelector():
            return
        case _:
            raise AssertionError(f"not a selector: {s}")


def shrink_region(program: ProgramOp) -> Iterator[Change]:
    """A region is a part of what it was: half of the columns, of the rows, fewer tokens."""
    yield from _with_selector(program, _shrunk)


def change_put(program: ProgramOp) -> Iterator[Change]:
    """A put goes to the next rank, its signal to the old one."""
    ranks = program.ranks.value.data
    for name, writes, at, region in _regions(program):
        if region.peer is not None and ranks > 1:
            other = replace(region, peer=_next(region.peer, ranks))
            yield _change(name, writes, at, other, families_of(program)[name].dim_names)


def alias_buffers(program: ProgramOp) -> Iterator[Change]:
    """A buffer begins where another does, or in its middle."""
    for name, buffer in buffers_of(program).items():
        for other, target in buffers_of(program).items():
            if name == other or buffer.space != target.space or target.offset is None:
                continue
            if buffer.offset == target.offset:
                continue
            middle = buffer_bytes(target) // 2 // 64 * 64
            for into in sorted({0, middle}):
                offset = target.offset.value.data + into

                def change(p: ProgramOp, name: str = name, offset: int = offset) -> None:
                    buffers_of(p)[name].offset = IntegerAttr(offset, i64)

                yield Change(f"@{name} at byte {into} of @{other}", change)


def one_copy(program: ProgramOp) -> Iterator[Change]:
    """A buffer with two copies has one."""
    for name, buffer in buffers_of(program).items():
        if buffer.copies.value.data == 2:

            def change(p: ProgramOp, name: str = name) -> None:
                buffers_of(p)[name].copies = IntegerAttr(1, i64)

            yield Change(f"@{name}", change)
