"""Random local search over the options of `lower-moe`, on the timing model of `auto`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpmoe_ir.driver.compiler import Progress
from hpmoe_ir.options.options import OptionError
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.registry import built_in_policies
from hpmoe_ir.passes.tiling.options import NEEDED_WITH
from hpmoe_ir.schedule.auto import Candidate, choose, evaluate
from hpmoe_ir.schedule.candidates import Layer, auto_lowerings

Report = Callable[[Candidate], None]
"""Callback that receives each candidate that is faster than all previous ones."""


@dataclass(frozen=True)
class Budget:
    """Limits of a search; it ends after the evaluation that reaches one of them."""

    seconds: float
    trials: int | None = None
    """Maximum number of evaluations, including the candidates of `auto`; None for no limit."""


def option_values(layer: Layer) -> Mapping[str, Sequence[object]]:
    """Returns the values to search for each option of `lower-moe`, except the policy's options."""
    searched = [policy for policy in built_in_policies().values() if policy.search_space()]
    space = LowerMoePass.search_space(layer.config, layer.machine, layer.backward is not None)
    return {**space, "policy": [policy() for policy in searched]}


def tune(
    layer: Layer,
    budget: Budget,
    seed: int,
    report: Report = lambda _: None,
    progress: Progress = lambda _: None,
) -> tuple[Candidate, int]:
    """Returns the fastest pipeline found and the number of pipelines tried.

    Begins with the lowerings that `auto` considers, and compares expected times as it does. Each
    step gives one or two options of the best pipeline so far a random other value, and keeps the
    result if it is faster. The seed determines the sequence of pipelines, the budget its length.
    Raises InputError if no lowering of `auto` can be used.
    """
    start = time.monotonic()
    rng = random.Random(seed)
    values = option_values(layer)
    candidates = auto_lowerings(layer)[: budget.trials]
    best = choose(layer, [(lowering,) for lowering in candidates], progress)[0]
    lowering = next(c for c in candidates if best.passes == (c,))
    if len(best.timed) < len(layer.conditions):
        best = evaluate(layer, best.passes)  # It was ahead of the others under the first condition.
    report(best)
    seen = set(candidates)
    tried, repeated = len(candidates), 0
    while repeated < 1000:
        left = budget.seconds - (time.monotonic() - start)
        if left <= 0 or (budget.trials is not None and tried >= budget.trials):
            break
        other = _changed(lowering, values, rng)
        if other in seen:
            repeated += 1
            continue
        repeated = 0
        seen.add(other)
        tried += 1
        progress(f"{best.time_us:.0f} us after {tried} pipelines, {left:.0f} s left")
        found = evaluate(layer, (other,))
        if found.time_us < best.time_us:
            best, lowering = found, other
            report(best)
    return best, tried


def _changed(
    lowering: LowerMoePass, values: Mapping[str, Sequence[object]], rng: random.Random
) -> LowerMoePass:
    """Returns the lowering with one or two options changed; unchanged if the values conflict."""
    for _ in range(rng.choice((1, 1, 2))):
        of_policy = lowering.policy.search_space()
        name = rng.choice([*values, *of_policy])
        holder = lowering.policy if name in of_policy else lowering
        others = [v for v in {**values, **of_policy}[name] if v != getattr(holder, name)]
        if not others:
            continue
        changes: dict[str, Any] = {name: rng.choice(others)}
        if name in of_policy:
            changes = {"policy": replace(lowering.policy, **changes)}
        for part, whole in NEEDED_WITH.items():
            if changes.get(part) and not getattr(lowering, whole):
                changes[whole] = values[whole][-1]
            if changes.get(whole) == 0:
                changes[part] = 0
        try:
            lowering = replace(lowering, **changes)
        except OptionError:  # Another option excludes this one.
            continue
    return lowering
