"""Timing one rank where all ranks do the same: what the others would send is known from it."""

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
    """As `simulate`, but only rank 0 is run; the others are taken to do the same at the same time.

    That is so where rank s sends to rank s + d what rank 0 sends to rank d, up to a few rows, and
    where destinations are counted from the rank itself. What it takes from the others' doing: their
    signals arrive as its own leave, their rows load its links and L2 as its own load theirs. Rows
    that came from others are read from memory, never from L2. Raises ExecutionError where the
    routing or the program is not of this kind, and as `simulate`.
    """
    fills = _counts(program, ranks)
    mirror = Mirror(program.ranks, _mirrored_counters(program), fills)
    return simulate(program, executable, table, ranks, machine, stages, seconds, mirror)


MOST_UNEVEN = 0.02
"""Rows by which two ranks may differ, as a part of a rank's rows."""


def _counts(program: LoweredProgram, ranks: Sequence[RankIntegers]) -> list[tuple[str, int, bytes]]:
    """The counts of all ranks, where the tasks that exchange them would put them."""
    experts = next(
        t.experts.data for b in program.buffers.values() if isinstance(t := b.content, RouteType)
    )
    ids = ids_of(program)
    counts = np.stack([np.bincount(r.arrays[ids].ravel(), minlength=experts) for r in ranks])
    _check_alike(program, counts)
    # Exactly alike: which puts have no rows must be the same for all.
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
    """Refuses a routing under which the ranks do not do the same."""
    ranks, local = program.ranks, counts.shape[1] // program.ranks
    by_distance = np.stack([np.roll(row, -rank * local) for rank, row in enumerate(counts)])
    spread = int((by_distance.max(axis=0) - by_distance.min(axis=0)).sum())
    rows = int(counts.sum()) // ranks
    if spread > MOST_UNEVEN * rows:
        raise ExecutionError(
            "a mirrored run needs a routing that is the same seen from each rank; ranks differ by "
            f"{spread} of {rows} rows"
        )


def _mirrored_counters(program: LoweredProgram) -> dict[tuple[int, int], int]:
    """For each signal of rank 0 to a peer, the counter of rank 0 that a peer signals likewise."""
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
    """The counter of rank 0 that a peer signals as rank 0 does `signal`, by grid point.

    Raises ExecutionError where the peers of the grid points are not counted from the rank.
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
            "rank"
        )
    sources = np.argmax(peers == 0, axis=0)
    return flat_events(signal.index_exprs, event.extents, points, sources, size) + (
        event.first_line()
    )
