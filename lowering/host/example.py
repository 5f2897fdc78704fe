"""The example program of a host project: one launch on one rank, buffers from and to files."""

from __future__ import annotations

from hpmoe_ir.lowering.cpp_text import assigned, function
from hpmoe_ir.lowering.host.plan import HostArgument, HostPlan


def example_source(plan: HostPlan) -> str:
    """Returns the text of `main.cpp`."""
    name = plan.name
    inputs = [a for a in plan.arguments if not a.output]
    outputs = [a for a in plan.arguments if a.output]
    first = next((a for a in inputs if a.of_tokens), None)
    reads = "\n".join(_read(a, a is first) for a in inputs)
    memories = "\n".join(_memory(a) for a in plan.arguments)
    uploads = "\n".join(
        f'  {_m(a)}.Upload(in_{a.name}.data(), in_{a.name}.size(), "{a.name}");' for a in inputs
    )
    fields = "\n".join(f"  arguments.{a.name} = {_m(a)}.address();" for a in plan.arguments)
    check = f"hpmoe_host::Require(result == {name}_ok, {name}_error());"
    downloads = "\n".join(_download(a) for a in outputs)
    destroy = function(
        f"  void operator()({name}_handle* handle) const", f"(void){name}_destroy(handle);"
    )
    tokens = "" if first else "  const uint32_t tokens = 0;\n"
    return f"""\
// Runs one launch of @{name} on this rank: an example of host.h, see README.txt.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "host.h"
#include "hpmoe_host/failure.h"
#include "hpmoe_host/files.h"
#include "hpmoe_host/memory.h"
#include "hpmoe_host/options.h"
#include "hpmoe_host/process.h"
#include "hpmoe_host/stream.h"

namespace {{

using hpmoe_host::Bytes;
using hpmoe_host::DeviceMemory;

{function("void Check(int result)", check)}

struct Destroy {{
{destroy}
}};

void Run(const hpmoe_host::RunOptions& options, const std::string& folder) {{
  const Bytes table = hpmoe_host::ReadFile(options.table);
{tokens}{reads}

{memories}
{uploads}

  const hpmoe_host::Stream stream;
  {name}_handle* created = nullptr;
  Check({name}_create(table.data(), table.size(), &created));
  std::unique_ptr<{name}_handle, Destroy> handle(created);
  {name}_arguments arguments = {{}};
{fields}
  Check({name}_launch(handle.get(), &arguments, tokens, stream.get()));
  Check({name}_status(handle.get(), stream.get()));

{downloads}
  Check({name}_destroy(handle.release()));
}}

}}  // namespace

int main(int argc, char** argv) {{
  try {{
    const hpmoe_host::RunOptions options = hpmoe_host::ReadOptions(argc, argv);
    hpmoe_host::ProcessOptions own;
    own.rank = options.rank;
    own.ranks = {plan.ranks};
    own.device = options.device;
    own.address = options.address;
    own.symmetric_bytes = {name}_symmetric_bytes();
    hpmoe_host::Process process(own);
    Run(options, options.directory + "/rank" + std::to_string(options.rank) + "/");
    process.Close();
    return 0;
  }} catch (const std::exception& error) {{
    std::fprintf(stderr, "error: %s\\n", error.what());
    return 1;
  }}
}}
"""


def _m(argument: HostArgument) -> str:
    return f"{argument.name}_memory"


def _read(argument: HostArgument, first: bool) -> str:
    name, file = argument.name, f'folder + "{argument.name}.bin"'
    if first:
        return (
            assigned(f"  const Bytes in_{name}", f"hpmoe_host::ReadFile({file})")
            + "\n"
            + assigned(
                "  const uint32_t tokens",
                f"hpmoe_host::RowsOf(in_{name}, {argument.row_bytes}, {file})",
            )
        )
    size = f"{'tokens * ' if argument.of_tokens else ''}{_size(argument)}"
    return assigned(f"  const Bytes in_{name}", f"hpmoe_host::ReadExactly({file}, {size})")


def _size(argument: HostArgument) -> str:
    return f"size_t{{{argument.row_bytes}}}"


def _memory(argument: HostArgument) -> str:
    size = f"{'tokens * ' if argument.of_tokens else ''}{_size(argument)}"
    return f'  DeviceMemory {_m(argument)}({size}, "{argument.name}");'


def _download(argument: HostArgument) -> str:
    name = argument.name
    return (
        f"  Bytes out_{name}({_m(argument)}.bytes());\n"
        f'  {_m(argument)}.Download(out_{name}.data(), out_{name}.size(), "{name}");\n'
        f'  hpmoe_host::WriteFile(folder + "{name}.bin", out_{name});'
    )
