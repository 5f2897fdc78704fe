"""Finds where the expert part of a graph begins: its matmuls, tokens, ids and gate weights.

The anchors are the matmuls with expert weights, parameters of three dimensions. From there the
search goes against the flow: to the rows that the first matmul takes, to the top-k whose ids choose
them, and from what the experts' results are multiplied with to the gate weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.mindir import Graph, GraphOp, Many, Operand, Ref, refs_in
from hpmoe_ir.frontends.stand_in_experts import COLLECTIVES, GROUPED, PLAIN

TOP_K = ("TopK", "TopkExt")

VIEWS = (
    "Cast",
    "Reshape",
    "Transpose",
    "TransposeExtView",
    "ExpandDims",
    "Squeeze",
    "MoveTo",
    "StopGradient",
    "BroadcastTo",
    "Tile",
)
"""Primitives that leave the numbers as they are."""

MOST_READINGS = 8
"""Values tried as gate weights, so that a large graph that is refused is so in good time."""

PICKS = (*VIEWS, "StridedSlice", "Gather", "IndexSelect", "Split", "SplitTensor", "Chunk")
"""Primitives on the way from a parameter to the matrix of an expert."""


@dataclass(frozen=True)
class ExpertPart:
    """The values at the border of the expert part."""

    graph: Graph
    first: tuple[GraphOp, ...]
    """Matmuls of expert weights that take tokens."""
    second: tuple[GraphOp, ...]
    """Matmuls of expert weights that take what the first have made."""
    x: Ref
    """Tokens, [..., H]."""
    ids: Ref
    """Experts of each token, [..., K]."""
    gate: Ref
    """Weights of each token's experts, as many as ids."""
    after: frozenset[str]
    """Operations that depend on an expert's result."""
    ranks: int
    """Ranks that the graph exchanges rows with, itself included."""

    @property
    def border(self) -> frozenset[Ref]:
        """What enters, weights apart."""
        return frozenset((self.x, self.ids, self.gate))

    def parameters(self, matmuls: Iterable[GraphOp]) -> dict[str, int]:
        """Parameters that `matmuls` take expert weights from, with the experts in each."""
        found = [_expert_weights(self.graph, op) for op in matmuls]
        return dict(weights for weights in found if weights is not None)


def find_expert_parts(graph: Graph) -> list[ExpertPart]:
    """What may be the expert part: a reading for each value that may be the gate weights.

    The one that begins earliest is first. Raises InputError naming the first node that can't be
    placed where there is none.
    """
    matmuls = tuple(op for op in graph.ops if _expert_weights(graph, op) is not None)
    first, second = _stages(graph, matmuls)
    part = upstream(graph, [ref for op in matmuls for ref in op.refs()])
    after = downstream(graph, {Ref(op.name) for op in second})
    ids = _ids(graph, part, after)
    _check_known(graph, ids, "ids")
    moved = downstream(graph, {ids})
    x = _tokens(graph, first, ids, moved)
    _check_known(graph, x, "tokens")
    ranks = _ranks(graph)
    return [
        ExpertPart(graph, first, second, x, ids, gate, after, ranks)
        for gate in _gates(graph, ids, moved, after)
    ]


def refuse(graph: Graph, message: str) -> InputError:
    """An error about the graph."""
    return InputError(message, graph.path)


def first_ref(graph: Graph, op: GraphOp) -> Ref:
    """The tensor that `op` takes first."""
    ref = next(op.refs(), None)
    if ref is None:
        raise refuse(graph, f"can't place {op.label}: expected a tensor as operand, found none")
    return ref


def _check_known(graph: Graph, ref: Ref, what: str) -> None:
    """Refuses a value whose shape is only known at run time."""
    type = graph.type_of(ref)
    if type is None or any(n <= 0 for n in type.shape):
        found = "none" if type is None else str(type)
        raise refuse(graph, f"expected {what} of known shape, found {found}")


