"""Timing of one rank in place of all, for programs and routings that are alike on each rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hpmoe_ir.dialects.index import IntArray, evaluate_index, flat_events
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.queue import POINT_BITS, SignalOp
from hpmoe_ir.dialects.tile import copy_bytes
from hpmoe_ir.lowering.program import LoweredProgram
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.run.execution import ExecutionError
from hpmoe_ir.runtime.cpu_timing import Mirror
from hpmoe_ir.timing.timed_run import RankIntegers, Stages, Timeline, ids_of, simulate


def simulate_mirrored(
    program: LoweredProgram,
    executable: Path,
    table: bytes,
    ranks: Sequence[RankIntegers],
    machine: Machine | None = None,
    stages: Stages | None = None,
    seconds: int = 600,
) -> Timeline:
    """Times one launch as `simulate` does, but runs rank 0 alone, with mirrored peers.

    All ranks are assumed to do the same at the same time: signals from a peer arrive as rank 0's
    own signals leave, and rows from peers load its links and L2 as its own rows load theirs. Rows
    from peers are read from memory, never from L2.

    This requires that rank s sends to rank s + d what rank 0 sends to rank d, up to a few rows, and
    that the program counts destinations from the rank itself. Raises ExecutionError otherwise, and
    where `simulate` does.
    """
    fills = _counts(program, ranks)
    mirror = Mirror(program.ranks, _mirrored_counters(program), fills)
    return simulate(program, executable, table, ranks, machine, stages, seconds, mirror)


MAX_UNEVENNESS = 0.02
"""Largest difference between ranks, in rows over the rows of a rank.

Under the routing `balanced` ranks differ by rounding alone.
"""


def _counts(program: LoweredProgram, ranks: Sequence[RankIntegers]) -> list[tuple[str, int, bytes]]:
    """Returns contents of the windows of counts, as the exchange of all ranks would leave them.

    An entry is a memory, a byte offset and the bytes.
    """
    experts = next(
        t.experts.data for b in program.buffers.values() if isinstance(t := b.content, RouteType)
    )
    ids = ids_of(program)
    counts = np.stack([np.bincount(r.arrays[ids].ravel(), minlength=experts) for r in ranks])
    _check_alike(program, counts)
    # The counts of rank 0 stand for all, so that the same puts of every rank are empty.
    local = experts // program.ranks
    counts = np.stack([np.roll(counts[0], rank * local) for rank in range(program.ranks)])
    rows = np.concatenate([counts, np.cumsum(counts, axis=1) - counts], axis=1)
    data = rows.astype("<i4").tobytes()
    fills: list[tuple[str, int, bytes]] = []
    for family in program.families.values():
        if family.kernel.data != "exchange_counts":
            continue
        buffer = program.buffers[family.write_accesses[0].buffer]
        assert buffer.offset is not None
        for copy in range(buffer.copies.value.data):
            fills.append(("windows", buffer.offset.value.data + copy * copy_bytes(buffer), data))
    return fills


def _check_alike(program: LoweredProgram, counts: np.ndarray[tuple[int, int], np.dtype[np.int64]]):
    """Raises ExecutionError for a routing under which the ranks send different numbers of rows."""
    ranks, local = program.ranks, counts.shape[1] // program.ranks
    by_distance = np.stack([np.roll(row, -rank * local) for rank, row in enumerate(counts)])
    spread = int((by_distance.max(axis=0) - by_distance.min(axis=0)).sum())
    rows = int(counts.sum()) // ranks
    if spread > MAX_UNEVENNESS * rows:
        raise ExecutionError(
            "a mirrored run needs a routing in which all ranks send alike; ranks differ by "
            f"{spread} of {rows} rows"
        )


def _mirrored_counters(program: LoweredProgram) -> dict[tuple[int, int], int]:
    """Maps each signal of rank 0 to a peer to the counter of rank 0 that a peer signals alike."""
    counters: dict[tuple[int, int], int] = {}
    for number, name in enumerate(program.families):
        signals = program.signals_of_family(name)
        for place, signal in enumerate(signals):
            if signal.peer_expr is None:
                continue
            for point, line in enumerate(mirrored_lines(program, signal)):
                counters[(number << POINT_BITS) + point, place] = int(line)
    return counters


def mirrored_lines(program: LoweredProgram, signal: SignalOp) -> IntArray:
    """Returns for each grid point the counter of rank 0 that `signal` adds to on a peer.

    Raises ExecutionError unless the program counts the peers from the rank itself.
    """
    family, event = program.families[signal.family_name], program.events[signal.event_name]
    points, size = family.coordinates(), family.task_count
    assert signal.peer_expr is not None
    peers = np.stack(
        [
            np.broadcast_to(evaluate_index(signal.peer_expr, points, rank), size)
            for rank in range(program.ranks)
        ]
    )
    if not ((peers == 0).sum(axis=0) == 1).all():
        raise ExecutionError(
            f"@{signal.family_name}: a mirrored run needs destinations that are counted from the "
            "sending rank"
        )
    sources = np.argmax(peers == 0, axis=0)
    return flat_events(signal.index_exprs, event.extents, points, sources, size) + (
        event.first_line()
    )
