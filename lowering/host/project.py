"""The project that the CANN toolkit builds: kernel, host side and an example program."""

from __future__ import annotations

import textwrap
from pathlib import Path

import hpmoe_ir
from hpmoe_ir.lowering.cpp_text import COLUMNS, function, listed
from hpmoe_ir.lowering.host.example import example_source
from hpmoe_ir.lowering.host.plan import HostPlan, host_plan
from hpmoe_ir.lowering.host.source import host_header, host_source
from hpmoe_ir.lowering.plan.program import ProgramPlan
from hpmoe_ir.lowering.task_table import HEADER

RUNTIME = Path(hpmoe_ir.__file__).parent / "runtime"


def project_files(program: ProgramPlan, device_source: str, table: bytes) -> dict[str, str | bytes]:
    """Returns the files of the project by relative path, deterministic for a program.

    `device_source` and `table` are the outputs of the targets `ascendc` and `task-table`. Raises
    RefusedError if the program cannot have a host side.
    """
    plan = host_plan(program, table)
    host = _headers(RUNTIME / "host", "hpmoe_host")
    files: dict[str, str | bytes] = {
        "CMakeLists.txt": _cmake(plan, [name for name in host if name.endswith(".cpp")]),
        "README.txt": _readme(plan),
        "device.cpp": device_source,
        "host.cpp": host_source(plan),
        "host.h": host_header(plan),
        "kernel.asc": kernel_source(plan),
        "launch.h": _launch_header(plan),
        "main.cpp": example_source(plan),
        "table.bin": table,
    }
    files |= host
    files |= {f"include/{n}": text for n, text in _headers(RUNTIME / "device", "hpmoe").items()}
    # For kernels of other packages, the headers of their include directories are copied.
    for family in program.families:
        if family.include is not None:
            files[f"include/{family.header}"] = (family.include / family.header).read_text()
    return dict(sorted(files.items()))


def _headers(root: Path, folder: str) -> dict[str, str]:
    paths = sorted((root / folder).rglob("*"))
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in paths
        if path.suffix in (".h", ".cpp")
    }


def _launch_header(plan: HostPlan) -> str:
    name, guard = plan.name, f"HPMOE_{plan.name.upper()}_LAUNCH_H_"
    return f"""\
// The launch of the kernel, which the device compiler compiles (kernel.asc).
#ifndef {guard}
#define {guard}

#include "host.h"
#include "hpmoe_host/kernel_call.h"

{_enqueue(name)};

#endif  // {guard}
"""


def _enqueue(name: str) -> str:
    return listed(
        f"void {name}_enqueue(",
        [
            f"const {name}_arguments& arguments",
            "const hpmoe_host::KernelCall& call",
            "aclrtStream stream",
        ],
        ")",
    )


def kernel_source(plan: HostPlan) -> str:
    """Returns the text of `kernel.asc`: the device source and its launch function."""
    given = [
        "Address(call.status)" if a == plan.status else f"Address(arguments.{a})"
        for a in plan.kernel_arguments
    ]
    given += [f"Address(call.{part})" for part in ("table", "workspace", "windows")]
    address = function(
        "uint8_t* Address(const void* address)",
        "return static_cast<uint8_t*>(const_cast<void*>(address));",
    )
    launch = f"  {plan.name}<<<call.blocks, 0, stream>>>("
    arguments = listed("      ", [*given, "call.tokens", "call.launch"], ");")
    return f"""\
// The kernel of @{plan.name} and its launch, for the device compiler.
#include "acl/acl.h"
#include "device.cpp"
#include "launch.h"

namespace {{

// The kernel's pointers have no const.
{address}

}}  // namespace

{_enqueue(plan.name)} {{
{launch}
{arguments}
}}
"""