def upstream(graph: Graph, refs: Iterable[Ref], stop: frozenset[Ref] = frozenset()) -> set[str]:
    """Operations that `refs` depend on, those that make `stop` not looked into."""
    found: set[str] = set()
    queue = list(refs)
    while queue:
        ref = queue.pop()
        op = graph.producer(ref)
        if ref in stop or op is None or op.name in found:
            continue
        found.add(op.name)
        queue.extend(op.refs())
    return found


def downstream(graph: Graph, refs: set[Ref]) -> frozenset[str]:
    """Operations that depend on one of `refs`, not those that make them."""
    found: set[str] = set()
    for op in graph.ops:
        if any(ref in refs or ref.name in found for ref in op.refs()):
            found.add(op.name)
    return frozenset(found)


def _expert_weights(graph: Graph, op: GraphOp) -> tuple[str, int] | None:
    """The parameter with expert weights that a matmul takes and its experts; None for others."""
    if op.kind not in (*GROUPED, *PLAIN) or len(op.operands) < 2:
        return None
    ref = next(refs_in([op.operands[1]]), None)
    experts = 0
    while ref is not None:
        type = graph.type_of(ref)
        if type is not None and len(type.shape) == 3:
            experts = type.shape[0]
        producer = graph.producer(ref)
        if producer is None:
            return (ref.name, experts) if experts else None
        if producer.kind not in PICKS:
            return None
        ref = next(producer.refs(), None)
    return None


def _stages(
    graph: Graph, matmuls: tuple[GraphOp, ...]
) -> tuple[tuple[GraphOp, ...], tuple[GraphOp, ...]]:
    """The matmuls that take tokens and those that take what the first have made."""
    if not matmuls:
        first = next((op for op in graph.ops if "MatMul" in op.kind), None)
        first = first or next((op for op in graph.ops if op.kind not in VIEWS), graph.ops[0])
        raise refuse(
            graph,
            "no expert part: expected matmuls with weights [experts, in, out], "
            f"found none; the first node that has no place is {first.label}",
        )
    depth: dict[str, int] = {}
    named = {op.name for op in matmuls}
    for op in graph.ops:
        below = max((depth[ref.name] for ref in op.refs() if ref.name in depth), default=0)
        if op.name in named:
            below += 1
        if op.name in named or below:
            depth[op.name] = below
    third = next((op for op in matmuls if depth[op.name] > 2), None)
    if third is not None:
        raise refuse(
            graph,
            "expected two matmuls one after the other for each expert, found a third: "
            f"{third.label}; a graph must have one expert layer",
        )
    first = tuple(op for op in matmuls if depth[op.name] == 1)
    second = tuple(op for op in matmuls if depth[op.name] == 2)
    if not second:
        raise refuse(
            graph,
            "expected two matmuls one after the other for each expert, found one: "
            f"{first[0].label}",
        )
    return first, second


def _ids(graph: Graph, part: set[str], after: frozenset[str]) -> Ref:
    """The ids that choose experts: a top-k's second result, or an input of integers."""
    beside = upstream(graph, [ref for name in after for ref in graph.by_name[name].refs()])
    found: dict[Ref, None] = {}
    for op in graph.ops:
        if op.name not in part | beside or (op.name in after and op.kind in TOP_K):
            continue
        for ref in op.refs():
            producer = graph.producer(ref)
            if producer is None:
                type = graph.inputs.get(ref.name)
                if type is not None and not type.is_float and len(type.shape) > 1:
                    found[ref] = None
            elif producer.kind in TOP_K and ref.index == 1:
                found[ref] = None
    # Of several top-k's, as in a router that first picks groups, the last one picks experts.
    last = [ref for ref in found if not _feeds(graph, ref, found)]
    if len(last) == 1:
        return last[0]
    first = next(op for op in graph.ops if op.name in part)
    what = "none" if not last else " and ".join(_describe(graph, ref) for ref in last)
    raise refuse(
        graph,
        "expected one top-k, or one input of integers, whose ids choose the experts, found "
        f"{what}; the first node that has no place is {first.label}",
    )


def _feeds(graph: Graph, ref: Ref, others: Iterable[Ref]) -> bool:
    """Whether another top-k depends on `ref`."""
    makers = {other.name for other in others if other != ref}
    return bool(makers & downstream(graph, {ref}))


