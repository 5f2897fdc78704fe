"""`ascendc`: the device source of a queue program, one persistent kernel in Ascend C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from hpmoe_ir.lowering.ascendc.expressions import enumerator
from hpmoe_ir.lowering.ascendc.tasks import credit_function, family_function
from hpmoe_ir.lowering.cpp_text import listed
from hpmoe_ir.lowering.plan.family import FamilyPlan
from hpmoe_ir.lowering.plan.program import ProgramPlan, plan_program
from hpmoe_ir.lowering.program import lowered_program
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import Machine


@dataclass(frozen=True)
class AscendCTarget(Target):
    """Writes the device source: a function for each family of tasks, a switch over families for
    each kind of core, and the kernel's entry.
    Needs a `queue.program` with planned memory and allocated events. The text holds the structure
    of the program; sizes are looked up in the task table (`task-table`).
    """

    name = "ascendc"

    program: str = ""
    """Name of the program, for a module with several."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        plan = plan_program(lowered_program(module, self.name, self.program))
        output.write(device_source(plan))


def device_source(plan: ProgramPlan) -> str:
    """Returns the device source of a program as text."""
    headers = {family.header for family in plan.families} | {"hpmoe/worker.h"}
    if plan.credits:
        headers.add("hpmoe/credit.h")
    includes = "\n".join(f'#include "{h}"' for h in sorted(headers))
    enumerators = "\n".join(f"  {enumerator(size)}," for size in plan.sizes)
    fields = "\n".join(f"  GM_ADDR {name};" for name in plan.arguments)
    functions = [
        *(credit_function(credit) for credit in plan.credits),
        *(family_function(family) for family in plan.families),
    ]
    bodies = "\n\n".join(functions)
    parameters = [f"GM_ADDR {p}" for p in (*plan.arguments, "table", "workspace", "windows")]
    entry = listed("    ", [*parameters, "uint32_t tokens", "uint32_t launch"], ") {")
    arch = plan.program.machine.arch
    return f"""\
// Device source of @{plan.name}: one persistent kernel for {arch}, AIC and AIV.

{memory_definitions(plan.program.machine)}

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

{_switch(plan.families, CoreKind.AIC)}

{_switch(plan.families, CoreKind.AIV)}

}}  // namespace

extern "C" __schedmode__(1) __global__ __mix__(1, 2) __aicore__ void {plan.name}(
{entry}
  const hpmoe::Env env(table, windows, workspace, tokens, launch{_waits(plan)});
  const Arguments args{{{", ".join(plan.arguments)}}};
  if ASCEND_IS_AIC {{
    hpmoe::RunAicQueue(env, AicTasks{{env, args}});
  }}
  if ASCEND_IS_AIV {{
    hpmoe::RunAivQueue(env, AivTasks{{env, args}});
  }}
  AscendC::PipeBarrier<PIPE_ALL>();
}}
"""


def memory_definitions(machine: Machine) -> str:
    """Returns the definitions that `hpmoe/memories.h` expects: bytes that kernels may use."""
    sizes = (
        ("L0A", machine.l0a_bytes),
        ("L0B", machine.l0b_bytes),
        ("L0C", machine.l0c_bytes),
        ("L1", machine.l1_usable),
        ("UB", machine.ub_usable),
    )
    lines = [f"#define HPMOE_{memory}_BYTES {size}" for memory, size in sizes]
    return "\n".join(
        [f"// Memories of a core of {machine.name}, as far as kernels use them.", *lines]
    )


def _waits(plan: ProgramPlan) -> str:
    """Returns the argument with the budget and pauses of waits, "" if the program sets none."""
    waits = plan.waits
    if waits is None:
        return ""
    return f", {{{waits.budget}, {waits.poll_aic}, {waits.poll_aiv}}}"


def _switch(families: Sequence[FamilyPlan], core: CoreKind) -> str:
    """Returns the switch from family number to function for one kind of core."""
    cases = [
        f"      case {i}:\n        return {family.function}(env, args, point);"
        for i, family in enumerate(families)
        if family.core == core
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
