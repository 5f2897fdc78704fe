"""Builds the operator of a layer against stand-ins of CANN, and launches it from MindSpore.

    python run_binding.py COMPILED RESULT.npz

COMPILED is a directory of `hpmoe compile --ranks 1 --bind mindspore`. The kernel of the host
project writes its inputs to files and runs this program with `kernel COMPILED FOLDER TOKENS`, which
runs the generated kernel on the CPU model and leaves the outputs there.
"""

# pyright: basic
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
FAKE = HERE.parents[2] / "unit" / "host" / "fake_cann"
sys.path.insert(0, str(HERE.parents[2] / "unit"))
PROGRAM = "moe_layer"


def kernel(directory: Path, folder: Path, tokens: int) -> None:
    """Runs the generated kernel on the files of a folder."""
    from hpmoe_ir.dialects.tile import MemorySpace, buffer_type
    from hpmoe_ir.driver.compiled_files import read_compiled
    from hpmoe_ir.driver.source import make_context
    from hpmoe_ir.run.execution import RankInputs, build_program, run_program
    from hpmoe_ir.run.levels import element_dtype

    compiled, _ = read_compiled(make_context(), directory)
    own = compiled.kernels[PROGRAM]
    program = own.program
    types = {"bf16": np.uint16, "f16": np.uint16, "f32": np.uint32, None: np.int32}
    arrays = {}
    for buffer in program.arguments:
        if buffer.space.data is MemorySpace.OUTPUT:
            continue
        name, own_type = buffer.sym_name.data, buffer_type(buffer)
        rows = tokens if own_type.rows.data == "tokens" else own_type.dims[0]
        raw = np.fromfile(folder / name, types[element_dtype(buffer)])
        arrays[name] = raw.reshape(rows, *own_type.dims[1:])
    executable = build_program(program, own.source)
    inputs = [[RankInputs(arrays, tokens)]]
    ((found,),) = run_program(program, executable, own.table, inputs)
    for name, array in found.items():
        array.tofile(folder / name)


def kernel_source(host_plan, directory: Path, folder: Path) -> str:
    """A kernel with the signature of the generated one, which runs the CPU model."""
    names = [*host_plan.kernel_arguments, "table", "workspace", "windows"]
    parameters = ", ".join(f"GM_ADDR {name}" for name in names)

    def bytes_of(a) -> str:
        return f"{a.row_bytes}ul" + (" * tokens" if a.of_tokens else "")

    def calls(function: str, output: bool) -> str:
        own = [a for a in host_plan.arguments if a.output is output]
        return "\n  ".join(f'{function}("{a.name}", {a.name}, {bytes_of(a)});' for a in own)

    writes, reads = calls("Write", False), calls("Read", True)
    command = f"{sys.executable} {HERE} kernel {directory} {folder}"
    return f"""\
#include <cstdio>
#include <cstdlib>
#include <string>
#include "fake.h"
using GM_ADDR = uint8_t*;
static const int kReady = (fake::TheDevice().ranks = 1, fake::TheDevice().shmem_status = 2);
static void Write(const char* name, const void* data, size_t size) {{
  FILE* file = std::fopen((std::string("{folder}/") + name).c_str(), "wb");
  std::fwrite(data, 1, size, file);
  std::fclose(file);
}}
static void Read(const char* name, void* data, size_t size) {{
  FILE* file = std::fopen((std::string("{folder}/") + name).c_str(), "rb");
  if (file == nullptr || std::fread(data, 1, size, file) != size) std::abort();
  std::fclose(file);
}}
extern "C" void {host_plan.name}({parameters}, uint32_t tokens, uint32_t launch) {{
  std::printf("kernel launch=%u tokens=%u\\n", launch, tokens);
  std::fflush(stdout);
  {writes}
  if (std::system(("{command} " + std::to_string(tokens)).c_str()) != 0) std::abort();
  {reads}
  Read("{host_plan.status}", {host_plan.status}, 64);
}}
"""


def main() -> None:
    os.environ.setdefault("GLOG_v", "3")
    import mindspore as ms
    from host.conftest import as_call
    from mindspore import Tensor

    from hpmoe_ir.driver.compiled_files import read_compiled
    from hpmoe_ir.driver.source import make_context
    from hpmoe_ir.lowering.host.plan import host_plan

    compiled_at, result = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    compiled, _ = read_compiled(make_context(), compiled_at)
    own = compiled.kernels[PROGRAM]
    project, folder = compiled_at / PROGRAM / "host", result.resolve().parent / "launch"
    folder.mkdir()
    plan = host_plan(own.plan, own.table)
    (folder / "device.cpp").write_text(kernel_source(plan, compiled_at, folder))
    kernel_file = folder / "kernel.cpp"
    kernel_file.write_text(as_call((project / "kernel.asc").read_text()))
    sources = [
        compiled_at / "bind" / "mindspore" / f"{PROGRAM}.cpp",
        project / "host.cpp",
        kernel_file,
        FAKE / "fake.cpp",
        *sorted((project / "hpmoe_host").glob("*.cpp")),
    ]
    module = ms.ops.CustomOpBuilder(
        "hpmoe_moe_layer",
        [str(path) for path in sources],
        backend="CPU",
        include_paths=[str(path) for path in (folder, project, project / "include", FAKE)],
        build_dir=str(folder / "build"),
    ).load()
    layer = module.Layer((project / "table.bin").read_bytes())
    rng = np.random.default_rng(0)
    arguments = {a.name: a for a in plan.arguments if not a.output}
    found = {}

    def inputs(tokens: int) -> list[Tensor]:
        given = []
        for name, a in arguments.items():
            shape = (tokens, *a.dims[1:]) if a.of_tokens else a.dims
            array = (0.3 * rng.standard_normal(shape)).astype(np.float32)
            if a.element == "i32":
                chosen = [rng.permutation(4)[: shape[1]] for _ in range(tokens)]
                array = np.array(chosen, np.int32).reshape(shape)
            elif a.element == "f16":
                array = array.astype(np.float16)
            found[f"{tokens}/{name}"] = array
            given.append(Tensor(array))
        return given

    for tokens in (5, 0, 9):
        results = layer.launch(*inputs(tokens))
        out = results[0] if isinstance(results, tuple) else results
        found[f"{tokens}/out"] = out.asnumpy()
        layer.status()
    layer.launch(*inputs(16)).asnumpy()
    try:
        layer.status()
    except RuntimeError as error:
        print(f"status: {str(error).splitlines()[0]}", flush=True)
    given = inputs(11)
    try:
        layer.launch(given[0][:, :16], *given[1:]).asnumpy()
    except Exception as error:
        print(f"refused: {str(error).splitlines()[0]}", flush=True)
    layer.close()
    try:
        layer.status()
    except RuntimeError as error:
        print(f"closed: {str(error).splitlines()[0]}", flush=True)
    np.savez(result, **found)


if __name__ == "__main__":
    if sys.argv[1] == "kernel":
        kernel(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
