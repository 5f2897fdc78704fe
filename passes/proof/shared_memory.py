"""Buffers of which the memory overlaps."""

from __future__ import annotations

from collections.abc import Iterator

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.tile import BufferOp, buffer_bytes, buffers_of
from hpmoe_ir.passes.analysis.task_uses import Use
from hpmoe_ir.passes.proof.tasks import QueueTasks


def shared_memory(tasks: QueueTasks, uses: dict[str, list[Use]]) -> Iterator[tuple[Use, Use]]:
    """Yields pairs of uses of two buffers with overlapping memory; the earlier buffer's use first.

    Raises RefusedError where the lifetimes of the two buffers overlap.
    """
    buffers = [b for b in buffers_of(tasks.program).values() if b.offset is not None]
    for i, buffer in enumerate(buffers):
        for other in buffers[:i]:
            if other.space.data != buffer.space.data or not _overlap(other, buffer):
                continue
            mine, theirs = uses[buffer.sym_name.data], uses[other.sym_name.data]
            if not mine or not theirs:
                continue
            place = {f.sym_name.data: n for n, f in enumerate(tasks.families)}
            spans = [[place[u.family.sym_name.data] for u in some] for some in (mine, theirs)]
            if max(spans[0]) < min(spans[1]):
                mine, theirs = theirs, mine
            elif max(spans[1]) >= min(spans[0]):
                refuse(
                    buffer,
                    f"verify-queues: @{buffer.sym_name.data} and @{other.sym_name.data} share "
                    f"memory, and the program uses both at the same time: "
                    f"@{tasks.families[min(spans[0])].sym_name.data} uses the first before "
                    f"@{tasks.families[max(spans[1])].sym_name.data} uses the second, and the "
                    "other way round",
                )
            yield from (
                (first, second)
                for first in theirs
                for second in mine
                if first.writes or second.writes
            )


def _overlap(a: BufferOp, b: BufferOp) -> bool:
    assert a.offset is not None
    assert b.offset is not None
    begin, other = a.offset.value.data, b.offset.value.data
    return begin < other + buffer_bytes(b) and other < begin + buffer_bytes(a)
