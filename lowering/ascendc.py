"""`ascendc`: the device source of a queue program, one persistent kernel in Ascend C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir.affine import AffineConstantExpr
from xdsl.utils.target import Target

from hpmoe_ir.dialects.access import Access, GroupedRows, SentRows, TokenRows
from hpmoe_ir.dialects.queue import SignalOp
from hpmoe_ir.dialects.tile import TasksOp, buffer_type, route_type
from hpmoe_ir.kernels.kernel import Kernel, TileOperand
from hpmoe_ir.lowering.cpp_names import check_cpp_name
from hpmoe_ir.lowering.cpp_text import wrapped
from hpmoe_ir.lowering.credits import credit_function, credit_name, credited_signals
from hpmoe_ir.lowering.events import event_number, event_wait
from hpmoe_ir.lowering.program import LoweredProgram, LoweringError, lowered_program
from hpmoe_ir.lowering.regions import TaskBody, element_name
from hpmoe_ir.lowering.sizes import Sizes, camel
from hpmoe_ir.machines.core_kind import CoreKind

RESERVED = frozenset({"table", "workspace", "windows", "tokens", "launch", "env", "args", "point"})
"""Names that the generated functions have already."""


@dataclass(frozen=True)
class AscendCTarget(Target):
    """Writes the device source: a function for each family of tasks, a switch for each kind of
    core, and the kernel's entry.

    Needs a `queue.program` with planned memory and allocated events. The text holds the structure
    of the program; sizes are looked up in the task table (`task-table`).
    """

    name = "ascendc"

    program: str = ""
    """Which program, where the module has several."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(device_source(lowered_program(module, self.name, self.program)))


@dataclass(frozen=True)
class FamilyCode:
    """One family's function."""

    name: str
    text: str
    kernel: Kernel


def device_source(program: LoweredProgram) -> str:
    """Text of the device source."""
    sizes = Sizes()
    functions = [_family(program, family, sizes) for family in program.families.values()]
    credits = [credit_function(program, signal, sizes) for signal in credited_signals(program)]
    own = {"hpmoe/worker.h", "hpmoe/credit.h"} if credits else {"hpmoe/worker.h"}
    headers = sorted({f.kernel.ascendc.header for f in functions} | own)
    includes = "\n".join(f'#include "{h}"' for h in headers)
    enumerators = "\n".join(f"  {name}," for name in sizes.values)
    check_cpp_name(program.op, program.name, "ascendc")
    pointers = [b.sym_name.data for b in program.arguments]
    for buffer in program.arguments:
        check_cpp_name(buffer, buffer.sym_name.data, "ascendc", RESERVED)
    fields = "\n".join(f"  GM_ADDR {p};" for p in pointers)
    parameters = ", ".join(f"GM_ADDR {p}" for p in [*pointers, "table", "workspace", "windows"])
    entry = wrapped(f"    {parameters}, uint32_t tokens, uint32_t launch) {{", 0)
    bodies = "\n\n".join([*credits, *(f.text for f in functions)])
    return f"""\
// Device source of @{program.name}: one persistent kernel for {program.machine.arch}, AIC and AIV.
#include "kernel_operator.h"
#include "shmem.h"
{includes}

namespace {{

// Numbers that differ from layer to layer, in the task table.
enum SizeIndex : uint32_t {{
{enumerators}
}};

struct Arguments {{
{fields}
}};

{bodies}

{_switch(program, functions, CoreKind.AIC)}

{_switch(program, functions, CoreKind.AIV)}

}}  // namespace

extern "C" __schedmode__(1) __global__ __mix__(1, 2) __aicore__ void {program.name}(
{entry}
  const hpmoe::Env env(table, windows, workspace, tokens, launch{_waits(program)});
  const Arguments args{{{", ".join(pointers)}}};
  if ASCEND_IS_AIC {{
    hpmoe::RunAicQueue(env, AicTasks{{env, args}});
  }}
  if ASCEND_IS_AIV {{
    hpmoe::RunAivQueue(env, AivTasks{{env, args}});
  }}
  AscendC::PipeBarrier<PIPE_ALL>();
}}
"""


def program_sizes(program: LoweredProgram) -> list[int]:
    """The sizes that the device source looks up, in its order."""
    sizes = Sizes()
    for family in program.families.values():
        _family(program, family, sizes)
    for signal in credited_signals(program):
        credit_function(program, signal, sizes)
    return list(sizes.values.values())


def _family(program: LoweredProgram, family: TasksOp, sizes: Sizes) -> FamilyCode:
    kernel = family.find_kernel()
    body = TaskBody(program, family, sizes)
    lines = body.lines
    name = family.sym_name.data
    _decode_point(body)
    body.name_peer()
    for wait in program.waits:
        if wait.family_name == name:
            lines.append(f"env.{event_wait(body, wait.event_name, wait.index_exprs)};")
    if family.route is not None:
        route = family.route.root_reference.data
        buffer = program.buffers[route]
        assert buffer.offset is not None
        offset = sizes.offset(f"k{camel(route)}", buffer.offset.value.data)
        experts = sizes.word(f"k{camel(route)}Experts", route_type(buffer).experts.data)
        lines.append(f"const hpmoe::Route route = env.LoadRoute({offset}, {experts});")
    writes = _tiles(body, family.write_accesses, kernel.writes, "write")
    empty = _empty_checks(body, family.write_accesses)
    call = _Call(body, kernel)
    start = len(lines)
    known = dict(body.rows)
    reads = _tiles(body, family.read_accesses, kernel.reads, "read")
    lines.append(call.text([*reads, *writes]))
    signals = program.signals_of_family(name)
    plain = [_signal(body, s) for s in signals if s.credit is None]
    credited = [_signal(body, s) for s in signals if s.credit is not None]
    if empty:
        body.rows = known
        if not plain:
            lines += credited
        lines[start:] = _unless_empty(empty, lines[start:])
    lines += plain
    if plain and credited:
        lines += _unless_empty(empty, credited)
    lines += [
        f"{credit_name(program, s)}(env);"
        for s in credited_signals(program)
        if s.credit_name == name
    ]
    dims = ", ".join(family.dim_names)
    text = "\n".join(
        [
            f"// @{name} ({dims}) on {family.core_kind}: {kernel.name}",
            f"__aicore__ inline void {camel(name)}(const hpmoe::Env& env, const Arguments& args,",
            f"{' ' * len(f'__aicore__ inline void {camel(name)}(')}uint32_t point) {{",
            *(wrapped(f"  {line}") for line in lines),
            "}",
        ]
    )
    return FamilyCode(camel(name), text, kernel)


