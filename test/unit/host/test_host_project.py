"""The files of a host project: the same for the same program, complete, in the house style, and
with a launch that fits the generated kernel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpmoe_ir.lowering.ascendc.source import device_source
from hpmoe_ir.lowering.plan.program import plan_program
from hpmoe_ir.lowering.task_table import task_table
from hpmoe_ir.runtime.cpu_build import INCLUDE_DIR

from .conftest import HERE, LAYER, HostBuild, as_call, files_of, lowered

TEXTS = ("host.cpp", "host.h", "kernel.asc", "launch.h", "main.cpp")


def test_the_same_bytes_for_the_same_layer():
    first, second = files_of(lowered(LAYER)), files_of(lowered(LAYER))
    assert first == second
    assert list(first) == sorted(first)


def test_layers_of_one_structure_share_all_but_numbers():
    wide = replace(LAYER, hidden=128, width=48, tokens=100)
    first, second = files_of(lowered(LAYER)), files_of(lowered(wide))
    differing = {name for name in first if first[name] != second[name]}
    # The device code is not among them: both targets use the same object.
    assert differing == {"README.txt", "host.cpp", "host.h", "main.cpp", "table.bin"}


def test_device_source_and_table_are_those_given():
    program = lowered(LAYER)
    files, plan = files_of(program), plan_program(program)
    assert files["device.cpp"] == device_source(plan)
    assert files["table.bin"] == task_table(plan)


def test_every_include_is_in_the_project():
    files = files_of(lowered(LAYER))
    elsewhere = ("acl/", "kernel_operator.h", "shmem.h")
    for name, content in files.items():
        if name.endswith((".h", ".cpp", ".asc")):
            assert isinstance(content, str)
            for include in re.findall(r'#include "([^"]+)"', content):
                known = include in files or f"include/{include}" in files
                assert known or include.startswith(elsewhere), f"{name}: {include}"


def test_every_source_is_built():
    files = files_of(lowered(LAYER))
    cmake = files["CMakeLists.txt"]
    assert isinstance(cmake, str)
    for name in files:
        if name.endswith((".cpp", ".asc")) and name != "device.cpp":
            assert re.search(rf"(^|\s){re.escape(name)}\b", cmake), name
    # The kernel's file includes the device source; built twice it would be defined twice.
    assert "device.cpp" not in cmake


@pytest.mark.parametrize("name", ["layer", "a_layer_with_a_long_name"])
def test_lines_are_short_and_formatted(name: str):
    program = lowered(LAYER)
    program.op.properties["sym_name"] = type(program.op.sym_name)(name)
    files = files_of(program)
    for file in (*TEXTS, "README.txt"):
        text = files[file]
        assert isinstance(text, str)
        assert max(map(len, text.splitlines())) <= 100, file
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
    # Installed beside the Python that runs the tests, which need not be on the path.
    beside = str(Path(sys.executable).parent)
    formatter = shutil.which("clang-format", path=os.pathsep.join([beside, os.environ["PATH"]]))
    assert formatter is not None
    style = f"--style=file:{HERE.parents[2] / '.clang-format'}"
    # clang-format does not know the launch syntax of kernel.asc.
    for file in sorted({*TEXTS} - {"kernel.asc"}):
        text = files[file]
        assert isinstance(text, str)
        command = [formatter, style, f"--assume-filename={file}.cpp"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        assert done.stdout == text, file


def test_the_launch_fits_the_generated_kernel(host_build: HostBuild, tmp_path: Path):
    """`kernel.asc` against the real device source, with the CPU model's headers."""
    text = as_call((host_build.folder / "kernel.asc").read_text())
    source = tmp_path / "kernel.cpp"
    (tmp_path / "device.cpp").write_text(device_source(plan_program(host_build.program)))

    def errors(kernel: str) -> str:
        source.write_text(kernel)
        includes = [tmp_path, INCLUDE_DIR, host_build.folder, host_build.folder / "include"]
        includes.append(HERE / "fake_cann")
        flags = [f"-I{path}" for path in includes]
        command = ["g++", "-std=c++17", "-fsyntax-only", *flags, str(source)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr

    assert errors(text) == ""
    assert "too few arguments" in errors(text.replace("Address(arguments.gate), ", "", 1))
