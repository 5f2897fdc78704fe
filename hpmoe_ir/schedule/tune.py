"""A longer search than `auto` over the options of `lower-moe`, on the same timing model."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from hpmoe_ir.driver.compiler import Progress
from hpmoe_ir.driver.specs import find, parse_many
from hpmoe_ir.extensions import extension_universe
from hpmoe_ir.integers import ceil_div, round_up
from hpmoe_ir.kernels.matmul_tile import CUBE
from hpmoe_ir.passes.lower_moe import LowerMoePass
from hpmoe_ir.schedule.auto import Candidate, Layer, auto_candidates, choose, evaluate
from hpmoe_ir.universe import PASSES

Report = Callable[[Candidate], None]
"""Told of each candidate that is faster than all before."""


@dataclass(frozen=True)
class Budget:
    """When a search ends: after the evaluation that passes one of the two."""

    seconds: float
    trials: int | None = None
    """Most evaluations, those of the candidates of `auto` included; None: no such end."""


def option_values(layer: Layer) -> dict[str, list[int | str]]:
    """The values that the search gives to each option of `lower-moe`."""
    config, machine = layer.config, layer.machine
    ranks, local, width = config.ranks, config.local_experts, config.hidden
    columns = sorted({round_up(ceil_div(width, parts), CUBE) for parts in range(2, 13)})
    return {
        "source_groups": [g for g in range(1, ranks + 1) if ranks % g == 0],
        "return_cols": [0, *columns],
        "last_experts": list(range(min(local, max(2, local // 3)) + 1)),
        "task_cols": [0, *(n for n in range(256, width + 1, 256) if width % n == 0)],
        "gradient_cols": [0] if layer.backward is None else [0, 512, 1024, 2048],
        "last_gradients": [n for n in range(3) if n <= (0 if layer.backward is None else local)],
        "put_chunks": [1, 2, 4],
        "token_chunks": [
            n
            for n in (machine.aiv_cores - 1, machine.aiv_cores, 2 * machine.aiv_cores)
            if n <= config.tokens
        ]
        or [0],
        "ahead": [0, 1, 2, 3, 4, 6],
        "behind": [0, 1, 2, 3, 4, 6],
        "policy": ["overlap", "fill", "depth-first"],
    }


def tune(
    layer: Layer,
    budget: Budget,
    seed: int,
    report: Report = lambda _: None,
    progress: Progress = lambda _: None,
) -> tuple[Candidate, int]:
    """The fastest pipeline found, and how many were tried.

    Begins with the candidates of `auto`; from there one option, at times two, of the best found so
    far is given another value at random, and the pipeline is kept where it is faster. The seed
    decides what is tried in which order, the budget how far that goes. Raises InputError where no
    candidate of `auto` can be used.
    """
    start = time.monotonic()
    rng = random.Random(seed)
    values = option_values(layer)
    texts = auto_candidates(layer)[: budget.trials]
    best = choose(layer, texts, progress)[0]
    report(best)
    seen = set(texts)
    tried, repeated = len(texts), 0
    while repeated < 1000:
        left = budget.seconds - (time.monotonic() - start)
        if left <= 0 or (budget.trials is not None and tried >= budget.trials):
            break
        text = _changed(best.passes, values, rng)
        if text in seen:
            repeated += 1
            continue
        repeated = 0
        seen.add(text)
        tried += 1
        progress(f"{best.time_us:.0f} us after {tried} pipelines, {left:.0f} s left")
        found = evaluate(layer, text)
        if found.time_us < best.time_us:
            best = found
            report(best)
    return best, tried


def _changed(passes: str, values: dict[str, list[int | str]], rng: random.Random) -> str:
    """A pipeline with another value of one option, or of two."""
    (spec,) = parse_many("passes", passes)
    lowering = find("pass", spec, extension_universe().all_passes, PASSES)
    assert isinstance(lowering, LowerMoePass)
    names = list(values)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(names)
        others = [v for v in values[name] if v != getattr(lowering, name)]
        if not others:
            continue
        changes: dict[str, int | str | bool] = {name: rng.choice(others)}
        # Options that stand or fall with another one.
        if changes.get("last_experts") and not lowering.return_cols:
            changes["return_cols"] = values["return_cols"][-1]
        if changes.get("return_cols") == 0:
            changes["last_experts"] = 0
        if changes.get("last_gradients") and not lowering.gradient_cols:
            changes["gradient_cols"] = values["gradient_cols"][-1]
        if changes.get("gradient_cols") == 0:
            changes["last_gradients"] = 0
        if "policy" in changes:
            changes["rotate_sources"] = changes["policy"] != "depth-first"
        lowering = replace(lowering, **changes)
    return str(lowering.pipeline_pass_spec())
