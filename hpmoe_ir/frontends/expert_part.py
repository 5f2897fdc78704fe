"""Finds the inputs of the expert part of a graph: its matmuls, tokens, ids and gate weights.

The search starts at the matmuls with expert weights, which are parameters of three dimensions. It
follows operands upstream to the rows of the first matmul and to the top-k whose ids select them,
and downstream from the experts' results to the gate weights that scale them.
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
"""Primitives that change shape, type or place of a tensor but not its numbers."""

GRADIENTS = "Gradients/"
"""Scope of the nodes of gradients."""

GRADIENT_ENDINGS = ("Grad", "GradV2", "GradExt", "Backward")
"""Endings of primitives that only gradients have."""

MAX_CANDIDATES = 8
"""Largest number of values tried as gate weights, which bounds the time to refuse a large graph."""

PICKS = (*VIEWS, "StridedSlice", "Gather", "IndexSelect", "Split", "SplitTensor", "Chunk")
"""Primitives allowed between a parameter and the matrix of an expert."""


@dataclass(frozen=True)
class ExpertPart:
    """A candidate for the expert part of a graph, given by its matmuls and inputs."""

    graph: Graph
    first: tuple[GraphOp, ...]
    """Matmuls of expert weights with tokens."""
    second: tuple[GraphOp, ...]
    """Matmuls of expert weights with the results of the first ones."""
    x: Ref
    """Tokens, [..., H]."""
    ids: Ref
    """Experts of each token, [..., K]."""
    gate: Ref
    """Gate weights, one for each id."""
    after: frozenset[str]
    """Operations that depend on an expert's result."""
    ranks: int
    """Number of ranks that exchange rows in the graph."""

    @property
    def inputs(self) -> frozenset[Ref]:
        """The inputs of the expert part except its weights."""
        return frozenset((self.x, self.ids, self.gate))

    def parameters(self, matmuls: Iterable[GraphOp]) -> dict[str, int]:
        """Returns the weight parameters of `matmuls` and the number of experts in each."""
        found = [_expert_weights(self.graph, op) for op in matmuls]
        return dict(weights for weights in found if weights is not None)


def find_expert_parts(graph: Graph) -> list[ExpertPart]:
    """Returns candidates for the expert part, one for each value that may be the gate weights.

    They are sorted by the position of that value. Raises InputError with the first unsupported
    node if there is none.
    """
    _check_forward(graph)
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


def _check_forward(graph: Graph) -> None:
    """Raises InputError for a graph with gradients.

    MindSpore puts the nodes that it derives below the scope `Gradients`, where a node of the
    forward function never is, and names their primitives after it, as in `SwigluGrad`.
    """
    for op in graph.ops:
        if op.scope.startswith(GRADIENTS) or op.kind.endswith(GRADIENT_ENDINGS):
            raise refuse(
                graph,
                f"the graph holds gradients, the first node is {op.label}; export the forward "
                "function, from which --direction backward derives the gradients",
            )


def refuse(graph: Graph, message: str) -> InputError:
    """Returns an InputError with the path of the graph."""
    return InputError(message, graph.path)


def first_ref(graph: Graph, op: GraphOp) -> Ref:
    """Returns the first tensor operand of `op`. Raises InputError if it has none."""
    ref = next(op.refs(), None)
    if ref is None:
        raise refuse(graph, f"can't import {op.label}: expected a tensor as operand, found none")
    return ref


def _check_known(graph: Graph, ref: Ref, name: str) -> None:
    """Raises InputError for a value whose shape is known at run time only."""
    type = graph.type_of(ref)
    if type is None or any(n <= 0 for n in type.shape):
        found = "none" if type is None else str(type)
        raise refuse(graph, f"expected {name} of known shape, found {found}")


def upstream(graph: Graph, refs: Iterable[Ref], stop: frozenset[Ref] = frozenset()) -> set[str]:
    """Returns the names of the operations that `refs` depend on, without going past `stop`."""
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
    """Returns the names of the operations that depend on one of `refs`."""
    found: set[str] = set()
    for op in graph.ops:
        if any(ref in refs or ref.name in found for ref in op.refs()):
            found.add(op.name)
    return frozenset(found)


def _expert_weights(graph: Graph, op: GraphOp) -> tuple[str, int] | None:
    """Returns the parameter of a matmul with expert weights and its experts; None for others."""
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
    """Returns the matmuls of tokens and the matmuls of their results."""
    if not matmuls:
        first = next((op for op in graph.ops if "MatMul" in op.kind), None)
        first = first or next((op for op in graph.ops if op.kind not in VIEWS), graph.ops[0])
        raise refuse(
            graph,
            "no expert part: expected matmuls with weights [experts, in, out], "
            f"found none; the first unsupported node is {first.label}",
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
    """Returns the expert ids: the second result of a top-k, or an integer input."""
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
    # A router may have several top-k, such as one of groups; the last one selects experts.
    last = [ref for ref in found if not _feeds(graph, ref, found)]
    if len(last) == 1:
        return last[0]
    first = next(op for op in graph.ops if op.name in part)
    candidates = "none" if not last else " and ".join(_describe(graph, ref) for ref in last)
    raise refuse(
        graph,
        "expected one top-k, or one input of integers, whose ids select the experts, found "
        f"{candidates}; the first unsupported node is {first.label}",
    )


def _feeds(graph: Graph, ref: Ref, others: Iterable[Ref]) -> bool:
    """Returns whether another of the values depends on `ref`."""
    makers = {other.name for other in others if other != ref}
    return bool(makers & downstream(graph, {ref}))


def _describe(graph: Graph, ref: Ref) -> str:
    op = graph.producer(ref)
    return f"'{ref.name}'" if op is None else op.label


def _tokens(graph: Graph, first: tuple[GraphOp, ...], ids: Ref, moved: frozenset[str]) -> Ref:
    """Returns the tokens: the rows that the first operation indexed by ids reads."""
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
            f"first unsupported node is {op.label}",
        )
    return next(iter(found))


def _row_operand(graph: Graph, op: GraphOp) -> Ref:
    """Returns the operand of `op` with rows: the first of floats, else the first."""
    refs = list(op.refs())
    floats = [r for r in refs if (t := graph.type_of(r)) is not None and t.is_float]
    return floats[0] if floats else first_ref(graph, op)


def _gates(graph: Graph, ids: Ref, moved: frozenset[str], after: frozenset[str]) -> list[Ref]:
    """Returns the values that may be the gate weights, sorted by position in the graph.

    They are multiplied with the experts' results, directly or through views. There are several
    candidates because a router may itself gather weights by ids.
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
        return sorted(found, key=lambda ref: (order.get(ref.name, -1), ref.index))[:MAX_CANDIDATES]
    first = next((op for op in graph.ops if op.name in after), graph.ops[-1])
    raise refuse(
        graph,
        f"expected the experts' results to be multiplied with weights like {ids_type}, one for "
        f"each id, found none; the first unsupported node is {first.label}",
    )


def _gate_values(graph: Graph, refs: Iterable[Ref], moved: frozenset[str]) -> set[Ref]:
    """Returns the sources of `refs` through views and gathers by ids, and the values between."""
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
    """Returns the number of ranks of the graph's collectives, 1 without any."""
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
