"""Judges right and broken runs of the generated graphs, and counts what is caught."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
from installed import install
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.frontends.graph_layer import graph_layer
from hpmoe_ir.interpreter.module import run_module
from hpmoe_ir.interpreter.values import Array, PerRank
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import LayerValues, make_values
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.run.directions import OUTPUT, backward_arguments, forward_arguments
from hpmoe_ir.run.graph_reference import GraphReference
from hpmoe_ir.run.signature import backward_of, signatures
from hpmoe_ir.run.tolerance import ResultBounds, compare_result
from judged.breaks import BREAKS, BrokenRun, applies, operations
from judged.graphs import graph_text, has_gradients

TOKENS = [16, 11]
FUNCTION = "layer"

HERE = Path(__file__).parent
CLAMP = HERE.parents[1] / "examples" / "clamp_extension"


def install_operators(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the packages of the operators from outside importable."""
    install(HERE / "outside_operators", folder, monkeypatch)
    install(CLAMP, folder, monkeypatch)


@dataclass(frozen=True)
class Key:
    """A broken operation: the graph, the direction, the place and name of it, and the break."""

    graph: int
    direction: str
    place: int
    operation: str
    how: str


@dataclass
class Outcomes:
    """Of each broken operation: the largest error relative to its bound, by seed.

    None where the break did not change the result.
    """

    right: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """Of runs that are right, with what is nearest to its bound."""
    failed: list[str] = field(default_factory=list[str])
    """Right runs that failed."""
    not_judged: list[str] = field(default_factory=list[str])
    broken: dict[Key, list[float | None]] = field(
        default_factory=lambda: defaultdict[Key, list[float | None]](list)
    )

    def below(self) -> Iterator[tuple[str, str, int, int, float]]:
        """Yields the ways and the operations of which broken runs passed.

        With how many passed, of how many that have an effect, and the median ratio of those.
        """
        groups: dict[tuple[str, str], list[float]] = defaultdict(list)
        for key, ratios in self.broken.items():
            groups[key.how, key.operation] += [r for r in ratios if r is not None]
        for (how, operation), seen in sorted(groups.items()):
            passed = [r for r in seen if r <= 1.0]
            if passed:
                yield how, operation, len(passed), len(seen), median(passed)

    def table(self) -> list[str]:
        """Returns a line for each way to break an operation."""
        lines = [f"{'break':<16}{'runs':>8}{'no effect':>11}{'caught':>8}{'below':>7}"]
        for how in BREAKS:
            ratios = [r for key, found in self.broken.items() if key.how == how for r in found]
            same = sum(r is None for r in ratios)
            caught = sum(r is not None and r > 1.0 for r in ratios)
            below = len(ratios) - same - caught
            lines.append(f"{how:<16}{len(ratios):>8}{same:>11}{caught:>8}{below:>7}")
        return lines


class JudgedGraph:
    """One generated graph with its reference."""

    def __init__(self, number: int, text: str = "", gradients: bool | None = None) -> None:
        self.number = number
        self.context = make_context()
        text = text or graph_text(number)
        self.module: ModuleOp = parse_module(self.context, text.encode(), f"graph{number}.mlir")
        self.module.verify()
        self.config = graph_layer(self.module.clone()).config
        self.gradients = has_gradients(number) if gradients is None else gradients
        if self.gradients:
            DeriveBackwardPass().apply(self.context, self.module)
        known = signatures(self.module)
        self.forward = known[FUNCTION]
        self.backward = backward_of(known, FUNCTION)
        self.reference = GraphReference(self.module, self.forward, self.backward)
        self.output = self.forward.result(OUTPUT)
        self.interpreter = BrokenRun(self.module, self.config.ranks)

    def values(self, seed: int) -> LayerValues:
        """Returns random values of a launch."""
        return make_values(self.config, TOKENS, parse_routing("uniform"), seed)

    def run(
        self, values: LayerValues, broken: Operation | None, how: str, seed: int
    ) -> list[PerRank]:
        """Returns the results of the forward function with one operation broken."""
        args = _by_argument(forward_arguments(self.forward, values))
        self.interpreter.plan(broken, how, seed)
        return run_module(self.module, FUNCTION, args, self.interpreter)

    def run_backward(
        self,
        values: LayerValues,
        results: Sequence[PerRank],
        broken: Operation | None,
        how: str,
        seed: int,
    ) -> list[PerRank]:
        """Returns the gradients, with one operation of the backward function broken."""
        assert self.backward is not None
        by_rank = [list(arrays) for arrays in zip(*results, strict=True)]
        args = _by_argument(backward_arguments(self.backward, self.forward, values, by_rank))
        self.interpreter.plan(broken, how, seed)
        found = run_module(self.module, self.backward.name, args, self.interpreter)
        return [found[g.index] for g in self.reference.gradients]