def _describe(graph: Graph, ref: Ref) -> str:
    op = graph.producer(ref)
    return f"'{ref.name}'" if op is None else op.label


def _tokens(graph: Graph, first: tuple[GraphOp, ...], ids: Ref, moved: frozenset[str]) -> Ref:
    """The rows that enter: what the first operation that looks at ids takes them from."""
    type = graph.type_of(ids)
    assert type is not None
    tokens = prod(type.shape[:-1])
    found: dict[Ref, None] = {}
    for op in first:
        ref = first_ref(graph, op)
        best = None
        while True:
            producer = graph.producer(ref)
            here = graph.type_of(ref)
            if best is None and here is not None and prod(here.shape[:-1]) == tokens:
                best = ref
            if producer is None or not (producer.name in moved or producer.kind in VIEWS):
                break
            if producer.name in moved:
                best = None
            ref = _row_operand(graph, producer)
        best = best or ref
        while (maker := graph.producer(best)) is not None and maker.kind == "ExpandDims":
            best = first_ref(graph, maker)
        found[best] = None
    if len(found) > 1:
        op = first[-1]
        raise refuse(
            graph,
            f"expected all experts to take the same tokens, found {len(found)} different: the "
            f"first node that has no place is {op.label}",
        )
    return next(iter(found))


def _row_operand(graph: Graph, op: GraphOp) -> Ref:
    """The operand of `op` that carries rows: the first of floats, else the first."""
    refs = list(op.refs())
    floats = [r for r in refs if (t := graph.type_of(r)) is not None and t.is_float]
    return floats[0] if floats else first_ref(graph, op)


def _gates(graph: Graph, ids: Ref, moved: frozenset[str], after: frozenset[str]) -> list[Ref]:
    """What may be the weights of each token's experts: it enters beside the experts' results.

    A router may itself pick weights by ids, so where it ends can't be seen from one node alone.
    """
    ids_type = graph.type_of(ids)
    assert ids_type is not None
    elements = prod(ids_type.shape)
    beside = [
        ref for op in graph.ops if op.name in after for ref in op.refs() if ref.name not in after
    ]
    found = {
        ref
        for ref in _gate_values(graph, beside, moved)
        if (type := graph.type_of(ref)) is not None
        and type.is_float
        and prod(type.shape) == elements
    }
    order = {op.name: i for i, op in enumerate(graph.ops)}
    if found:
        return sorted(found, key=lambda ref: (order.get(ref.name, -1), ref.index))[:MOST_READINGS]
    first = next((op for op in graph.ops if op.name in after), graph.ops[-1])
    raise refuse(
        graph,
        f"expected the experts' results to be multiplied with weights like {ids_type}, one for "
        f"each id, found none; the first node that has no place is {first.label}",
    )


def _gate_values(graph: Graph, refs: Iterable[Ref], moved: frozenset[str]) -> set[Ref]:
    """Where the numbers of `refs` come from, through views and what ids move, and on the way."""
    found: set[Ref] = set()
    seen: set[Ref] = set()
    queue = list(refs)
    while queue:
        ref = queue.pop()
        if ref in seen:
            continue
        seen.add(ref)
        op = graph.producer(ref)
        if op is None or op.kind not in VIEWS:
            found.add(ref)
        if op is not None and (op.name in moved or op.kind in VIEWS):
            queue += [r for r in op.refs() if (t := graph.type_of(r)) is not None and t.is_float]
    return found


def _ranks(graph: Graph) -> int:
    """Ranks that the graph exchanges with, 1 if it has no exchange."""
    for op in graph.ops:
        if op.kind not in COLLECTIVES:
            continue
        count = op.attributes.get("rank_size", op.attributes.get("split_count"))
        if isinstance(count, int):
            return count
        for operand in op.operands[1:2]:
            shape = _shape(graph, operand)
            if shape:
                return shape[0]
    return 1


def _shape(graph: Graph, operand: Operand) -> tuple[int, ...]:
    match operand:
        case Ref():
            type = graph.type_of(operand)
            return type.shape if type is not None else ()
        case Many(items):
            return (len(items),)
        case _:
            return ()
