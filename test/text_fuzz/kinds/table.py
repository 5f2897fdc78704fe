"""Mutated task tables."""

from __future__ import annotations

import zlib
from random import Random

from hpmoe_ir.lowering.task_table import HEADER
from text_fuzz.mutate import flip
from text_fuzz.seeds import Seeds
from text_fuzz.watch import Case


def table(seeds: Seeds, rng: Random) -> Case:
    """A mutated task table, mostly with a checksum that fits, run by the generated code."""
    name = next(n for n in seeds.compiled if n.endswith("/table.bin"))
    data = bytearray(seeds.compiled[name])
    changes = "words"
    if rng.random() < 0.3:
        data = bytearray(flip(bytes(data), rng))
        changes = "flip"
    else:
        for _ in range(rng.choice((1, 1, 2, 8))):
            i = 4 * (rng.randrange(16) if rng.random() < 0.4 else rng.randrange(len(data) // 4))
            old = int.from_bytes(data[i : i + 4], "little")
            new = rng.choice((0, 1, old + 1, old - 1, 2**31 - 1, 2**31, 2**32 - 1, old << 24,
                              rng.getrandbits(32), old ^ (1 << rng.randrange(32))))  # fmt: skip
            data[i : i + 4] = (new % 2**32).to_bytes(4, "little")
    header = 4 * len(HEADER)
    if rng.random() < 0.85 and len(data) >= header:
        place = 4 * HEADER.index("checksum")
        data[place : place + 4] = zlib.crc32(bytes(data[header:])).to_bytes(4, "little")
        place = 4 * HEADER.index("bytes")
        data[place : place + 4] = len(data).to_bytes(4, "little")
        changes += "+checksum"
    files = {f"dir/{n}": d for n, d in seeds.compiled.items()} | {f"dir/{name}": bytes(data)}
    return Case("table", "hpmoe", ("run", "dir", "--tokens", "2"), files, changes)