WAYS = 2
"""Ways in which an operation is broken for one seed."""


def ways(op: Operation, place: int, seed: int) -> list[str]:
    """Returns how the operation at `place` is broken for a seed: other ways for the next one."""
    names = list(BREAKS)
    chosen = [names[(WAYS * seed + place + i) % len(names)] for i in range(WAYS)]
    return [how for how in chosen if applies(op, how)]


def judge(graph: JudgedGraph, seeds: Sequence[int], outcomes: Outcomes) -> None:
    """Adds the outcomes of a graph: right runs, and each operation broken in some ways."""
    for seed in seeds:
        values = graph.values(seed)
        name = f"graph {graph.number}, seed {seed}"
        results = graph.run(values, None, "", seed)
        bounds = [graph.reference.output_bounds(values, seed)]
        right = [results[graph.output]]
        if _right(name, right, bounds, outcomes):
            for place, op in enumerate(operations(graph.module, FUNCTION)):
                for how in ways(op, place, seed):
                    found = [graph.run(values, op, how, seed)[graph.output]]
                    key = Key(graph.number, "forward", place, op.name, how)
                    outcomes.broken[key].append(_ratio(found, right, bounds))
        if not graph.gradients:
            continue
        assert graph.backward is not None
        if seed == seeds[0]:
            graph.reference.check_derivatives(values, seed)
        bounds = graph.reference.gradient_bounds(values, seed)
        right = graph.run_backward(values, results, None, "", seed)
        if _right(name, right, bounds, outcomes):
            for place, op in enumerate(operations(graph.module, graph.backward.name)):
                for how in ways(op, place, seed):
                    found = graph.run_backward(values, results, op, how, seed)
                    key = Key(graph.number, "backward", place, op.name, how)
                    outcomes.broken[key].append(_ratio(found, right, bounds))


def _right(
    name: str, results: Sequence[PerRank], bounds: Sequence[ResultBounds], outcomes: Outcomes
) -> bool:
    """Notes the judgement of a run that is right; returns whether all of it could be judged."""
    for own, bound in zip(results, bounds, strict=True):
        comparison = compare_result(own, bound)
        outcomes.right.append((comparison.largest_ratio, f"{name}: {comparison.worst}"))
        if bound.reason:
            outcomes.not_judged.append(f"{name}: {bound.name}: {bound.reason}")
        elif not comparison.passed:
            outcomes.failed.append(f"{name}: {comparison}")
    return not any(bound.reason for bound in bounds)


def _ratio(
    found: Sequence[PerRank], right: Sequence[PerRank], bounds: Sequence[ResultBounds]
) -> float | None:
    pairs = [(a, b) for x, y in zip(found, right, strict=True) for a, b in zip(x, y, strict=True)]
    if all(a.tobytes() == b.tobytes() for a, b in pairs):
        return None
    return max(
        compare_result(own, bound).largest_ratio for own, bound in zip(found, bounds, strict=True)
    )


def _by_argument(launch: Sequence[Sequence[Array]]) -> list[PerRank]:
    return [list(arrays) for arrays in zip(*launch, strict=True)]
