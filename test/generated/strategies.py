"""Hypothesis strategies for cases."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import strategies as st

from generated.cases import Backward, Case, Launch, Lowering
from generated.graph_strategies import graphs, layer_graphs
from generated.graphs import Graph
from hpmoe_ir.options.options import option_types
from hpmoe_ir.options.text import Spec
from hpmoe_ir.passes.policies.registry import built_in_policies

TILES = ((16, 16, 16), (16, 32, 16), (32, 48, 32), (32, 32, 64), (0, 0, 0))
"""Matrix tiles, the last the machine's largest: few, since each is a source of its own."""


Options: TypeAlias = dict[str, int | str | bool]


@st.composite
def structures(draw: st.DrawFn) -> Options:
    """Options of `lower-moe` that change the device source, not just the table."""
    tile = draw(st.sampled_from(TILES))
    put_rows = draw(st.sampled_from((0, 0, 0, 4, 16)))
    shares = draw(st.sampled_from((0, 0, 0, 1, 3)))
    return_cols = draw(st.sampled_from((0, 0, 16, 48)))
    tiles = not shares and draw(st.integers(0, 2)) == 0
    gradient_cols = 0 if shares else draw(st.sampled_from((0, 0, 16, 48)))
    return {
        "row_cut": "tiles" if tiles else "parts",
        "row_chunks": 1 if tiles else draw(st.sampled_from((1, 1, 2, 3))),
        "put_chunks": 1 if put_rows else draw(st.sampled_from((1, 1, 2, 3))),
        "put_rows": put_rows,
        "vector_rows": 0 if tiles else draw(st.sampled_from((0, 0, 0, 8, 32))),
        "matrix_shares": shares,
        "return_cols": return_cols,
        "last_experts": draw(st.integers(0, 1)) if return_cols and not (shares or tiles) else 0,
        "gradient_cols": gradient_cols,
        "last_gradients": draw(st.integers(0, 1)) if gradient_cols else 0,
        "matmul_kernels": draw(st.sampled_from(("default", "default", "cann-like"))),
        "tile_m": tile[0],
        "tile_n": tile[1],
        "tile_k": tile[2],
        "granularity": draw(st.sampled_from(("part", "expert"))),
        "elide": draw(st.booleans()),
        "rotate": draw(st.booleans()),
    }


FOR_TILES = ("tiles", "operator-order")
"""Policies that are safe for tiles, of which any may wait for any put, of every graph."""


@st.composite
def policies(draw: st.DrawFn, tiles: bool) -> str:
    """The text of a policy, with small numbers for its options."""
    known = built_in_policies()
    policy = known[draw(st.sampled_from(FOR_TILES if tiles else list(known)))]
    values = {
        name: (draw(st.booleans() if kind is bool else st.integers(0, 3)),)
        for name, (kind, _) in option_types(policy).items()
    }
    return str(Spec(policy.name, values))


@st.composite
def lowerings(draw: st.DrawFn, structure: Options, ranks: int, tokens: int) -> Lowering:
    """All options for a layer of `ranks` ranks and at most `tokens` tokens on each."""
    tiles = structure["row_cut"] == "tiles"
    options: Options = {
        **structure,
        "source_groups": 0 if tiles else draw(st.integers(0, ranks)),
        "token_chunks": draw(st.integers(0, min(tokens, 5))),
        "task_cols": 0 if structure["matrix_shares"] else draw(st.sampled_from((0, 16, 32, 80))),
        "reuse": draw(st.booleans()),
        "policy": draw(policies(tiles)),
        "vector_cores": draw(st.sampled_from(("both", "one"))),
    }
    # Few cores are few fibers; a whole chip now and then.
    cores = draw(st.sampled_from((2, 1, 3, 4, 24) if ranks <= 2 else (2, 1, 3)))
    return Lowering(cores, tuple(sorted(options.items())))


@st.composite
def launches(draw: st.DrawFn, ranks: int, scales: tuple[float, ...]) -> Launch:
    """Tokens and routing of one launch: ranks alike, unequal, some without tokens, or none."""
    most = draw(st.sampled_from((1, 4, 9, 17, 24)))
    counts = st.sampled_from((0, 1, most // 2, most))
    alike = draw(st.booleans())
    tokens = (draw(counts),) * ranks if alike else tuple(draw(counts) for _ in range(ranks))
    kinds = ("uniform", "balanced", "one-expert", "zipf:1.2", "zipf:3", "ranks:0", "ranks:1,2")
    return Launch(
        tokens,
        draw(st.sampled_from(kinds)),
        draw(st.integers(0, 2**20)),
        draw(st.sampled_from(scales)),
    )


@st.composite
def backwards(draw: st.DrawFn, graph: Graph) -> Backward | None:
    """A choice for `derive-backward`, None: forward only. Not all graphs have gradients."""
    if graph.count("swiglu_grad") or draw(st.integers(0, 2)) == 0:
        return None
    operands = [
        graph.steps[v - len(graph.widths)].op
        for s in graph.steps
        if s.op == "swiglu"
        for v in s.operands
        if v >= len(graph.widths)
    ]
    names = [
        name
        for name, made in (
            ("swiglu", graph.count("swiglu")),
            ("up", any(op in ("matmul", "shared", "shared_t") for op in operands)),
            ("dispatch", graph.count("dispatch")),
        )
        if made
    ]
    recompute = [name for name in names if draw(st.integers(0, 3)) == 0]
    accumulate = draw(st.booleans())
    kind = "f32" if accumulate else draw(st.sampled_from(("f32", "activation")))
    return Backward(tuple(recompute), accumulate, kind)


@st.composite
def cases(
    draw: st.DrawFn, graph: Graph, dtype: str, structure: Options, backward: Backward | None
) -> Case:
    """Cases of one graph and of all sizes."""
    ranks = draw(st.sampled_from((2, 1, 3, 4, 8)))
    local = draw(st.integers(1, 3 if ranks < 8 else 2))
    top = draw(st.integers(1, min(4, ranks * local)))
    # Products of products soon leave the range of f16.
    grows = ("swiglu", "swiglu_grad", "weight_gradient")
    mild = dtype == "f16" and sum(graph.count(op) for op in grows) > 1
    scales = (1.0, 2.0**-6) if mild else (1.0, 2.0**-6, 8.0)
    runs = tuple(draw(st.lists(launches(ranks, scales), min_size=1, max_size=3)))
    tokens = max(1, *(t for run in runs for t in run.tokens))
    capacity = None
    if draw(st.integers(0, 3)) == 0:
        capacity = draw(st.integers(1, ranks * tokens * min(top, local)))
    lowering = draw(lowerings(structure, ranks, tokens))
    orders = tuple(draw(st.lists(st.integers(0, 999), min_size=1, max_size=2, unique=True)))
    return Case(graph, ranks, local, top, capacity, dtype, runs, lowering, backward, orders)


@st.composite
def batches(draw: st.DrawFn) -> list[Case]:
    """Cases whose device source is mostly the same, since building it takes the most time."""
    graph = draw(st.one_of(layer_graphs(), graphs()))
    dtype = draw(st.sampled_from(("bf16", "f16")))
    alike = cases(graph, dtype, draw(structures()), draw(backwards(graph)))
    return draw(st.lists(alike, min_size=1, max_size=8))
