"""Builds of the CPU model: the cache, errors of the kernel source, a missing compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.runtime.cpu_build import (
    INCLUDE_DIR,
    CompileError,
    CompilerMissing,
    KernelEntry,
    build,
    find_compiler,
)
from hpmoe_ir.runtime.cpu_model import RankLaunch, execute

ENTRY = KernelEntry("k", ("x",), ())

HEAD = """\
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __mix__(1, 2) __aicore__ void k(GM_ADDR x) {
  LocalTensor<float> f(TPosition::VECIN, 0, 64);
  LocalTensor<half> h(TPosition::VECIN, 1024, 64);
  LocalTensor<bfloat16_t> b(TPosition::VECIN, 2048, 64);
  LocalTensor<int32_t> i(TPosition::VECIN, 4096, 64);
  GlobalTensor<half> g;
  FixpipeParamsV220 store;
"""


def source(directory: Path, body: str) -> Path:
    path = directory / "kernel.cpp"
    path.write_text(f"{HEAD}  {body}\n}}\n")
    return path


def test_cached_by_content(tmp_path: Path):
    """Equal content is built once, whatever its path; any other content is built again."""
    one, two = tmp_path / "one", tmp_path / "two"
    for directory in (one, two):
        directory.mkdir()
    first = build(source(one, ""), ENTRY, [])
    stamp = first.stat().st_mtime_ns
    assert build(source(two, ""), ENTRY, []) == first
    assert first.stat().st_mtime_ns == stamp
    assert build(source(two, "// more"), ENTRY, []) != first
    (two / "inc").mkdir()
    (two / "inc" / "other.h").write_text("")
    with_header = build(source(two, ""), ENTRY, [two / "inc"])
    (two / "inc" / "other.h").write_text("// changed")
    assert build(source(two, ""), ENTRY, [two / "inc"]) != with_header


def test_build_directory(tmp_path: Path):
    """`build_dir` takes the place of the cache."""
    path = tmp_path / "kernel.cpp"
    path.write_text('#include "kernel_operator.h"\nextern "C" void k(GM_ADDR) {}\n')
    executable = build(path, ENTRY, [], tmp_path / "out")
    assert executable.parent == tmp_path / "out"
    machine = load_machine("ascend-a3")
    execute(executable, ENTRY, [[RankLaunch({"x": np.zeros(1)})]], aics=1, machine=machine)


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One message, no traceback of a subprocess."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompilerMissing) as raised:
        build(source(tmp_path, ""), ENTRY, [])
    assert str(raised.value) == ("the CPU model needs g++ (C++17), and there is none on the PATH")


# A statement, and the error of the compiler.
REFUSED = {
    "Add(b, b, b, 64);": "Add: the vector unit has no such element type",
    "Exp(i, i, 64);": "Exp: float or half",
    "Div(i, i, i, 64);": "Div: the vector unit has no such element type",
    "Axpy(f, h, half(1), 64);": "Axpy is modelled for float to float and half to half",
    "Add(f, f, f, 64, 1, BinaryRepeatParams());": "BinaryRepeatParams",
    "Muls(f, f, 1.0f, uint64_t{1}, 1, {1, 1, 8, 8});": "no matching function",
    "Muls<float, false>(f, f, 1.0f, 64);": "a mask set by the caller is not modelled",
    "Muls(f, f, 1, 64);": "no matching function",
    "DataCopy(f, f, 64);": "use of deleted function",
    "Mmad(f, h, b, MmadParams());": "Mmad is modelled for half or bfloat16_t operands",
    "Fixpipe<half, float, CFG_NZ>(g, f, store);": "Fixpipe is modelled for row-major output",
    "PipeBarrier<PIPE_S>();": "PipeBarrier: the scalar pipe has no barrier",
    "CrossCoreSetFlag<4, PIPE_V>(0);": "CrossCoreSetFlag: modes 0, 1 and 2",
    "CrossCoreSetFlag<2, PIPE_S>(0);": "CrossCoreSetFlag: a set belongs to one of",
    "SetAtomicAdd<uint64_t>();": "SetAtomicAdd: float, half, bfloat16_t, int32_t",
    "SetFlag<HardEvent::MAX>(0);": "SetFlag: not a pair of pipes",
    "AtomicAdd((__gm__ int32_t*)x, 1);": "AtomicAdd",
    "TPipe pipe;": "TPipe",
    "DataCacheCleanAndInvalid<half, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_UB>(g);": (
        "DataCacheCleanAndInvalid is modelled for lines of global memory"
    ),
}


def test_what_the_model_does_not_have_does_not_compile(tmp_path: Path):
    """Each statement gives an error of its own, at its line."""
    path = source(tmp_path, "\n  ".join(REFUSED))
    command = [find_compiler(), "-std=c++17", "-fsyntax-only", f"-I{INCLUDE_DIR}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    first_line = HEAD.count("\n") + 1
    for line, message in enumerate(REFUSED.values(), first_line):
        # An error of a template names the statement in the lines around it.
        parts = done.stderr.split(f"kernel.cpp:{line}:")
        assert any(message in part for part in parts[1:]), f"{line}: {message}"


def test_compile_error(tmp_path: Path):
    """The kernel's name and the compiler's first errors."""
    with pytest.raises(CompileError) as raised:
        build(source(tmp_path, "Exp(i, i, 64);"), ENTRY, [])
    first, second = str(raised.value).splitlines()
    assert first == "kernel 'k' (kernel.cpp) does not compile:"
    assert second.endswith("error: static assertion failed: Exp: float or half")


def test_other_core_ratio(tmp_path: Path):
    """Only one AIC to two AIV."""
    path = source(tmp_path, "")
    path.write_text(path.read_text().replace("__mix__(1, 2)", "__mix__(1, 1)"))
    with pytest.raises(CompileError, match="CPU_MODEL_MIX_1_1"):
        build(path, ENTRY, [])


def test_entry_that_does_not_fit_the_source(tmp_path: Path):
    """The arguments are checked by the compiler; names must be names."""
    with pytest.raises(CompileError, match="too many arguments"):
        build(source(tmp_path, ""), KernelEntry("k", ("x", "y"), ()), [])
    with pytest.raises(ValueError, match="expected an identifier, found 'a b'"):
        build(source(tmp_path, ""), KernelEntry("k", ("a b",), ()), [])
