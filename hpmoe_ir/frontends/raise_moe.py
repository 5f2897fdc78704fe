"""Matches the expert part of a MindSpore graph by what it computes, not by its structure.

The graph is evaluated from the tokens, ids and gate weights on with stand-in values (`stand_in`),
for several random routings, and for all ranks together if it has collectives. The expert part ends
at the first value that equals the weighted sum of each token's experts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hpmoe_ir.frontends.expert_part import ExpertPart, refuse, upstream
from hpmoe_ir.frontends.mindir import Const, GraphOp, Many, Ref
from hpmoe_ir.frontends.mindir import Operand as GraphOperand
from hpmoe_ir.frontends.stand_in import (
    Array,
    Exact,
    Operand,
    Rows,
    UnsupportedOpError,
    Value,
    Weights,
    WeightTable,
    constant,
    parameter,
)
from hpmoe_ir.frontends.stand_in_args import Args
from hpmoe_ir.frontends.stand_in_experts import COLLECTIVES, EXPERT_OPS
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import generate_routing, parse_routing

MAX_PAIRS = 1 << 27
"""Largest number of (token, expert) pairs of all ranks: drawing a routing allocates them all."""

ROUTINGS = ("uniform", "zipf:1.5", "one-expert")
"""Routings of the trials; the last leaves most experts without tokens."""

AGREEMENT = 1e-9
"""Tolerance of equal stand-in results, whose sums may be in different orders."""


@dataclass(frozen=True)
class Match:
    """A successful match of the expert part of a graph."""

    part: ExpertPart
    """The candidate that matches."""
    out: Ref
    """The layer's result."""
    weights: dict[str, Weights]
    """Each parameter of expert weights, as an operand of the matmuls."""
    halves: tuple[str, ...]
    """The parameters of the gate and the up projection, or the one parameter of both."""


@dataclass(frozen=True)
class Mismatch:
    """Why a candidate does not match."""

    node: int
    """Index of the first unsupported node."""
    message: str


class Trial:
    """The stand-in values of a graph on each rank under one random routing."""

    def __init__(self, part: ExpertPart, config: LayerConfig, routing: str, seed: int):
        self.part, self.config = part, config
        self.graph = part.graph
        self.ranks = range(part.ranks)
        self.table = WeightTable(seed, part.ranks)
        self.matmuls = {op.name for op in (*part.first, *part.second)}
        self.inputs = [*part.parameters(part.first), *part.parameters(part.second)]
        self.weights: dict[str, Weights] = {}
        self.failures: dict[str, UnsupportedOpError] = {}
        self.values: dict[Ref, list[Value]] = {}
        pairs = part.ranks * config.tokens * config.experts
        if pairs > MAX_PAIRS:
            raise refuse(
                self.graph,
                f"expected a graph with at most {MAX_PAIRS} pairs of a token and an expert on all "
                f"ranks, found {pairs}",
            )
        rng = np.random.default_rng(seed)
        tokens = [config.tokens] * part.ranks
        self.ids = [
            r.ids.astype(np.int64)
            for r in generate_routing(parse_routing(routing), config, tokens, seed)
        ]
        shape = (config.tokens, config.top_k)
        self.gates = [rng.uniform(0.5, 2.0, shape) for _ in self.ranks]
        self.tokens = [rng.uniform(-2.0, 2.0, (config.tokens, 1)) for _ in self.ranks]
        self._enter()
        for op in self.graph.ops:
            self._follow(op)

    def _enter(self) -> None:
        x, ids, gate = (self._type(ref) for ref in (self.part.x, self.part.ids, self.part.gate))
        lead = (*x[:-1], 1)
        self.values[self.part.x] = [Rows(t.reshape(lead), x[-1]) for t in self.tokens]
        self.values[self.part.ids] = [Exact(i.reshape(ids)) for i in self.ids]
        self.values[self.part.gate] = [Exact(g.reshape(gate)) for g in self.gates]
        for name in self.inputs:
            shape = self._type(Ref(name))
            self.values[Ref(name)] = [
                parameter(name, shape, rank, self.table) for rank in self.ranks
            ]

    def _type(self, ref: Ref) -> tuple[int, ...]:
        type = self.graph.type_of(ref)
        if type is None:
            raise refuse(self.graph, f"expected '{ref.name}' to have a shape, found none")
        return type.shape

    def _follow(self, op: GraphOp) -> None:
        """Evaluates `op` on all ranks if all its operands are known."""
        ranks: list[Args] = []
        for rank in self.ranks:
            operands = tuple(self._operand(operand, rank) for operand in op.operands)
            if any(operand is _OUTSIDE for operand in operands):
                return
            ranks.append(Args(op, operands))
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                results = self._compute(op, ranks)
        except UnsupportedOpError as e:
            self.failures[op.name] = e
            return
        except (ValueError, IndexError, TypeError, KeyError) as e:
            self.failures[op.name] = UnsupportedOpError(f"its operands don't fit: {e}")
            return
        if op.name in self.matmuls:
            for operand in _flattened(ranks[0].operands):
                if isinstance(operand, Weights):
                    self.weights[operand.name] = operand
        for index in range(len(results[0])):
            ref = Ref(op.name, index)
            self.values.setdefault(ref, [result[index] for result in results])

    def _compute(self, op: GraphOp, ranks: list[Args]) -> Sequence[Sequence[Value]]:
        if op.kind in COLLECTIVES:
            return COLLECTIVES[op.kind](ranks)
        if op.kind in EXPERT_OPS:
            return [EXPERT_OPS[op.kind](args) for args in ranks]
        raise UnsupportedOpError("unsupported operation in an expert layer")

    def _operand(self, operand: GraphOperand, rank: int) -> Operand:
        match operand:
            case Ref():
                values = self.values.get(operand)
                return _OUTSIDE if values is None else values[rank]
            case Const(value):
                return constant(value)
            case Many(items):
                opened = tuple(self._operand(item, rank) for item in items)
                return _OUTSIDE if any(item is _OUTSIDE for item in opened) else opened

    def expected(self, halves: Sequence[str], weighted: bool = True) -> list[Array]:
        """Returns the stand-ins of the layer's result on each rank, [tokens].

        `halves` are the parameters of the gate and the up projection, in this order. Without
        `weighted` the experts of a token are added up unscaled.
        """
        local, top_k = self.config.local_experts, self.config.top_k
        (down,) = self.part.parameters(self.part.second)
        inner = 2 if len(halves) == 2 and self.config.width % 2 == 0 else 1
        if len(set(halves)) == 1:
            both = self.table.all_ranks(halves[0], local, 1, 2)
            gate, up = both[..., :1], both[..., 1:]
            if len(halves) == 2:
                gate, up = up, gate
                inner = 1
        else:
            gate, up = (self.table.all_ranks(name, local, 1, inner) for name in halves)
        w2 = self.table.all_ranks(down, local, inner, 1)
        results: list[Array] = []
        for x, ids, weights in zip(self.tokens, self.ids, self.gates, strict=True):
            rows = np.repeat(x, top_k, axis=0)[:, None, :]
            expert = ids.reshape(-1)
            g = rows @ gate[expert]
            y = (g / (1 + np.exp(-g)) * (rows @ up[expert])) @ w2[expert]
            y = y.reshape(ids.shape)
            results.append((y * weights).sum(axis=1) if weighted else y.sum(axis=1))
        return results

    def equals(self, ref: Ref, expected: Sequence[Array]) -> bool:
        """Returns whether the value `ref` equals the `expected` result on every rank."""
        for value, result in zip(self.values.get(ref, []), expected, strict=False):
            if not isinstance(value, Rows) or value.multiplied != 2 or value.columns != 1:
                return False
            if value.width != self.config.hidden or prod(value.lead) != len(result):
                return False
            if not np.allclose(value.values.reshape(-1), result, rtol=AGREEMENT, atol=AGREEMENT):
                return False
        return ref in self.values


