"""The worker loop on several ranks: queues, events, peers, launches in a row, and its checks."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hpmoe_ir.dialects.access import TileCut, cut_tiles
from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dtypes import from_bits, round_to, to_bits
from hpmoe_ir.kernels.route_layout import RouteLayout
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.runtime.cpu_build import KernelEntry, build
from hpmoe_ir.runtime.cpu_model import RankLaunch, execute
from hpmoe_ir.runtime.device_fault import DeviceFault

HERE = Path(__file__).parent
DEVICE_DIR = HERE.parents[2] / "hpmoe_ir" / "runtime" / "device"
MACHINE = load_machine("ascend-a3")

PUT, MULTIPLY, COLLECT = range(3)
"""Families of the example."""

ROWS, HIDDEN, WIDTH, CHUNKS = 9, 48, 32, 3


class Example:
    """example_layer.cpp with its table, for a number of ranks and one or more AICs."""

    def __init__(self, ranks: int, aics: int):
        self.ranks = ranks
        self.aics = aics
        copy = ranks * ROWS * HIDDEN
        self.counters = -(-2 * copy * 2 // 64) * 64
        self.sizes = [0, 0, copy, 0, 0, ROWS, HIDDEN, WIDTH, CHUNKS, 0, ranks]
        self.thresholds = [1] * ranks + [ranks]
        put = [(PUT << 24) + p for p in range(ranks)]
        multiply = [(MULTIPLY << 24) + s for s in range(ranks)]
        collect = [(COLLECT << 24) + i for i in range(ranks * CHUNKS)]
        self.aic_queues = [multiply[i::aics] for i in range(aics)]
        self.aiv_queues = [[*put, *collect][i :: 2 * aics] for i in range(2 * aics)]
        self.header: dict[int, int] = {}
        """Words of the header to replace, by index."""

    def table(self) -> bytes:
        body = b""
        offsets: list[int] = []
        for words in (
            self.sizes,
            self.thresholds,
            queue_words(self.aic_queues),
            queue_words(self.aiv_queues),
        ):
            offsets.append(64 + len(body))
            data = np.array(words, "<i4").tobytes()
            body += data + bytes(-len(data) % 64)
        header = [0x544D5048, 1, 64 + len(body), self.ranks, self.aics, 3, len(self.thresholds)]
        header += [0, offsets[0], len(self.sizes), *offsets[1:], self.counters // 64]
        header += [zlib.crc32(body), 0]
        for word, value in self.header.items():
            header[word] = value
        return np.array(header, "<u4").tobytes() + body

    def run(self, launches: int = 1, seed: int = 0) -> None:
        """Runs and checks launches with different values and token counts."""
        pointers = ("x", "w", "out", "table", "workspace", "windows")
        entry = KernelEntry("example_layer", pointers, ("tokens", "launch"))
        executable = build(HERE / "example_layer.cpp", entry, [DEVICE_DIR, HERE])
        rng: Any = np.random.default_rng(seed)
        jobs: list[list[RankLaunch]] = []
        expected: list[list[npt.NDArray[np.float32]]] = []
        for launch in range(1, launches + 1):
            x = rng.integers(-8, 8, (self.ranks, ROWS, HIDDEN)).astype(np.float32)
            w = rng.integers(-2, 3, (self.ranks, HIDDEN, WIDTH)).astype(np.float32)
            jobs.append([])
            expected.append([])
            for rank in range(self.ranks):
                tokens = int(rng.integers(0, ROWS + 1))
                size = self.ranks * ROWS * WIDTH * 2
                jobs[-1].append(
                    RankLaunch(
                        {"x": to_bits(x[rank], "bf16"), "w": to_bits(w[rank], "bf16"), "out": size},
                        {"tokens": tokens, "launch": launch},
                    )
                )
                expected[-1].append(round_to((x @ w[rank])[:, :tokens], "bf16"))
        results = execute(
            executable,
            entry,
            jobs,
            {
                "table": self.table(),
                "workspace": 4096 + self.ranks * ROWS * WIDTH * 2,
                "windows": bytes(self.counters + 64 * len(self.thresholds)),
            },
            aics=self.aics,
            machine=MACHINE,
            seed=seed,
            seconds=60,
        )
        for outputs, wanted in zip(results, expected, strict=True):
            for output, values in zip(outputs, wanted, strict=True):
                raw = output["out"].view(np.uint16).reshape(self.ranks, ROWS, WIDTH)
                tokens = values.shape[1]
                np.testing.assert_array_equal(from_bits(raw[:, :tokens], "bf16"), values)
                assert (raw[:, tokens:] == 0x7FBD).all(), "rows of no token were written"

    def fault(self) -> DeviceFault:
        with pytest.raises(DeviceFault) as caught:
            self.run()
        return caught.value


def queue_words(queues: Sequence[Sequence[int]]) -> list[int]:
    """A queue section: where each worker's slots begin and end, then all slots."""
    first = np.cumsum([0, *map(len, queues)])
    return [*map(int, first), *(slot for queue in queues for slot in queue)]


