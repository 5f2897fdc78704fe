"""Layers in files that `hpmoe` reads: configurations, graphs, compiled directories."""

from __future__ import annotations

from random import Random

from text_fuzz.kinds.kind import earlier
from text_fuzz.mutate import mutate
from text_fuzz.seeds import Seeds
from text_fuzz.watch import PREVIOUS, Case


def config(seeds: Seeds, rng: Random) -> Case:
    """A mutated model configuration."""
    name = rng.choice(list(seeds.configs))
    data, changes = mutate(seeds.configs[name], rng, list(seeds.configs.values()))
    before, output = earlier(rng, "out.mlir")
    args = ["import", "--config", name, "-o", output]
    if rng.random() < 0.3:
        args += ["--tokens", "64"]
    files = {name: data, **before}
    return Case("config", "hpmoe", tuple(args), files, f"{name} {changes}", output)


def graph(seeds: Seeds, rng: Random) -> Case:
    """A mutated graph through `hpmoe compile`, or run on a level."""
    name, text = rng.choice(seeds.ir["moe"])
    data, changes = mutate(text, rng, seeds.texts("moe"))
    output = ""
    args = ["run", "graph.mlir", "--level", rng.choice(("moe", "comm", "tile", "queue"))]
    files = {"graph.mlir": data}
    if rng.random() < 0.4:
        output = "out"
        args = ["compile", "graph.mlir", "-o", output]
        if rng.random() < 0.5:
            files |= {f"{output}/{n}": PREVIOUS for n in ("manifest.json", "moe.mlir", "mine.txt")}
    if rng.random() < 0.3:
        args += ["--direction", "both"]
    return Case("graph", "hpmoe", tuple(args), files, f"{name} {changes}", output)


def compiled(seeds: Seeds, rng: Random) -> Case:
    """A mutated file of a compiled layer."""
    files = dict(seeds.compiled)
    small = [n for n in files if not n.endswith((".h", "table.bin"))]
    name = rng.choice((*["manifest.json"] * 3, *["queue.mlir", "tile.mlir", "graph.mlir"], *small))
    if rng.random() < 0.1:
        name = rng.choice(list(files))
        del files[name]
        changes = "missing"
    else:
        files[name], changes = mutate(files[name].decode(), rng, [files["moe.mlir"].decode()])
    args = ["run", "dir", "--level", rng.choice(("moe", "comm", "tile", "tile", "queue"))]
    if rng.random() < 0.3:
        args += ["--direction", "both"]
    placed = {f"dir/{n}": data for n, data in files.items()}
    return Case("compiled", "hpmoe", tuple(args), placed, f"{name} {changes}")