_OUTSIDE = "value from outside the expert part"


def _flattened(operands: Sequence[Operand]) -> list[Operand]:
    """Returns the operands with tuples flattened."""
    flat: list[Operand] = []
    for operand in operands:
        flat.extend(_flattened(operand) if isinstance(operand, tuple) else [operand])
    return flat


def match_expert_part(parts: Sequence[ExpertPart], config: LayerConfig) -> Match:
    """Evaluates the graph and returns the match whose result equals the layer's in every trial.

    `parts` are the candidates of one graph, `config` has its sizes. Raises InputError with the
    first unsupported node of the candidate that gets farthest.
    """
    mismatches: list[Mismatch] = []
    for part in parts:
        trials = [Trial(part, config, routing, seed) for seed, routing in enumerate(ROUTINGS, 1)]
        orders = _weight_orders(part)
        for op in part.graph.ops:
            if op.name not in part.after:
                continue
            for halves in orders:
                ref = Ref(op.name)
                if all(trial.equals(ref, trial.expected(halves)) for trial in trials):
                    return Match(part, ref, trials[0].weights, halves)
        mismatches.append(_mismatch(part, trials))
    farthest = max(mismatches, key=lambda mismatch: mismatch.node)
    raise refuse(parts[0].graph, farthest.message)


def _weight_orders(part: ExpertPart) -> list[tuple[str, ...]]:
    """Returns the possible roles of the first matmuls' parameters: both halves, or either order."""
    names = tuple(part.parameters(part.first))
    if len(names) == 1:
        return [names]
    return [names, names[::-1]]


def _mismatch(part: ExpertPart, trials: Sequence[Trial]) -> Mismatch:
    """Returns the first node of a candidate that is unsupported or has an unknown operand."""
    graph, trial = part.graph, trials[0]
    matmuls = [ref for op in (*part.first, *part.second) for ref in op.refs()]
    needed = upstream(graph, matmuls, stop=part.inputs) | trial.matmuls | part.after
    for node, op in enumerate(graph.ops):
        if op.name in needed and op.name in trial.failures:
            return Mismatch(node, f"can't import {op.label}: {trial.failures[op.name]}")
        if op.name in needed and Ref(op.name) not in trial.values:
            outside = next(ref.name for ref in op.refs() if ref not in trial.values)
            return Mismatch(
                node,
                f"can't import {op.label}: it takes '{outside}', which is neither tokens, ids, "
                "gate weights nor expert weights",
            )
    last = max(node for node, op in enumerate(graph.ops) if op.name in part.after)
    return Mismatch(
        last,
        f"can't import {graph.ops[last].label}: expected the sum of each token's experts, "
        f"weighted with the gate weights, found {_near_miss(part, trials)}",
    )


def _near_miss(part: ExpertPart, trials: Sequence[Trial]) -> str:
    """Describes what the graph computes instead, if it is a common mistake."""

    def some_value_is(expected: Callable[[Trial], list[Array]]) -> bool:
        results = [expected(trial) for trial in trials]
        return any(
            all(t.equals(Ref(name), r) for t, r in zip(trials, results, strict=True))
            for name in part.after
        )

    for halves in _weight_orders(part):
        if some_value_is(lambda trial, halves=halves: trial.expected(halves, weighted=False)):
            return "one without the weights"
        if len(halves) == 1:
            twice = halves * 2
            if some_value_is(lambda trial, twice=twice: trial.expected(twice)):
                return "one with silu of the second half of the first matmul, not of its first"
    return "something else"