def _cmake(plan: HostPlan, sources: list[str]) -> str:
    name = plan.name
    host = "\n".join(f"  {source}" for source in sources)
    return f"""\
# Host side and kernel of @{name}, and an example program: see README.txt.
cmake_minimum_required(VERSION 3.16)

set(CMAKE_ASC_ARCHITECTURES "{plan.arch}" CACHE STRING "NPU architecture")
set(SHMEM_ROOT "$ENV{{SHMEM_HOME_PATH}}/shmem" CACHE PATH
  "Installed symmetric-memory library: the folder with include, src and lib")
set(ASCEND_ROOT "$ENV{{ASCEND_HOME_PATH}}" CACHE PATH "CANN toolkit")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_package(ASC REQUIRED)
project(hpmoe_{name} LANGUAGES ASC CXX)

foreach(header "${{SHMEM_ROOT}}/include/shmem.h" "${{ASCEND_ROOT}}/include/acl/acl.h")
  if(NOT EXISTS "${{header}}")
    message(FATAL_ERROR "${{header}} does not exist: set SHMEM_ROOT and ASCEND_ROOT")
  endif()
endforeach()

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# The layer: C interface in host.h. Apart from the numbers in host.cpp and table.bin, layers of one
# structure have the same files.
add_library(hpmoe_{name} SHARED
  kernel.asc
  host.cpp
{host}
)
set_target_properties(hpmoe_{name} PROPERTIES LINKER_LANGUAGE ASC)
target_compile_options(hpmoe_{name} PRIVATE
  $<$<COMPILE_LANGUAGE:ASC>:--npu-arch=${{CMAKE_ASC_ARCHITECTURES}}>
  $<$<COMPILE_LANGUAGE:ASC>:-fPIC>
)
target_include_directories(hpmoe_{name} PUBLIC
  "${{CMAKE_CURRENT_SOURCE_DIR}}"
  "${{CMAKE_CURRENT_SOURCE_DIR}}/include"
  "${{ASCEND_ROOT}}/include"
  "${{SHMEM_ROOT}}/include"
  "${{SHMEM_ROOT}}/src/device"
)
target_link_directories(hpmoe_{name} PUBLIC "${{ASCEND_ROOT}}/lib64" "${{SHMEM_ROOT}}/lib")
target_link_libraries(hpmoe_{name} PUBLIC shmem ascendcl)

add_executable(run_{name} main.cpp)
set_target_properties(run_{name} PROPERTIES LINKER_LANGUAGE ASC)
target_link_libraries(run_{name} PRIVATE hpmoe_{name})
"""


def _readme(plan: HostPlan) -> str:
    name = plan.name
    title = f"@{name} for {plan.ranks} ranks of at most {plan.tokens} tokens each"
    blocks = plan.header[HEADER.index("blocks")]
    cores = textwrap.fill(
        f"The kernel holds {blocks} AIC and {2 * blocks} AIV cores of a device from start to end, "
        "and waits for its peers meanwhile: one rank a device, and nothing else there that needs "
        "those cores.",
        COLUMNS,
    )
    width = max(len(a.name) for a in plan.arguments) + len(".bin  ")
    lines = {a: f"    {a.name + '.bin':<{width}}{a.shape}" for a in plan.arguments}
    inputs = "\n".join(line for a, line in lines.items() if not a.output)
    outputs = "\n".join(line for a, line in lines.items() if a.output)
    return f"""\
{title}
{"=" * len(title)}

Generated by hpmoe compile. The C++ of the host side is compiled and run in the compiler's tests
against stand-ins of the ACL runtime and the symmetric memory; this project as a whole has not been
built with CANN nor run on a device.

Needed: the CANN toolkit with find_package(ASC), and the symmetric-memory library (shmem) installed
with its headers of the device side.

Build:

    source CANN_DIR/set_env.sh      # sets ASCEND_HOME_PATH
    source SHMEM_DIR/set_env.sh     # sets SHMEM_HOME_PATH; or give cmake -DSHMEM_ROOT=...
    cmake -S . -B build
    cmake --build build

Run the example, once for each rank, at the same time:

    build/run_{name} DATA --rank 0 --table table.bin --address tcp://HOST:PORT

HOST:PORT is where rank 0 listens. The rank is by default that of the variable RANK_ID; the device
is by default that of the rank, see --device. Each rank reads, from DATA/rank0, DATA/rank1, ...:

{inputs}

and writes:

{outputs}

A program of your own links libhpmoe_{name} and calls host.h.

{cores}

Files:

    host.h        the C interface          host.cpp      its implementation
    kernel.asc    the kernel's launch      device.cpp    the kernel
    main.cpp      the example              table.bin     queues, thresholds and sizes of the kernel
    hpmoe_host/   host side of any layer   include/      device code of any layer
"""