def _decode_point(body: TaskBody) -> None:
    family = body.family
    names, extents = family.dim_names, family.extents
    for i in reversed(range(1, len(names))):
        size = body.sizes.word(f"{body.prefix}{camel(names[i])}", extents[i])
        body.lines.append(f"const uint32_t {names[i]} = point % {size};")
        body.lines.append(f"point /= {size};")
    if names:
        body.lines.append(f"const uint32_t {names[0]} = point;")


def _unless_empty(checks: list[str], lines: list[str]) -> list[str]:
    return [f"if ({' && '.join(checks)}) {{", *(f"  {line}" for line in lines), "}"]


def _signal(body: TaskBody, signal: SignalOp) -> str:
    event = event_number(body, signal.event_name, signal.index_exprs)
    if signal.peer_expr is None:
        return f"env.Signal({event});"
    return f"env.SignalPeer({event}, {body.index(signal.peer_expr)});"


_ELEMENTS = {
    "i32": ("int32_t",),
    "f32": ("float",),
    "activation": ("half", "bfloat16_t"),
    "activation or f32": ("half", "bfloat16_t", "float"),
}
"""Element types in C++ that an operand's tile may have."""


def _tiles(
    body: TaskBody, regions: tuple[Access, ...], operands: tuple[TileOperand, ...], stem: str
) -> list[str]:
    names: list[str] = []
    for i, (region, operand) in enumerate(zip(regions, operands, strict=True)):
        element, tile = body.tile(region)
        body.lines.append(f"// {operand.name}: {stem}s @{region.buffer}")
        body.lines.append(f"const hpmoe::Tile<{element}> {stem}{i} = {tile};")
        names.append(f"{stem}{i}")
        expected = _ELEMENTS[operand.element]
        if element not in expected:
            raise LoweringError(
                f"target ascendc: @{body.family.sym_name.data}: operand {operand.name} of kernel "
                f"'{body.family.kernel.data}' has elements of {' or '.join(expected)}, "
                f"found {element}"
            )
    return names


def _empty_checks(body: TaskBody, regions: tuple[Access, ...]) -> list[str]:
    checks: list[str] = []
    for region in regions:
        rows = region.rows
        if isinstance(rows, GroupedRows | SentRows | TokenRows):
            check = f"{body.define_rows(rows, region)}.count != 0"
            if check not in checks:
                checks.append(check)
    return checks


@dataclass(frozen=True)
class _Call:
    body: TaskBody
    kernel: Kernel

    def text(self, tiles: list[str]) -> str:
        """The call of the kernel's function."""
        family = self.body.family
        arguments: list[str] = []
        if self.kernel.ascendc.templated:
            arguments.append(self._activation())
        options = family.int_options
        arguments += [str(options[o]) for o in self.kernel.options]
        template = f"<{', '.join(arguments)}>" if arguments else ""
        scalars = [
            self.body.constant(s.data.value, f"Argument{i}")
            if isinstance(s.data, AffineConstantExpr)
            else self.body.index(s.data)
            for i, s in enumerate(family.scalars)
        ]
        return f"{self.kernel.ascendc.name}{template}({', '.join([*tiles, *scalars])});"

    def _activation(self) -> str:
        """The activation type: that of the first tile which has it."""
        family = self.body.family
        regions = (*family.read_accesses, *family.write_accesses)
        operands = (*self.kernel.reads, *self.kernel.writes)
        found = {
            element_name(buffer_type(self.body.program.buffers[r.buffer]).element_type)
            for r, o in zip(regions, operands, strict=True)
            if o.element == "activation"
        }
        if len(found) != 1:
            raise LoweringError(
                f"target ascendc: @{family.sym_name.data}: expected one activation type, found "
                f"{', '.join(sorted(found)) or 'none'}"
            )
        return found.pop()


def _waits(program: LoweredProgram) -> str:
    """A further argument for how the program waits; none where it waits without end."""
    numbers = [str(program.op.ticks(name)) for name in ("budget", "poll_aic", "poll_aiv")]
    return f", {{{', '.join(numbers)}}}" if any(n != "0" for n in numbers) else ""


def _switch(program: LoweredProgram, functions: list[FamilyCode], core: CoreKind) -> str:
    cases = [
        f"      case {i}:\n        return {code.name}(env, args, point);"
        for i, (family, code) in enumerate(zip(program.families.values(), functions, strict=True))
        if family.core_kind is core
    ]
    cases.append("      default:\n        AscendC::Trap();")
    return "\n".join(
        [
            f"struct {core.capitalize()}Tasks {{",
            "  const hpmoe::Env& env;",
            "  const Arguments& args;",
            "",
            "  __aicore__ inline void operator()(uint32_t family, uint32_t point) const {",
            "    switch (family) {",
            *cases,
            "    }",
            "  }",
            "};",
        ]
    )
