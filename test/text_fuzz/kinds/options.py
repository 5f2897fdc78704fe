"""Mutated options of `hpmoe`."""

from __future__ import annotations

from random import Random

from text_fuzz.kinds.kind import earlier
from text_fuzz.mutate import mutate
from text_fuzz.seeds import Seeds
from text_fuzz.watch import Case

OPTIONS = (
    "import --preset deepseek-v3-tiny", "import --preset mixtral-8x7b --ranks 4 --tokens 100",
    "import --config deepseek.json --top-k 2 --hidden 64 --width 32 --experts 8 --capacity 60",
    "import --config mindformers.yaml --dtype f16", "run graph.mlir --level moe --routing zipf:1.2",
    "compile --preset deepseek-v3-tiny --ranks 2 --tokens 8 --direction both --recompute swiglu,up",
    "run --preset deepseek-v3-tiny --level moe --ranks 2 --tokens 3,4 --routing balanced --seed 3",
    "run graph.mlir --level comm --tokens 4 --launches 2 --interleavings 2 --routing one-expert",
    "run graph.mlir --level tile --direction both --passes lower-moe{row-chunks=2}",
    "compile graph.mlir --passes derive-backward,lower-moe{granularity=expert}",
    "import --mindspore mindformers-moelayer-ep1.mindir --ranks 2",
)  # fmt: skip


def options(seeds: Seeds, rng: Random) -> Case:
    """Mutated options of `hpmoe` on good files."""
    data, changes = mutate(rng.choice(OPTIONS), rng, OPTIONS)
    words = data.decode("utf-8", "replace").replace("\0", "").split(" ")
    files = {n: t.encode() for n, t in seeds.configs.items()} | {"graph.mlir": seeds.graph.encode()}
    files |= seeds.mindir
    output = ""
    if not any(w in words for w in ("run", "-o")):
        before, output = earlier(rng, "out")
        if words[0] != "compile":
            files |= before
        words += ["-o", output]
    # Nothing here may run MindSpore or a compiler.
    words = [w for w in words if not ("code".startswith(w) and w) and not "--check".startswith(w)]
    for word in ("--launches", "--interleavings"):
        # Any number is right here, however long it takes.
        if word in words[:-1] and words[words.index(word) + 1].lstrip("-").isdigit():
            words[words.index(word) + 1] = str(int(words[words.index(word) + 1][:9]) % 4 - 1)
    if "run" in words and "--level" not in words:
        words += ["--level", "moe"]
    return Case("options", "hpmoe", tuple(words), files, changes, output)
