"""The judgement of `hpmoe run --check`: the results of a run against a reference.

The bounds of the errors are derived from the graph that has run. The reference of a plain expert
layer is MindSpore; of any other graph it is the graph itself in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.diagnostics import one_line
from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.interpreter.values import PerRank
from hpmoe_ir.layer.values import LayerValues
from hpmoe_ir.run.check_graph import CheckGraph
from hpmoe_ir.run.directions import OUTPUT, gradient_names
from hpmoe_ir.run.graph_reference import GraphReference, NotDifferentiable, WrongGradient
from hpmoe_ir.run.levels import Values
from hpmoe_ir.run.tolerance import Comparison, ResultBounds, compare_result
from hpmoe_ir.tools.reference import Reference

NOT_JUDGED = 3
"""Exit status of a run whose results were compared, but not judged."""

FLOAT64 = "the graph in float64"
"""Name of the reference of a graph that is not a plain expert layer."""


@dataclass(frozen=True)
class Judgement:
    """What is said of one result of one launch."""

    launch: int
    """Number of the launch, from 1."""
    comparison: Comparison | None
    """None if there is no reference to compare with."""
    reason: str = ""
    """Why the comparison says nothing about the run; empty if it is judged."""


@dataclass(frozen=True)
class Check:
    """The judgement of one direction."""

    reference: str
    """Name of the reference."""
    judgements: Sequence[Judgement]
    wrong_gradient: str = ""
    """How the backward function differs from the derivative of the forward function; empty if it
    does not."""

    @property
    def failure(self) -> Judgement | None:
        """The first result that is outside its bounds."""
        return next(
            (
                j
                for j in self.judgements
                if not j.reason and j.comparison is not None and not j.comparison.passed
            ),
            None,
        )

    @property
    def not_judged(self) -> Judgement | None:
        """The first result that can't be judged."""
        return next((j for j in self.judgements if j.reason), None)

    @property
    def worst(self) -> Comparison | None:
        """The comparison that is nearest to its bounds, or the first that is not judged."""
        found = [j.comparison for j in self.judgements if j.comparison is not None]
        return max(found, key=lambda c: (c.largest_ratio, c.elements), default=None)


class LayerCheck:
    """Judges the results of one compiled layer."""

    def __init__(
        self,
        graph: CheckGraph,
        textbook: bool,
        reference: Reference,
        seed: int,
    ) -> None:
        """Results are in the order of the functions of `graph`, see `CheckGraph.in_order`.

        `textbook`: whether the graph is a plain expert layer; `seed` is that of the samples.
        """
        self._graph = GraphReference(graph.module, graph.forward, graph.backward)
        self._textbook = textbook
        self._forward = graph.forward
        self._reference = reference
        self._seed = seed

    def output(self, launches: Sequence[LayerValues], results: Sequence[Sequence[Values]]) -> Check:
        """Judges the output of each launch; `results[n][r]` are the results of rank r.

        Raises InputError if MindSpore fails.
        """
        index = self._forward.result(OUTPUT)
        found = [[[rank[index] for rank in launch]] for launch in results]
        reference: list[list[Sequence[Float64Array]]] | None = None
        if self._textbook:
            reference = [[out] for out in self._reference.outputs(launches)]
        return self._judge(
            launches, found, reference, lambda v: [self._graph.output_bounds(v, self._seed)]
        )

    def gradients(
        self,
        launches: Sequence[LayerValues],
        results: Sequence[Sequence[Values]],
    ) -> Check:
        """Judges each gradient of each launch; `results[n][r]` are those of the backward function.

        Raises InputError if MindSpore fails.
        """
        gradients = self._graph.gradients
        found = [[[rank[g.index] for rank in launch] for g in gradients] for launch in results]
        reference: list[list[Sequence[Float64Array]]] | None = None
        if self._textbook:
            names = gradient_names(self._forward)
            reference = [
                [[rank[names[g.argument]] for rank in launch] for g in gradients]
                for launch in self._reference.gradients(launches)
            ]
        else:
            try:
                self._graph.check_derivatives(launches[0], self._seed)
            except WrongGradient as e:
                return Check("differences in float64", (), str(e))
            except NotDifferentiable as e:
                return Check(FLOAT64, [Judgement(1, None, str(e))])
            except InterpretationError as e:
                return Check(FLOAT64, [Judgement(1, None, one_line(str(e).splitlines()[0]))])
        return self._judge(
            launches, found, reference, lambda v: self._graph.gradient_bounds(v, self._seed)
        )

    def _judge(
        self,
        launches: Sequence[LayerValues],
        found: Sequence[Sequence[PerRank]],
        reference: Sequence[Sequence[Sequence[Float64Array]]] | None,
        derive: Callable[[LayerValues], Sequence[ResultBounds]],
    ) -> Check:
        judgements: list[Judgement] = []
        for i, (values, results) in enumerate(zip(launches, found, strict=True)):
            try:
                bounds = derive(values)
            except InterpretationError as e:
                # The remaining lines of xDSL's message are the whole module.
                reason = one_line(str(e).splitlines()[0])
                judgements.append(Judgement(i + 1, None, reason))
                continue
            if reference is not None:
                bounds = [b.against(r) for b, r in zip(bounds, reference[i], strict=True)]
            judgements += [
                Judgement(i + 1, compare_result(own, bound), _reason(bound))
                for own, bound in zip(results, bounds, strict=True)
            ]
        return Check(FLOAT64 if reference is None else self._reference.name, judgements)


def _reason(bounds: ResultBounds) -> str:
    return f"{bounds.name}: {bounds.reason}" if bounds.reason else ""
