"""Prints the functions of families of tasks and of credits as Ascend C."""

from __future__ import annotations

from collections.abc import Sequence

from hpmoe_ir.lowering.ascendc.expressions import (
    ELEMENTS,
    enumerator,
    event_number,
    event_range,
    expression,
    flat_index,
    range_wait_statement,
    row_range,
    signal_statement,
    tile,
    tile_of_rows,
    wait_statement,
)
from hpmoe_ir.lowering.cpp_layout import statement
from hpmoe_ir.lowering.cpp_text import comment, listed
from hpmoe_ir.lowering.plan.credits import CreditPlan, CreditSide, Loop
from hpmoe_ir.lowering.plan.events import RangeWait
from hpmoe_ir.lowering.plan.family import FamilyPlan, KernelCall, Operand, RouteUse, Stage


def family_function(family: FamilyPlan) -> str:
    """Returns the C++ function that runs a task of a family."""
    names = ", ".join(d.name for d in family.dimensions)
    head = f"__aicore__ inline void {family.function}("
    parameters = ["const hpmoe::Env& env", "const Arguments& args", "uint32_t point"]
    lines = [
        *_coordinates(family),
        *([] if family.peer is None else [f"const uint32_t peer = {expression(family.peer)};"]),
        *(wait_statement(event) for event in family.waits),
        *([] if family.route is None else [_load_route(family.route)]),
        *(f"const hpmoe::RouteTile {t.name} = {tile_of_rows(t)};" for t in family.tiles),
        *(line for wait in family.ranges for line in _range_wait(wait)),
        *(line for operand in family.writes for line in _operand(operand)),
        *(line for stage in family.stages for line in _stage(stage)),
        *(f"{credit}(env);" for credit in family.credits),
    ]
    return "\n".join(
        [
            f"// @{family.name} ({names}) on {family.core}: {family.kernel}",
            listed(head, parameters, ") {"),
            *_statements(lines),
            "}",
        ]
    )


def _statements(lines: Sequence[str]) -> list[str]:
    """Indents nested statements of a function and breaks long ones into lines."""
    return [statement(line.lstrip(), 2 + len(line) - len(line.lstrip())) for line in lines]


def _coordinates(family: FamilyPlan) -> list[str]:
    """Returns definitions of the grid point's coordinates, last coordinate first."""
    lines: list[str] = []
    for dimension in reversed(family.dimensions):
        if dimension.extent is None:
            lines.append(f"const uint32_t {dimension.name} = point;")
        else:
            extent = expression(dimension.extent)
            lines.append(f"const uint32_t {dimension.name} = point % {extent};")
            lines.append(f"point /= {extent};")
    return lines


def _load_route(route: RouteUse) -> str:
    place = f"{enumerator(route.offset)}, {expression(route.experts)}"
    return f"const hpmoe::Route route = env.LoadRoute({place});"


def _range_wait(wait: RangeWait) -> list[str]:
    return [
        f"const hpmoe::Rows {wait.name} = {event_range(wait.among)};",
        f"for (uint32_t i = 0; i < {wait.name}.count; ++i) {{",
        f"  {range_wait_statement(wait)}",
        "}",
    ]


def _operand(operand: Operand) -> list[str]:
    element = ELEMENTS[operand.tile.element]
    return [
        *(f"const hpmoe::Rows {d.name} = {row_range(d.rows)};" for d in operand.rows),
        f"// {operand.name}: {operand.access}s @{operand.buffer}",
        f"const hpmoe::Tile<{element}> {operand.variable} = {tile(operand.tile)};",
    ]


def _stage(stage: Stage) -> list[str]:
    lines = [
        *(line for operand in stage.reads for line in _operand(operand)),
        *([] if stage.call is None else [_call(stage.call)]),
        *(signal_statement(signal) for signal in stage.signals),
    ]
    if not stage.guard:
        return lines
    condition = " && ".join(f"{rows}.count != 0" for rows in stage.guard)
    return [f"if ({condition}) {{", *(f"  {line}" for line in lines), "}"]


def _call(call: KernelCall) -> str:
    element = [] if call.element is None else [ELEMENTS[call.element]]
    arguments = [*element, *(str(option) for option in call.options)]
    template = f"<{', '.join(arguments)}>" if arguments else ""
    given = [*call.tiles, *(expression(scalar) for scalar in call.scalars)]
    return f"{call.function}{template}({', '.join(given)});"


def credit_function(credit: CreditPlan) -> str:
    """Returns the C++ function that adds the missing signals of empty puts."""
    route, side, chunks = credit.route, credit.side, credit.chunks
    place = f"{enumerator(route.offset)}, {expression(route.experts)}"
    events = f"hpmoe::Credit::k{side}, {expression(credit.events)}"
    lines = [f"const hpmoe::Credit credit(env, {place}, {events});"]
    if chunks is not None:
        lines.append(f"const uint32_t chunks = {expression(chunks.count)};")
        lines.append(f"const uint32_t align = {expression(chunks.align)};")
    for loop in (*credit.outer, *credit.inner, *credit.factors):
        lines.append(f"const uint32_t end{loop.number} = {expression(loop.end)};")
    lines += [
        "for (uint32_t source = 0; source < env.Ranks(); ++source) {",
        *(f"  {line}" for line in _loops(credit.outer, _source_lines(credit))),
        "}",
        f"credit.Send({event_number(credit.first)});",
    ]
    about = comment(
        f"Counts towards @{credit.event} the puts of @{credit.family} to this rank that have no "
        "rows."
    )
    return "\n".join(
        [
            about,
            f"__aicore__ inline void {credit.function}(const hpmoe::Env& env) {{",
            *_statements(lines),
            "}",
        ]
    )


def _source_lines(credit: CreditPlan) -> list[str]:
    """Returns the statements that count the empty puts of one source rank and one expert."""
    side, chunks = credit.side, credit.chunks
    expert = expression(credit.expert)
    of = f"{expert}, source" if side is CreditSide.RECEIVED else expert
    lines = [f"const uint32_t rows = credit.{side}({of});"]
    factors = [f"end{loop.number}" for loop in credit.factors]
    inner: list[str] = []
    if chunks is None:
        lines.append("if (rows != 0) continue;")
    elif chunks.index is None:
        with_rows = "hpmoe::Credit::ChunksOf(rows, chunks, align)"
        lines.append(f"const uint32_t empty = chunks - {with_rows};")
        lines.append("if (empty == 0) continue;")
        factors.append("empty")
    else:
        chunk = f"hpmoe::Chunk({{0, rows}}, {expression(chunks.index)}, chunks, align)"
        inner.append(f"if ({chunk}.count != 0) continue;")
    inner.append(f"credit.Add({flat_index(credit.index)}, {' * '.join(factors) or '1'});")
    return [*lines, *_loops(credit.inner, inner)]


def _loops(loops: Sequence[Loop], body: Sequence[str]) -> list[str]:
    """Returns the lines of nested loops over coordinates around `body`."""
    lines = list(body)
    for loop in reversed(loops):
        name = loop.coordinate
        head = f"for (uint32_t {name} = 0; {name} < end{loop.number}; ++{name}) {{"
        lines = [head, *(f"  {line}" for line in lines), "}"]
    return lines
