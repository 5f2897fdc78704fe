"""Mutated IR, pipelines and machines through `hpmoe-opt`."""

from __future__ import annotations

from random import Random
from typing import Any

from text_fuzz.kinds.kind import Kind, earlier
from text_fuzz.mutate import mutate
from text_fuzz.seeds import Seeds
from text_fuzz.watch import Case

PASSES_OF = {
    "moe": (
        "convert-moe-to-comm", "derive-backward", "derive-backward{recompute=swiglu,up,dispatch}",
        "derive-backward{accumulate=true}", "lower-moe",
        "lower-moe{granularity=expert row-chunks=2}",
        "derive-backward,lower-moe", "cse", "canonicalize",
    ),
    "comm": (
        "convert-comm-to-tile", "convert-comm-to-tile{row-chunks=2 put-chunks=2 task-cols=16}",
    ),
    "tile": (
        "insert-dependencies", "insert-dependencies{granularity=expert}", "elide-dependencies",
        "insert-dependencies,elide-dependencies", "plan-memory", "assign-queues",
        "insert-dependencies,elide-dependencies,plan-memory,assign-queues,allocate-events",
        "substitute-kernel{kernel=copy_rows by=swiglu}",
        "assign-queues{policy=operator-order rotate=false}",
    ),
    "queue": ("allocate-events", "verify-queues", "verify-queues", "expand-tasks",
              "expand-tasks{limit=4}", "plan-memory", "allocate-events,plan-memory"),
}  # fmt: skip

TARGETS = ("ascendc", "task-table", "host")


def _opt(kind: str, text: bytes, origin: str, rng: Random, args: list[str], **more: Any) -> Case:
    before, output = earlier(rng, "out.mlir")
    files = {"in.mlir": text, **before, **more.pop("files", {})}
    # A pass that needs another machine or an option says so without a place in the text.
    return Case(
        kind, "hpmoe-opt", ("in.mlir", *args, "-o", output), files, origin, output,
        place=more.pop("place", r"in\.mlir(:\d+:\d+)?: error: "), **more,
    )  # fmt: skip


def ir(level: str) -> Kind:
    """Mutated IR of a level, verified only, through passes, or to a target."""

    def case(seeds: Seeds, rng: Random) -> Case:
        name, text = rng.choice(seeds.ir[level])
        data, changes = mutate(text, rng, seeds.texts(level))
        args: list[str] = []
        if rng.random() < 0.7:
            args += ["-p", rng.choice(PASSES_OF[level])]
        if rng.random() < (0.5 if level == "queue" else 0.05):
            args += ["-t", rng.choice(TARGETS)]
        elif rng.random() < 0.2:
            args.append("--print-op-generic")
        return _opt(level, data, f"{name} {changes}", rng, args)

    return case


def pipeline(seeds: Seeds, rng: Random) -> Case:
    """Mutated passes and targets on good IR."""
    level = rng.choice(("moe", "tile", "queue"))
    name = f"small:{level}"
    text = next(t for n, t in seeds.ir[level] if n == name)
    others = [*seeds.pipelines, *PASSES_OF[level]]
    passes, changes = mutate(rng.choice(others), rng, others)
    args = ["-p", passes.decode("utf-8", "replace").replace("\0", "")]
    if rng.random() < 0.3:
        target, more = mutate(rng.choice(('ascendc{program="small"}', "mlir{print-debuginfo=true}",
                                          "task-table", "host{program=small}")), rng)  # fmt: skip
        args = ["-t", target.decode("utf-8", "replace").replace("\0", "")]
        changes = more
    elif rng.random() < 0.2:
        args[1] = rng.choice(PASSES_OF[level])
        args += rng.choice((["--split-input-file"], ["--no-implicit-module"], ["-f", "mlir"],
                            ["--allow-unregistered-dialect"],
                            ["--print-between-passes"]))  # fmt: skip
    long = {"-p": "--passes", "-t": "--target"}[args[0]]
    args = [f"{long}={args[1]}", *args[2:]]
    return _opt("pipeline", text.encode(), f"{name} {changes}", rng, args, place="")


def machine(seeds: Seeds, rng: Random) -> Case:
    """A mutated machine description."""
    name = rng.choice(list(seeds.machines))
    data, changes = mutate(seeds.machines[name], rng, list(seeds.machines.values()))
    passes = rng.choice(("lower-moe", "derive-backward,lower-moe"))
    args = ["-p", passes + '{machine="my.toml"}', *rng.choice(([], [], ["-t", "ascendc"]))]
    return _opt("machine", seeds.graph.encode(), f"{name} {changes}", rng, args, place="",
                files={"my.toml": data})  # fmt: skip
