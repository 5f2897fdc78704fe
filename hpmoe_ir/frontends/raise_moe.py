"""Turns the expert part of a MindSpore graph into a layer: what it computes decides, not its names.

The graph is followed from the tokens, ids and gate weights on with stand-in values (`stand_in`),
for all ranks at once if it exchanges rows with others, and for several random routings. The first
value that equals the weighted sum of the tokens' experts ends the expert part.
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
    CannotPlaceError,
    Exact,
    Operand,
    Rows,
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

MOST_PAIRS = 1 << 27
"""A routing is drawn with a number for each token of each rank and each expert."""

ROUTINGS = ("uniform", "zipf:1.5", "one-expert")
"""What a graph is tried on; the last leaves most experts without tokens."""

AGREEMENT = 1e-9
"""Relative difference of stand-in results that are the same but for the order of their sums."""


@dataclass(frozen=True)
class Placed:
    """What following a graph has shown."""

    part: ExpertPart
    """The reading that fits."""
    out: Ref
    """The layer's result."""
    weights: dict[str, Weights]
    """Each parameter with expert weights as the matmuls see it."""
    halves: tuple[str, ...]
    """The parameters of the gate and the up projection, in this order; one name if they are one."""


@dataclass(frozen=True)
class Misfit:
    """Why a reading of a graph does not fit."""

    node: int
    """Number of the first node that can't be placed."""
    message: str


class Trial:
    """One random routing, and the values that a graph makes of it on each rank."""

    def __init__(self, part: ExpertPart, config: LayerConfig, routing: str, seed: int):
        self.part, self.config = part, config
        self.graph = part.graph
        self.ranks = range(part.ranks)
        self.table = WeightTable(seed, part.ranks)
        self.matmuls = {op.name for op in (*part.first, *part.second)}
        self.inputs = [*part.parameters(part.first), *part.parameters(part.second)]
        self.weights: dict[str, Weights] = {}
        self.failures: dict[str, CannotPlaceError] = {}
        self.values: dict[Ref, list[Value]] = {}
        pairs = part.ranks * config.tokens * config.experts
        if pairs > MOST_PAIRS:
            raise refuse(
                self.graph,
                f"expected a graph with at most {MOST_PAIRS} pairs of a token and an expert on all "
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
        """Computes `op` on all ranks, if all that it takes is known."""
        ranks: list[Args] = []
        for rank in self.ranks:
            operands = tuple(self._operand(operand, rank) for operand in op.operands)
            if any(operand is _OUTSIDE for operand in operands):
                return
            ranks.append(Args(op, operands))
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                results = self._compute(op, ranks)
        except CannotPlaceError as e:
            self.failures[op.name] = e
            return
        except (ValueError, IndexError, TypeError, KeyError) as e:
            self.failures[op.name] = CannotPlaceError(f"its operands don't fit: {e}")
            return
        if op.name in self.matmuls:
            for operand in _opened(ranks[0].operands):
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
        raise CannotPlaceError("no part of an expert layer is known to use it")

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
        """Stand-ins of the layer's result on each rank, [tokens], given the weights' meaning."""
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
        """Whether a value is the layer's result on every rank."""
        for value, wanted in zip(self.values.get(ref, []), expected, strict=False):
            if not isinstance(value, Rows) or value.multiplied != 2 or value.columns != 1:
                return False
            if value.width != self.config.hidden or prod(value.lead) != len(wanted):
                return False
            if not np.allclose(value.stand.reshape(-1), wanted, rtol=AGREEMENT, atol=AGREEMENT):
                return False
        return ref in self.values


_OUTSIDE = "value from outside the expert part"


def _opened(operands: Sequence[Operand]) -> list[Operand]:
    """Operands, those in tuples as well."""
    found: list[Operand] = []
    for operand in operands:
        found.extend(_opened(operand) if isinstance(operand, tuple) else [operand])
    return found


def place(parts: Sequence[ExpertPart], config: LayerConfig) -> Placed:
    """Follows the graph and finds the layer's result, the first that equals it in every trial.

    `parts` are readings of the same graph. Raises InputError naming the first node that can't be
    placed in the reading that gets farthest.
    """
    misfits: list[Misfit] = []
    for part in parts:
        trials = [Trial(part, config, routing, seed) for seed, routing in enumerate(ROUTINGS, 1)]
        spellings = _spellings(part)
        for op in part.graph.ops:
            if op.name not in part.after:
                continue
            for halves in spellings:
                ref = Ref(op.name)
                if all(trial.equals(ref, trial.expected(halves)) for trial in trials):
                    return Placed(part, ref, trials[0].weights, halves)
        misfits.append(_misfit(part, trials))
    farthest = max(misfits, key=lambda misfit: misfit.node)
    raise refuse(parts[0].graph, farthest.message)


def _spellings(part: ExpertPart) -> list[tuple[str, ...]]:
    """What the first matmuls' parameters may mean: both halves, or one each in either order."""
    names = tuple(part.parameters(part.first))
    if len(names) == 1:
        return [names]
    return [names, names[::-1]]


def _misfit(part: ExpertPart, trials: Sequence[Trial]) -> Misfit:
    """The first node that has no place."""
    graph, trial = part.graph, trials[0]
    matmuls = [ref for op in (*part.first, *part.second) for ref in op.refs()]
    needed = upstream(graph, matmuls, stop=part.border) | trial.matmuls | part.after
    for node, op in enumerate(graph.ops):
        if op.name in needed and op.name in trial.failures:
            return Misfit(node, f"can't place {op.label}: {trial.failures[op.name]}")
        if op.name in needed and Ref(op.name) not in trial.values:
            outside = next(ref.name for ref in op.refs() if ref not in trial.values)
            return Misfit(
                node,
                f"can't place {op.label}: it takes '{outside}', which is neither tokens, ids, "
                "gate weights nor expert weights",
            )
    last = max(node for node, op in enumerate(graph.ops) if op.name in part.after)
    return Misfit(
        last,
        f"can't place {graph.ops[last].label}: expected the sum of each token's experts, "
        f"weighted with the gate weights, found {_likeness(part, trials)}",
    )


def _likeness(part: ExpertPart, trials: Sequence[Trial]) -> str:
    """What the graph computes instead, if it is a common slip."""

    def some_value_is(expected: Callable[[Trial], list[Array]]) -> bool:
        wanted = [expected(trial) for trial in trials]
        return any(
            all(t.equals(Ref(name), w) for t, w in zip(trials, wanted, strict=True))
            for name in part.after
        )

    for halves in _spellings(part):
        if some_value_is(lambda trial, halves=halves: trial.expected(halves, weighted=False)):
            return "one without the weights"
        if len(halves) == 1:
            twice = halves * 2
            if some_value_is(lambda trial, twice=twice: trial.expected(twice)):
                return "one with silu of the second half of the first matmul, not of its first"
    return "something else"
