"""C++ for credits: what the task that builds the route counts for puts without rows."""

from __future__ import annotations

from xdsl.ir.affine import AffineDimExpr

from hpmoe_ir.dialects.access import RowSegment
from hpmoe_ir.dialects.index import dims_used
from hpmoe_ir.dialects.queue import SignalOp
from hpmoe_ir.dialects.tile.credit import credited_puts, route_of
from hpmoe_ir.lowering.cpp_text import comment, wrapped
from hpmoe_ir.lowering.events import event_number
from hpmoe_ir.lowering.program import LoweredProgram
from hpmoe_ir.lowering.regions import TaskBody, flat_index
from hpmoe_ir.lowering.sizes import Sizes, camel


def credited_signals(program: LoweredProgram) -> list[SignalOp]:
    """The signals that puts without rows leave to a credit, in the order of the program."""
    return [s for s in program.signals if s.credit is not None]


def credit_name(program: LoweredProgram, signal: SignalOp) -> str:
    """Name of the function that gives a signal's credit."""
    same = [s for s in credited_signals(program) if s.event_name == signal.event_name]
    number = f"{same.index(signal)}" if same.index(signal) else ""
    return f"Credit{number}{camel(signal.event_name)}"


def credit_function(program: LoweredProgram, signal: SignalOp, sizes: Sizes) -> str:
    """The function that gives a signal's credit.

    It goes through the puts that all ranks have for this one, as the receiver knows them: a loop
    over sources and one over each coordinate, but that of the peer. Coordinates by which neither
    rows nor events differ are a factor.
    """
    family = program.families[signal.family_name]
    event = program.events[signal.event_name]
    route = route_of(family, program.buffers)
    puts = credited_puts(family, route, signal.peer_expr, signal.index_exprs, event.extents)
    assert route is not None
    assert family.route is not None
    name = credit_name(program, signal)
    body = TaskBody(program, family, sizes, rank="source", stem=name)
    buffer = program.buffers[family.route.root_reference.data]
    assert buffer.offset is not None
    at = sizes.offset(f"k{camel(buffer.sym_name.data)}", buffer.offset.value.data)
    experts = sizes.word(f"k{camel(buffer.sym_name.data)}Experts", route.experts.data)
    received = puts.rows.segment is RowSegment.GROUPED
    expert_expr = puts.rows.operands[0]
    side = "Received" if received else "Sent"
    first = event_number(body, signal.event_name, None)
    count = sizes.word(f"{body.prefix}Events", event.event_count)
    names = family.dim_names
    outer = sorted(dims_used(expert_expr))
    inner = [d for d in range(len(family.dims)) if d not in (*outer, puts.peer_dim)]
    chunk = puts.rows.chunk
    told = {d for e in signal.index_exprs for d in dims_used(e)}
    # The first chunks have the rows; how many is known without looking at each.
    chunks = chunk.index.position if isinstance(chunk.index, AffineDimExpr) else None
    if chunk.count == 1 or chunks in outer or chunks in told:
        chunks = None
    if chunks is not None and family.extents[chunks] != chunk.count:
        chunks = None
    looped = told if chunks is not None or chunk.count == 1 else told | dims_used(chunk.index)
    factors = [d for d in inner if d not in looped and d != chunks]
    inner = [d for d in inner if d in looped]
    dims = [*outer, *inner, *factors]
    ends = [sizes.word(f"{body.prefix}{camel(names[d])}", family.extents[d]) for d in dims]
    lines = [
        f"const hpmoe::Credit credit(env, {at}, {experts}, hpmoe::Credit::k{side}, {count});",
        *(f"const uint32_t end{d} = {end};" for d, end in zip(dims, ends, strict=True)),
        "for (uint32_t source = 0; source < env.Ranks(); ++source) {",
    ]
    if chunk.count != 1:
        lines[1:1] = [
            f"const uint32_t chunks = {body.constant(chunk.count, 'Chunks')};",
            f"const uint32_t align = {body.constant(chunk.align, 'Align')};",
        ]
    depth = 1

    def add(line: str) -> None:
        lines.append("  " * depth + line)

    def loop(dim: int) -> None:
        nonlocal depth
        add(f"for (uint32_t {names[dim]} = 0; {names[dim]} < end{dim}; ++{names[dim]}) {{")
        depth += 1

    for dim in outer:
        loop(dim)
    expert = body.index(expert_expr)
    of = f"{expert}, source" if received else expert
    add(f"const uint32_t rows = credit.{side}({of});")
    number = [f"end{d}" for d in factors]
    if chunk.count == 1:
        add("if (rows != 0) continue;")
    if chunks is not None:
        add("const uint32_t empty = chunks - hpmoe::Credit::ChunksOf(rows, chunks, align);")
        add("if (empty == 0) continue;")
        number.append("empty")
    for dim in inner:
        loop(dim)
    if chunk.count != 1 and chunks is None:
        index = body.index(chunk.index)
        add(f"if (hpmoe::Chunk({{0, rows}}, {index}, chunks, align).count != 0) continue;")
    flat = flat_index(body, signal.index_exprs, event.extents, f"k{camel(signal.event_name)}")
    add(f"credit.Add({flat or '0'}, {' * '.join(number) or '1'});")
    while depth:
        depth -= 1
        add("}")
    lines.append(f"credit.Send({first});")
    return "\n".join(
        [
            comment(
                f"Counts towards @{signal.event_name} the puts of @{signal.family_name} to this "
                "rank that have no rows."
            ),
            f"__aicore__ inline void {name}(const hpmoe::Env& env) {{",
            *(wrapped(f"  {line}") for line in lines),
            "}",
        ]
    )
