"""Imports a layer from a MINDIR graph, with a report of the nodes inside and outside of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path

from hpmoe_ir.dtypes import Dtype, DtypeError, check_dtype
from hpmoe_ir.frontends.expert_part import (
    ExpertPart,
    find_expert_parts,
    first_ref,
    refuse,
    upstream,
)
from hpmoe_ir.frontends.mindir import Graph, GraphOp, Ref, read_mindir, refs_in
from hpmoe_ir.frontends.raise_moe import Match, match_expert_part
from hpmoe_ir.layer.config import LayerConfig, LayerError


@dataclass(frozen=True)
class ImportedLayer:
    """A layer imported from a graph."""

    config: LayerConfig
    graph: Graph
    match: Match
    inside: tuple[GraphOp, ...]
    """Nodes of the expert part, which the layer replaces, in order."""
    outside: tuple[GraphOp, ...]
    """All other nodes, in order."""

    def report(self) -> str:
        """Returns a human-readable report of several lines: inputs, weights, nodes left out."""
        part, match = self.match.part, self.match
        nodes = len(self.graph.ops)
        lines = [
            f"{self.graph.path}: MindSpore {self.graph.version}, {nodes} nodes",
            f"imported {len(self.inside)}, from {self.inside[0].label} to {self.inside[-1].label}",
            f"  x    {self._describe(part.x)}",
            f"  ids  {self._describe(part.ids)}",
            f"  gate {self._describe(part.gate)}",
        ]
        first, (second,) = match.halves, part.parameters(part.second)
        w13 = " and ".join(self._weights(name) for name in first)
        lines += [f"  w13  {w13}", f"  w2   {self._weights(second)}"]
        lines += [f"  out  {self._describe(match.out)}"]
        lines.append(f"outside the layer: {len(self.outside)}")
        scopes = Counter((op.scope.rpartition("/")[0] or "graph", op.kind) for op in self.outside)
        for scope in dict.fromkeys(scope for scope, _ in scopes):
            kinds = (
                kind + (f" x{n}" if n > 1 else "") for (s, kind), n in scopes.items() if s == scope
            )
            lines.append(f"  {scope}: {', '.join(kinds)}")
        lines += [f"note: {note}" for note in self.config.notes]
        return "\n".join(lines)

    def _describe(self, ref: Ref) -> str:
        op = self.graph.producer(ref)
        where = f"input '{ref.name}'" if op is None else op.label
        result = f", result {ref.index}" if ref.index else ""
        return f"{self.graph.type_of(ref)}, {where}{result}"

    def _weights(self, name: str) -> str:
        weights = self.match.weights[name]
        stored = self.graph.type_of(Ref(name))
        transposed = ", transposed" if weights.transposed else ""
        return f"{stored}, parameter '{name}' as {weights.experts} experts{transposed}"


def mindir_layer(
    path: Path,
    *,
    name: str | None = None,
    ranks: int | None = None,
    tokens: int | None = None,
    capacity: int | None = None,
    dtype: Dtype | None = None,
) -> ImportedLayer:
    """Imports the layer of the MINDIR file `path`; arguments override the graph's sizes.

    Raises InputError for an invalid file or a graph without a supported expert part, LayerError
    for sizes that contradict each other.
    """
    return import_graph(
        read_mindir(path),
        name=name or path.stem,
        ranks=ranks,
        tokens=tokens,
        capacity=capacity,
        dtype=dtype,
    )


def import_graph(
    graph: Graph,
    *,
    name: str,
    ranks: int | None = None,
    tokens: int | None = None,
    capacity: int | None = None,
    dtype: Dtype | None = None,
) -> ImportedLayer:
    """Imports the layer of a graph; otherwise like `mindir_layer`."""
    parts = find_expert_parts(graph)
    own = _config(parts[0], name)
    match = match_expert_part(parts, own)
    part = match.part
    inside = upstream(graph, [match.out], stop=part.inputs)
    config = LayerConfig(
        name,
        hidden=own.hidden,
        width=own.width,
        experts=own.experts,
        top_k=own.top_k,
        ranks=own.ranks if ranks is None else ranks,
        tokens=own.tokens if tokens is None else tokens,
        capacity=capacity,
        dtype=own.dtype if dtype is None else dtype,
        source=f"{Path(graph.path).name}, MindSpore {graph.version}",
        notes=tuple(_notes(part)),
    )
    return ImportedLayer(
        config,
        graph,
        match,
        inside=tuple(op for op in graph.ops if op.name in inside),
        outside=tuple(op for op in graph.ops if op.name not in inside),
    )


def _config(part: ExpertPart, name: str) -> LayerConfig:
    """Returns the layer with the sizes of the graph."""
    graph = part.graph
    x, ids = graph.type_of(part.x), graph.type_of(part.ids)
    assert x is not None
    assert ids is not None
    first, second = part.parameters(part.first), part.parameters(part.second)
    if len(second) != 1 or len(first) > 2:
        op = (part.second if len(second) != 1 else part.first)[-1]
        raise refuse(
            graph,
            "expected one or two parameters for the first matmul and one for the second, found "
            f"{len(first)} and {len(second)}: can't import {op.label}",
        )
    experts = {*first.values(), *second.values()}
    if len(experts) != 1:
        raise refuse(
            graph,
            f"can't import {part.second[0].label}: expected as many experts as in "
            f"the first matmul, {next(iter(first.values()))}, found {next(iter(second.values()))}",
        )
    middle = first_ref(graph, part.second[0])
    width = graph.type_of(middle)
    for type in (x, ids, width):
        if type is None or not type.shape or type.shape[-1] <= 0:
            found = "none" if type is None else str(type)
            raise refuse(graph, f"expected rows of known width, found {found}")
    assert width is not None
    try:
        return LayerConfig(
            name,
            hidden=x.shape[-1],
            width=width.shape[-1],
            experts=experts.pop() * part.ranks,
            top_k=ids.shape[-1],
            ranks=part.ranks,
            tokens=prod(ids.shape[:-1]),
            dtype=_dtype(part),
        )
    except LayerError as e:
        raise refuse(graph, str(e)) from e


def _dtype(part: ExpertPart) -> Dtype:
    """Returns the element type of all expert matmuls. Raises InputError if there are several."""
    graph = part.graph
    found: dict[str, GraphOp] = {}
    for op in (*part.first, *part.second):
        for ref in refs_in(op.operands[:2]):
            type = graph.type_of(ref)
            if type is not None:
                found.setdefault(type.element, op)
    if len(found) != 1:
        raise refuse(
            graph,
            f"can't import {list(found.values())[-1].label}: expected one element type in all "
            f"expert matmuls, found {' and '.join(found)}",
        )
    (element,) = found
    try:
        return check_dtype(element)
    except DtypeError as e:
        raise refuse(graph, f"can't import {found[element].label}: {e}") from e


def _notes(part: ExpertPart) -> list[str]:
    """Returns the differences in element type between graph and layer."""
    graph = part.graph
    gate = graph.type_of(part.gate)
    assert gate is not None
    if gate.element == "f32":
        return []
    return [f"gate weights are {gate.element} in the graph, f32 in the layer"]
