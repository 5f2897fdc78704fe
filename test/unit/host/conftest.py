"""The host project of a small layer, built with g++ against fakes of the ACL runtime and of the
symmetric memory.

The kernel of the project is replaced by one that records its arguments, and the launch syntax of
the device compiler by a call; everything else is compiled as it is generated, with the address and
the undefined-behaviour sanitizer: a finding ends a program.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.passes import ModulePass

from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.lowering.ascendc.source import device_source
from hpmoe_ir.lowering.host.project import project_files
from hpmoe_ir.lowering.plan.program import plan_program
from hpmoe_ir.lowering.program import LoweredProgram, lowered_program
from hpmoe_ir.lowering.task_table import task_table
from hpmoe_ir.passes.pipeline import LowerMoePass

HERE = Path(__file__).parent
LAYER = LayerConfig("small", hidden=64, width=32, experts=4, top_k=2, ranks=2, tokens=64)
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FLAGS = ("-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", *SANITIZERS)


def lowered(config: LayerConfig, *more: ModulePass) -> LoweredProgram:
    """The queue program of a layer, as lowering sees it."""
    module = layer_module(config)
    for step in (LowerMoePass(), *more):
        step.apply(make_context(), module)
    return lowered_program(module, "host")


def files_of(program: LoweredProgram) -> dict[str, str | bytes]:
    """The project of a program."""
    plan = plan_program(program)
    return project_files(plan, device_source(plan), task_table(plan))


def as_call(kernel: str) -> str:
    """`kernel.asc` with a call where the device compiler has a launch."""
    text, count = re.subn(
        r"(\w+)<<<call\.blocks, 0, (\w+)>>>\(", r"fake::Launched(call.blocks, \2);\n  \1(", kernel
    )
    assert count == 1
    return f'#include "fake.h"\n{text}'


def recording_kernel(program: LoweredProgram) -> str:
    """A kernel with the signature of the generated one, which records what it is given."""
    pointers = [*(b.sym_name.data for b in program.arguments), "table", "workspace", "windows"]
    parameters = ", ".join(f"GM_ADDR {p}" for p in pointers)
    names = " + ".join(f'" {p}=" + fake::NameOf({p})' for p in pointers)
    return f"""\
#include "fake.h"
using GM_ADDR = uint8_t*;
extern "C" void {program.name}({parameters}, uint32_t tokens, uint32_t launch) {{
  fake::Ran("launch=" + std::to_string(launch) + " tokens=" + std::to_string(tokens) + {names},
            status);
}}
"""


def compile_all(sources: Sequence[Path], includes: Sequence[Path], folder: Path) -> list[Path]:
    """Objects of C++ sources; any warning is an error."""
    compiler = shutil.which("g++")
    assert compiler is not None, "the host side is tested with g++"

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.parent.name}-{source.name}.o"
        flags = [*FLAGS, *(f"-I{path}" for path in includes)]
        command = [compiler, *flags, "-x", "c++", "-c", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return target

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(compile_one, sources))


def link(objects: Sequence[Path], target: Path) -> Path:
    """An executable."""
    subprocess.run(["g++", *SANITIZERS, *map(str, objects), "-o", str(target)], check=True)
    return target


@dataclass(frozen=True)
class HostBuild:
    """The project on disk, with the driver and the example program built from it."""

    program: LoweredProgram
    folder: Path
    driver: Path
    example: Path

    @property
    def table(self) -> Path:
        """The file of the task table."""
        return self.folder / "table.bin"

    def run(self, *commands: str) -> list[str]:
        """What the driver records for commands, a line each."""
        text = "\n".join(commands)
        done = subprocess.run([self.driver], input=text, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.splitlines()

    def created(self, *commands: str) -> list[str]:
        """The record after a create that went well, without that of the create."""
        record = self.run(f"create {self.table}", *commands)
        done = record.index("create: 0")
        return record[done + 1 :]


@pytest.fixture(scope="session")
def host_build(tmp_path_factory: pytest.TempPathFactory) -> HostBuild:
    """The small layer's project."""
    return build_host(lowered(LAYER), tmp_path_factory.mktemp("host-project"))


def build_host(program: LoweredProgram, folder: Path) -> HostBuild:
    """The project of a program, built."""
    for name, content in files_of(program).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "device.cpp").write_text(recording_kernel(program))
    kernel = folder / "kernel.cpp"
    kernel.write_text(as_call((folder / "kernel.asc").read_text()))
    sources = [
        HERE / "driver.cpp",
        folder / "main.cpp",
        folder / "host.cpp",
        kernel,
        HERE / "fake_cann" / "fake.cpp",
        *sorted((folder / "hpmoe_host").glob("*.cpp")),
    ]
    driver, main, *rest = compile_all(sources, [folder, HERE / "fake_cann"], folder)
    return HostBuild(
        program,
        folder,
        link([driver, *rest], folder / "driver"),
        link([main, *rest], folder / "example"),
    )
