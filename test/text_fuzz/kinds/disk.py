"""Disks that are full."""

from __future__ import annotations

from random import Random

from text_fuzz.kinds.ir import TARGETS
from text_fuzz.seeds import Seeds
from text_fuzz.watch import PREVIOUS, Case


def disk(seeds: Seeds, rng: Random) -> Case:
    """A disk that is full in the middle of a file, or a place that can't be written."""
    limit: int | None = rng.choice((0, 1, 100, 1000, 5000, 20000))
    output = rng.choice(("out", "out", "out/deep/er", "file/out", "full"))
    files: dict[str, bytes] = {"graph.mlir": seeds.graph.encode(), "file": PREVIOUS}
    files["full/mine.txt"] = PREVIOUS
    if rng.random() < 0.4:
        limit = None
    tool, args = rng.choice((
        ("hpmoe", ("compile", "graph.mlir")), ("hpmoe", ("import", "--preset", "deepseek-v3-tiny")),
        ("hpmoe-opt", ("graph.mlir", "-p", "lower-moe", "-t", rng.choice(("mlir", *TARGETS)))),
        ("hpmoe-opt", ("graph.mlir",)),
    ))  # fmt: skip
    compiles = args[0] == "compile"
    if output == "out" and rng.random() < 0.6:
        old = ("manifest.json", "queue.mlir", "layer/table.bin", "mine.txt")
        files |= {f"out/{n}": PREVIOUS for n in old} if compiles else {"out": PREVIOUS}
    return Case("disk", tool, (*args, "-o", output), files, f"limit {limit}", output,
                file_limit=limit)  # fmt: skip
