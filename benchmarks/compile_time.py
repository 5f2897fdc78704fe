"""Time and memory of `hpmoe compile` for a DeepSeek-V3 layer on many ranks, and how they grow.

    python benchmarks/compile_time.py [--ranks N] [--tokens N] [--chunks N,...] [--repeat N]
                                      [--direction forward|both]

Compiles the layer with tilings of which each, by default, has twice the tasks of the one before,
each in a process of its own, and prints seconds for each pass, the table's bytes a task, the peak
memory of the process and the ratio to the tiling before. Seconds are the least of the repetitions.

`--chunks 8` alone is the largest case on 64 ranks, 96,465 tasks a rank and 6.2 million in all.
`--ranks 512 --chunks 0` compiles for 512 ranks with the default tiling; from 257 ranks on, each has
one expert.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

from hpmoe_ir.passes.pipeline import LowerMoePass

PRESET = "deepseek-v3"
RANKS = 64
CHUNKS = "1,2,4,8"


def tiling(ranks: int, chunks: int) -> LowerMoePass:
    """Returns a fine tiling with `chunks` chunks of each part of rows; the default one for 0."""
    if not chunks:
        return LowerMoePass(over_memory=True)
    return LowerMoePass(
        source_groups=ranks,
        task_cols=256,
        row_chunks=chunks,
        put_chunks=chunks,
        over_memory=True,
    )


@dataclass(frozen=True)
class Measured:
    """One compilation."""

    tasks: int
    seconds: dict[str, float]
    total: float
    table_bytes: int
    peak_mib: float


def measure(ranks: int, chunks: int, tokens: int, direction: str) -> Measured:
    """Compiles once and writes all files, in this process."""
    start = time.perf_counter()
    from hpmoe_ir.driver.compiled_files import write_compiled
    from hpmoe_ir.driver.compiler import compile_module
    from hpmoe_ir.driver.source import make_context
    from hpmoe_ir.frontends.build_layer import layer_module
    from hpmoe_ir.frontends.presets import preset_layer
    from hpmoe_ir.passes.derive_backward import DeriveBackwardPass

    backward = DeriveBackwardPass() if direction == "both" else None
    layer = preset_layer(PRESET, tokens=tokens)
    module = layer_module(layer.with_sizes(ranks=ranks, experts=max(layer.experts, ranks)))
    compiled = compile_module(make_context(), module, tiling(ranks, chunks), backward=backward)
    writing = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        write_compiled(compiled, Path(directory))
    end = time.perf_counter()
    kernels = list(compiled.kernels.values())
    tasks = sum(f.task_count for k in kernels for f in k.program.families.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = {**compiled.seconds, "writing": end - writing}
    return Measured(tasks, seconds, end - start, sum(len(k.table) for k in kernels), peak)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="time and memory of hpmoe compile")
    parser.add_argument("--ranks", type=int, default=RANKS)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--chunks", default=CHUNKS, help=f"by default {CHUNKS}")
    parser.add_argument("--direction", choices=("forward", "both"), default="forward")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    results: list[Measured] = []
    for chunks in map(int, args.chunks.split(",")):
        runs: list[Measured] = []
        for _ in range(args.repeat):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                case = (args.ranks, chunks, args.tokens, args.direction)
                runs.append(pool.submit(measure, *case).result())
        results.append(min(runs, key=lambda r: r.total))
    print(f"{PRESET} on {args.ranks} ranks, {args.tokens} tokens a rank, {args.direction}")
    print(f"{'tasks a rank':24}" + "".join(f"{r.tasks:>12}" for r in results))
    for name in results[0].seconds:
        print(f"{name:24}" + "".join(f"{r.seconds[name]:>11.3f}s" for r in results))
    print(f"{'total':24}" + "".join(f"{r.total:>11.3f}s" for r in results))
    if len(results) > 1:
        ratios = [b.total / a.total for a, b in pairwise(results)]
        growth = [b.tasks / a.tasks for a, b in pairwise(results)]
        for what, found in (("time", ratios), ("tasks", growth)):
            print(
                f"{what + ', to the one before':24}"
                + " " * 12
                + "".join(f"{r:>12.2f}" for r in found)
            )
    print(
        f"{'table, bytes a task':24}"
        + "".join(f"{r.table_bytes / r.tasks:>12.2f}" for r in results)
    )
    print(f"{'peak memory':24}" + "".join(f"{r.peak_mib:>8.0f} MiB" for r in results))


if __name__ == "__main__":
    main()