@pytest.mark.parametrize("ranks, aics", [(1, 1), (2, 1), (2, 4), (3, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_launches_in_a_row(ranks: int, aics: int, seed: int):
    """Returns integers small enough for exact sums, so that all orders give the same bits."""
    Example(ranks, aics).run(launches=4, seed=seed)


@pytest.mark.parametrize(
    "word, value", [(0, 0x12345678), (1, 2), (3, 3), (4, 2)], ids=["magic", "version", "ranks", "B"]
)
def test_a_table_for_something_else_stops_the_kernel(word: int, value: int):
    example = Example(2, 1)
    example.header[word] = value
    assert example.fault().kind == "trap"


@pytest.mark.parametrize("core, family", [("aic", PUT), ("aic", 3), ("aiv", MULTIPLY), ("aiv", 9)])
def test_a_task_that_the_core_does_not_have_stops_the_kernel(core: str, family: int):
    example = Example(2, 1)
    slot = (family << 24) + 1
    queues = {"aic": example.aic_queues, "aiv": example.aiv_queues}
    queues[core][0].append(slot)
    fault = example.fault()
    assert fault.kind == "trap"
    assert fault.marker == slot


def test_an_event_that_does_not_exist_stops_the_kernel():
    example = Example(2, 1)
    example.sizes[10] = 3
    assert example.fault().kind == "trap"


def test_a_threshold_one_too_high_never_ends():
    example = Example(2, 1)
    example.thresholds[1] = 2
    fault = example.fault()
    assert fault.kind == "deadlock"
    assert {w.marker for w in fault.waiting if w.core == "aic0"} == {(MULTIPLY << 24) + 1}


def test_a_dropped_task_never_ends():
    example = Example(2, 1)
    example.aic_queues[0].pop()
    assert example.fault().kind == "deadlock"


def chunk(rows: tuple[int, int], c: int, chunks: int, align: int) -> tuple[int, int]:
    """Chunk c of a range of rows (begin, count), as documented in hpmoe/tile.h."""
    size = -(-(-(-rows[1] // chunks)) // align) * align
    begin = min(c * size, rows[1])
    return rows[0] + begin, min(begin + size, rows[1]) - begin


def ranges(layout: RouteLayout, words: Any, chunks: int, align: int) -> list[tuple[int, int]]:
    """The ranges that route_ranges.cpp reads, from the words of a route."""
    w = [int(word) for word in words]
    ranks, local = layout.ranks, layout.local

    def between(array: int, first: int, last: int) -> tuple[int, int]:
        return w[array + first], w[array + last] - w[array + first]

    found = [between(layout.received_begin, 0, local * ranks)]
    for x in range(layout.experts):
        sent = between(layout.sent_begin, x, x + 1)
        found += [sent, (w[layout.dest_begin + x], sent[1])]
    for e in range(local):
        rows = between(layout.received_begin, e * ranks, (e + 1) * ranks)
        found += [rows, *(chunk(rows, c, chunks, align) for c in range(chunks))]
        for part in range(e * ranks, (e + 1) * ranks):
            returned = between(layout.received_begin, part, part + 1)[1]
            found.append((w[layout.return_begin + part], returned))
    return found


def tile_ranges(cut: TileCut, received: IntArray) -> list[tuple[int, int]]:
    """The tiles that route_ranges.cpp reads, and what meets them, as (begin, count)."""
    tiles, (local, ranks) = cut_tiles(cut, received), received.shape

    def counted(bounds: tuple[int, int]) -> tuple[int, int]:
        return (bounds[0], bounds[1] - bounds[0]) if bounds[0] != bounds[1] else (0, 0)

    found: list[tuple[int, int]] = []
    for t in range(cut.count):
        found += [counted(tiles.rows(t)), (tiles.expert(t), 0), counted(tiles.parts(t))]
    for e in range(local):
        found += [counted(tiles.covering(e, (0, ranks)))]
        found += [counted(tiles.covering(e, (s, s + 1))) for s in range(ranks)]
    return found


@pytest.mark.parametrize("ranks, experts", [(1, 1), (2, 4), (3, 12), (8, 64)])
@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("spare", [0, 2, 40])
def test_route_ranges(ranks: int, experts: int, over: bool, spare: int):
    scalars = ("experts", "ranks", "chunks", "align", "tiles", "tile_rows")
    entry = KernelEntry("route_ranges", ("words", "out"), scalars)
    executable = build(HERE / "route_ranges.cpp", entry, [DEVICE_DIR, HERE])
    rng: Any = np.random.default_rng(ranks)
    sent = rng.integers(0, 40, (ranks, experts), np.int32)
    sent[:, ::3] = 0
    sent[0, -1] = 40
    counts = np.hstack([sent, np.cumsum(sent, axis=1) - sent]).astype(np.int32)
    layout = RouteLayout(experts=experts, ranks=ranks)
    words = layout.build(counts, ranks - 1, 1 if over else 1 << 20)
    chunks, align = 3, 16
    expected = ranges(layout, words, chunks, align)
    cut = TileCut(experts // ranks + spare, 16)
    received = sent[:, (ranks - 1) * (experts // ranks) :].T.astype(np.int64)
    expected += tile_ranges(cut, received)
    if over:
        expected = [(0, 0)] * len(expected)
    sizes = (experts, ranks, chunks, align, cut.count, cut.rows)
    launch = RankLaunch(
        {"words": words, "out": 8 * len(expected)}, dict(zip(scalars, sizes, strict=True))
    )
    out = execute(executable, entry, [[launch]], aics=1, machine=MACHINE, seconds=60)[0][0]["out"]
    np.testing.assert_array_equal(out.view(np.int32).reshape(-1, 2), expected)
