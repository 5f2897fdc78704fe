"""Timed runs and searches: odd machines and options, files that can't be written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from text_fuzz.kinds.kind import earlier
from text_fuzz.mutate import mutate
from text_fuzz.seeds import Seeds
from text_fuzz.watch import PREVIOUS, Case

ODD = (
    "0", "1", "2", "0.5", "1.25", "1.999", "3", "7", "-1", "-0.0", "1e-9", "1e9", "1e-300", "1e300",
    "1e400", "nan", "inf", "99999999999", "1_0", "0x10",
)  # fmt: skip

PLACES = ("out", "out", "out", "out", "out", "none/out", "file/out", "folder", "a" * 300)
"""Names of outputs; in the last ones no file can be."""


def _machine(seeds: Seeds, rng: Random) -> tuple[bytes, str]:
    """A description with odd numbers, or mutated blindly."""
    name = rng.choice(list(seeds.machines))
    text = seeds.machines[name]
    if rng.random() < 0.3:
        data, changes = mutate(text, rng, list(seeds.machines.values()))
        return data, f"{name} {changes}"
    # Without their ranges, most odd numbers are right.
    text = re.sub(r", (low|high) = [^,}]+", "", text)
    for _ in range(rng.choice((1, 1, 2, 9))):
        found = rng.choice(list(re.finditer(r"^(\w+) = \{ value = ([^,}]+)", text, re.MULTILINE)))
        text = f"{text[: found.start(2)]}{rng.choice(ODD)} {text[found.end(2) :]}"
        name += f" {found.group(1)}"
    return text.encode(), name


def _options(rng: Random, choices: Sequence[str]) -> tuple[list[str], str]:
    """Some options, X in them an odd number; at times mutated blindly."""
    chosen = rng.sample(choices, rng.choice((1, 1, 2, 3)))
    text = " ".join(re.sub("X", lambda _: rng.choice(ODD), option) for option in chosen)
    if rng.random() < 0.8:
        return text.split(), text
    data, changes = mutate(text, rng, choices)
    return data.decode("utf-8", "replace").replace("\0", "").split(), changes


SIMULATE_OPTIONS = (
    "--routing zipf:X", "--routing imbalance:X", "--routing balanced,uniform,zipf:X",
    "--routing one-expert", "--seed X", "--tokens 4", "--tokens 1,6", "--tokens 0,X", "--tokens X",
    "--direction both", "--direction backward", "--all-ranks", "--machine ascend-a2",
    "--schedule-for zipf:X", "--capacity X",
)  # fmt: skip


def simulate(seeds: Seeds, rng: Random) -> Case:
    """`hpmoe simulate` of a compiled layer."""
    files: dict[str, bytes] = {"file": PREVIOUS, "folder/mine.txt": PREVIOUS}
    files |= {f"dir/{n}": data for n, data in seeds.compiled.items()}
    args, changes = _options(rng, SIMULATE_OPTIONS)
    if rng.random() < 0.5:
        files["my.toml"], changes = _machine(seeds, rng)
        args = ["--machine", "my.toml", *(args if rng.random() < 0.3 else [])]
    outputs: list[str] = []
    for option in rng.sample(("json", "trace", "html"), rng.randrange(4)):
        name = rng.choice(PLACES).replace("out", f"out.{option}")
        args += [f"--{option}", name]
        outputs.append(name)
        if name.startswith("out"):
            files |= earlier(rng, name)[0]
    limit = rng.choice((None, None, None, None, 0, 1000, 5000))
    # The layer's own schedule only: others would have to be compiled.
    args = ["simulate", "dir", "--no-serial", *args]
    return Case("simulate", "hpmoe", tuple(args), files, f"{changes} limit {limit}",
                more_outputs=tuple(outputs), file_limit=limit)  # fmt: skip


TUNE_OPTIONS = (
    "--seconds X", "--seconds X", "--seed X", "--trials X", "--direction both",
    "--direction backward", "--recompute swiglu", "--machine ascend-a2", "--schedule-for zipf:X",
    "--schedule-for imbalance:X", "--tokens X",
)  # fmt: skip


def tune(seeds: Seeds, rng: Random) -> Case:
    """`hpmoe tune` of a small graph."""
    files: dict[str, bytes] = {"file": PREVIOUS, "folder/mine.txt": PREVIOUS}
    files["graph.mlir"] = seeds.graph.encode()
    args, changes = _options(rng, TUNE_OPTIONS)
    if rng.random() < 0.5:
        files["my.toml"], changes = _machine(seeds, rng)
        args = ["--machine", "my.toml", *(args if rng.random() < 0.3 else [])]
    output = rng.choice(PLACES)
    if output == "out":
        files |= earlier(rng, output)[0]
    # Whatever the options say, a case takes as long as one pipeline.
    args = ["tune", "graph.mlir", *args, "-o", output, "--trials", "1"]
    return Case("tune", "hpmoe", tuple(args), files, changes, output)
