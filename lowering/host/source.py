"""`host`: the host side of a queue program, C++ with the ACL runtime and symmetric memory.

Code that all layers share is in `hpmoe_ir/runtime/host`; generated are the sizes of the layer and a
C interface with its buffers by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from hpmoe_ir.lowering.cpp_text import comment, commented, function, listed
from hpmoe_ir.lowering.host.plan import HostPlan, host_plan
from hpmoe_ir.lowering.plan.program import plan_program
from hpmoe_ir.lowering.program import lowered_program
from hpmoe_ir.lowering.task_table import HEADER, task_table


@dataclass(frozen=True)
class HostTarget(Target):
    """Writes the C++ source of the host side: create, launch, status and destroy of one layer.

    Needs a `queue.program` with planned memory and allocated events. This is one file of a project
    for the CANN toolkit; `hpmoe compile` writes the whole project.
    """

    name = "host"

    program: str = ""
    """Name of the program, for a module with several."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        plan = plan_program(lowered_program(module, self.name, self.program))
        output.write(host_source(host_plan(plan, task_table(plan))))


def host_header(plan: HostPlan) -> str:
    """Returns the text of `host.h`, the C interface of the layer."""
    name, guard = plan.name, f"HPMOE_{plan.name.upper()}_HOST_H_"
    fields = commented(
        [(f"{'' if a.output else 'const '}void* {a.name};", a.shape) for a in plan.arguments],
        "  ",
    )
    intro = comment(
        f"ACL and the symmetric memory are initialised before {name}_create; hpmoe_host/process.h "
        "does it for programs without a framework. All ranks create, launch and destroy together: "
        "launch n of a rank exchanges rows with launch n of all others. A call that fails on one "
        "rank therefore leaves the others waiting for it: end them all. Only "
        f"{name}_over_capacity is said on every rank, and lets all of them go on."
    )
    launch = comment(
        f"Puts one launch for 0 to {plan.tokens} tokens into the stream. The launches of a handle "
        "must run one after the other, so they share a stream or wait for each other."
    )
    return f"""\
// Host side of @{name}: {plan.ranks} ranks of at most {plan.tokens} tokens each.
//
{intro}
#ifndef {guard}
#define {guard}

#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {{
#endif

typedef struct {name}_handle {name}_handle;

// What each call returns.
enum {{
  {name}_ok = 0,
  {name}_failed = 1,
  // A rank would have received more rows than it has room for.
  {name}_over_capacity = 2,
}};

// Device memory of one launch, all of this rank. Rows of tokens are as many as the rank brings.
typedef struct {name}_arguments {{
{fields}
}} {name}_arguments;

// Takes the bytes of the layer's task table. Allocates, and returns once all ranks have done so.
{_create(name)};

{launch}
{_launch(name)};

// Waits for the stream and says how the last launch ended.
int {name}_status({name}_handle* handle, aclrtStream stream);

// Waits for the device and for all ranks, and frees everything. A null handle is no error.
int {name}_destroy({name}_handle* handle);

// What the last failed call of this thread said, until the next one.
const char* {name}_error(void);

// Bytes of symmetric memory that {name}_create takes on each rank.
uint64_t {name}_symmetric_bytes(void);

#ifdef __cplusplus
}}
#endif

#endif  // {guard}
"""


def _create(name: str) -> str:
    return listed(
        f"int {name}_create(",
        ["const void* table", "size_t table_bytes", f"{name}_handle** handle"],
        ")",
    )


def _launch(name: str) -> str:
    return listed(
        f"int {name}_launch(",
        [
            f"{name}_handle* handle",
            f"const {name}_arguments* arguments",
            "uint32_t tokens",
            "aclrtStream stream",
        ],
        ")",
    )


def host_source(plan: HostPlan) -> str:
    """Returns the text of `host.cpp`."""
    name = plan.name
    numbers = commented(
        [
            (f'"{name}",', "name"),
            (f"{plan.tokens},", "tokens of a rank"),
            (f"{plan.workspace_bytes},", "bytes of workspace"),
            (f"{plan.window_bytes},", "bytes of windows"),
        ],
        "    ",
    )
    hexadecimal = ("magic", "checksum")
    header = commented(
        [
            (f"0x{value:08x}," if word in hexadecimal else f"{value},", word)
            for word, value in zip(HEADER, plan.header, strict=True)
        ],
        "        ",
    )
    given = "\n".join(
        f'            {{"{a.name}", arguments->{a.name}, {"true" if a.of_tokens else "false"}}},'
        for a in plan.arguments
    )
    error = function(f"const char* {name}_error(void)", "return hpmoe_host::LastError().c_str();")
    symmetric = function(
        f"uint64_t {name}_symmetric_bytes(void)", "return kPlan.window_bytes + kAlignment;"
    )
    return f"""\
#include "host.h"

#include "hpmoe_host/failure.h"
#include "hpmoe_host/guard.h"
#include "hpmoe_host/layer.h"
#include "launch.h"

namespace {{

const hpmoe_host::LayerPlan kPlan = {{
{numbers}
    // Header of the task table; any other table is refused.
    {{
{header}
    }},
{_wait_names(plan)}}};

// Room to place the windows at a multiple of 512 bytes.
constexpr uint64_t kAlignment = 512;

}}  // namespace

struct {name}_handle : hpmoe_host::Layer {{
  using hpmoe_host::Layer::Layer;
}};

{_create(name)} {{
  return hpmoe_host::Guarded([&] {{
{_not_null(name, "create", "handle")}
    *handle = nullptr;
    *handle = new {name}_handle(kPlan, table, table_bytes);
  }});
}}

{_launch(name)} {{
  return hpmoe_host::Guarded([&] {{
{_not_null(name, "launch", "handle")}
{_not_null(name, "launch", "arguments")}
    handle->Launch(
        {{
{given}
        }},
        tokens, *arguments, stream, {name}_enqueue);
  }});
}}

int {name}_status({name}_handle* handle, aclrtStream stream) {{
  return hpmoe_host::Guarded([&] {{
{_not_null(name, "status", "handle")}
    handle->CheckStatus(stream);
  }});
}}

int {name}_destroy({name}_handle* handle) {{
  const int result = hpmoe_host::Guarded([&] {{
    if (handle != nullptr) handle->Close();
  }});
  delete handle;
  return result;
}}

{error}

{symmetric}
"""


def _wait_names(plan: HostPlan) -> str:
    """Returns the names of events and tasks for reports of timed-out waits; "" without a budget."""
    if not plan.events:
        return ""
    events = "\n".join(
        f'            {{"{n}", {first}, {count}}},' for n, first, count in plan.events
    )
    tasks = "\n".join(
        f'            {{"{name}", {{{", ".join(str(n) for n in extents)}}}}},'
        for name, extents in plan.tasks
    )
    return f"""\
    // Families of events (first number, count) and of tasks (extents), by name.
    {{
        {{
{events}
        }},
        {{
{tasks}
        }},
    }},
"""


def _not_null(name: str, call: str, what: str) -> str:
    """Returns a statement that rejects a null pointer."""
    text = f'"{name}_{call}: {what}: found a null pointer"'
    return listed("    hpmoe_host::Require(", [f"{what} != nullptr", text], ");")
