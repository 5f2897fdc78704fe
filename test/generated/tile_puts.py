"""Families of tile tasks that write into other ranks' memory."""

import numpy as np

from generated.tile_families import D0, D1, D2, WHOLE, FamilyMaker, Memory, TileValue, multiplied
from hpmoe_ir.dialects.access import (
    Access,
    BlockSelector,
    GroupedRows,
    IndexSelector,
    SentRows,
)
from hpmoe_ir.dialects.index import RANK
from hpmoe_ir.dialects.tile import MemorySpace
from hpmoe_ir.machines.core_kind import CoreKind


class ProgramMaker(FamilyMaker):
    """Draws a program family after family: work on one rank, and puts."""

    def announce(self) -> None:
        """What a launch begins with: each rank tells all others, and hears from all."""
        rows, width = self.draw(1, 6), self.width()
        x = self.buffer("x", MemorySpace.INPUT, (rows, width))
        # Two copies: a rank may be a launch ahead of one that still reads.
        window = self.buffer("news", MemorySpace.WINDOW, (self.ranks, rows, width), copies=2)
        self.family(
            "tell",
            [("p", self.ranks)],
            CoreKind.AIV,
            "copy_rows",
            [Access(x, (WHOLE, WHOLE))],
            [Access(window, (IndexSelector(RANK), WHOLE, WHOLE), D0)],
        )
        total = self.ranks * rows
        heard = self.buffer("heard", MemorySpace.WORKSPACE, (total, width))
        self.family(
            "hear",
            [("p", self.ranks)],
            CoreKind.AIV,
            "copy_rows",
            [Access(window, (IndexSelector(D0), WHOLE, WHOLE))],
            [Access(heard, (BlockSelector(D0, rows), WHOLE))],
        )
        # A product of all rows: whatever follows from it comes after all ranks' news.
        columns = self.width()
        weights = self.buffer("w", MemorySpace.INPUT, (width, columns))
        mixed = self.buffer("mixed", MemorySpace.WORKSPACE, (total, columns))
        block = 16 * self.draw(1, columns // 16)
        self.family(
            "mix",
            [("n", -(-columns // block))],
            CoreKind.AIC,
            "grouped_matmul",
            [Access(heard, (WHOLE, WHOLE)), Access(weights, (WHOLE, BlockSelector(D0, block)))],
            [Access(mixed, (WHOLE, BlockSelector(D0, block)))],
        )

        def told(memory: Memory) -> None:
            memory[heard] = [np.concatenate(memory[x])] * self.ranks

        # Each rank hears from all that they have heard: without this, a quick rank may tell in its
        # next launch what a slow one's counter takes for another rank's word of this launch.
        back = self.buffer("heard_by", MemorySpace.WINDOW, (self.ranks, total, columns))
        self.family(
            "answer",
            [("p", self.ranks)],
            CoreKind.AIV,
            "copy_rows",
            [Access(mixed, (WHOLE, WHOLE))],
            [Access(back, (IndexSelector(RANK), WHOLE, WHOLE), D0)],
        )
        answers = self.buffer("answers", MemorySpace.WORKSPACE, (self.ranks * total, columns))
        self.family(
            "end",
            [("p", self.ranks)],
            CoreKind.AIV,
            "copy_rows",
            [Access(back, (IndexSelector(D0), WHOLE, WHOLE))],
            [Access(answers, (BlockSelector(D0, total), WHOLE))],
        )

        def answered(memory: Memory) -> None:
            memory[answers] = [np.concatenate(memory[mixed])] * self.ranks

        self.work += [told, multiplied(heard, weights, mixed), answered]
        self.values += [
            TileValue(x, "", (rows, width), MemorySpace.INPUT),
            TileValue(heard, "", (total, width)),
            TileValue(answers, "", (self.ranks * total, columns)),
            TileValue(mixed, "", (total, columns), first=1),
        ]

    def put(self) -> None:
        """A value to a neighbour, or to all ranks, by blocks of rows."""
        choice = [v for v in self.values if v.first and v.rows == ""]
        if not choice:
            return
        source = self.one(choice)
        rows, width = source.shape
        size = self.draw(1, rows)
        parts = -(-rows // size)
        if self.draw(0, 1):
            step = self.draw(0, self.ranks - 1)
            window = self.buffer("ring", MemorySpace.WINDOW, (rows, width))
            self.family(
                "ring",
                [("r", parts)],
                CoreKind.AIV,
                "copy_rows",
                [Access(source.name, (BlockSelector(D0, size), WHOLE))],
                [Access(window, (BlockSelector(D0, size), WHOLE), (RANK + step) % self.ranks)],
            )

            def passed(memory: Memory) -> None:
                sent = memory[source.name]
                memory[window] = [sent[(r - step) % self.ranks] for r in range(self.ranks)]

            self.work.append(passed)
            self.values.append(TileValue(window, "", (rows, width), MemorySpace.WINDOW, first=1))
            return
        window = self.buffer("all", MemorySpace.WINDOW, (self.ranks, rows, width))
        peer = D0 if self.draw(0, 1) else (RANK + D0) % self.ranks
        self.family(
            "spread",
            [("p", self.ranks), ("r", parts)],
            CoreKind.AIV,
            "copy_rows",
            [Access(source.name, (BlockSelector(D1, size), WHOLE))],
            [Access(window, (IndexSelector(RANK), BlockSelector(D1, size), WHOLE), peer)],
        )
        # One of the ranks' parts goes on.
        of = self.draw(0, self.ranks - 1)
        target = self.buffer("part", MemorySpace.WORKSPACE, (rows, width))
        block = self.draw(1, rows)
        self.family(
            "take",
            [("r", -(-rows // block))],
            CoreKind.AIV,
            "copy_rows",
            [
                Access(
                    window,
                    (IndexSelector((RANK + of) % self.ranks), BlockSelector(D0, block), WHOLE),
                )
            ],
            [Access(target, (BlockSelector(D0, block), WHOLE))],
        )

        def spread(memory: Memory) -> None:
            sent = memory[source.name]
            memory[target] = [sent[(r + of) % self.ranks] for r in range(self.ranks)]

        self.work.append(spread)
        self.values.append(TileValue(target, "", (rows, width), first=1))

    def back(self) -> None:
        """Rows of experts to the ranks that they came from."""
        choice = [v for v in self.values if v.rows == "grouped"]
        if not choice:
            return
        source = self.one(choice)
        width = source.shape[1]
        window = self.buffer("back", MemorySpace.WINDOW, (self.tokens * self.top, width), "sent")
        chunk = self.chunk(D2)
        self.family(
            "return",
            [("e", self.local), ("s", self.ranks), ("c", chunk.count)],
            CoreKind.AIV,
            "copy_rows",
            [Access(source.name, (GroupedRows(D0, D1, self.ranks, chunk), WHOLE))],
            [Access(window, (SentRows(RANK * self.local + D0, chunk), WHOLE), D1)],
            route=True,
        )
        where = self.where
        assert where is not None

        def returned(memory: Memory) -> None:
            pairs = np.zeros((where.ids.size, width), np.float32)
            for rank, rows in enumerate(memory[source.name]):
                pairs[where.received(rank)] = rows
            memory[window] = [pairs[where.sent(rank)] for rank in range(self.ranks)]

        self.work.append(returned)
        self.values.append(
            TileValue(window, "sent", (self.tokens * self.top, width), MemorySpace.WINDOW, 1)
        )
