"""Builds of the CPU model: the cache, errors of the kernel source, a missing compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
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
    build_engine,
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
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompilerMissing) as raised:
        build(source(tmp_path, ""), ENTRY, [])
    assert str(raised.value) == ("the CPU model needs g++ (C++17), and there is none on the PATH")


def runs(executable: Path) -> bool:
    """Whether the model runs the kernel."""
    machine = load_machine("ascend-a3")
    execute(executable, ENTRY, [[RankLaunch({"x": np.zeros(1)})]], aics=1, machine=machine)
    return True


def shorten(data: bytes) -> bytes:
    """As after a full disk."""
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    """As on a bad disk."""
    return data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]


def empty(data: bytes) -> bytes:
    """As after a build that was killed."""
    return data[:0]


@pytest.mark.parametrize("damage", [shorten, flip, empty])
def test_a_damaged_executable_is_built_again(damage: Callable[[bytes], bytes], tmp_path: Path):
    path = tmp_path / "kernel.cpp"
    path.write_text('#include "kernel_operator.h"\nextern "C" void k(GM_ADDR) {}\n')
    executable = build(path, ENTRY, [], tmp_path / "out", quick=True)
    whole = executable.read_bytes()
    # The file is replaced, so that a process which runs the old one isn't disturbed.
    executable.unlink()
    executable.write_bytes(damage(whole))
    assert build(path, ENTRY, [], tmp_path / "out", quick=True) == executable
    assert executable.read_bytes() == whole
    assert runs(executable)


@pytest.fixture
def small_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and an engine that builds at once."""
    sources = tmp_path / "engine" / "core"
    sources.mkdir(parents=True)
    for name in ("one", "two"):
        (sources / f"{name}.cpp").write_text(f"int {name}() {{ return 1; }}\n")
    monkeypatch.setattr("hpmoe_ir.runtime.cpu_build.ENGINE_DIR", tmp_path / "engine")
    monkeypatch.setattr("hpmoe_ir.runtime.cpu_build.MODEL_DIR", tmp_path / "engine")
    monkeypatch.setenv("HPMOE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_damaged_engine_is_built_again(small_engine: Path):
    objects = build_engine()
    whole = [path.read_bytes() for path in objects]
    stamps = [path.stat().st_mtime_ns for path in objects]
    assert build_engine() == objects
    assert [path.stat().st_mtime_ns for path in objects] == stamps
    objects[0].write_bytes(whole[0][:100])
    assert build_engine() == objects
    assert [path.read_bytes() for path in objects] == whole
    objects[1].unlink()
    assert build_engine() == objects
    assert [path.read_bytes() for path in objects] == whole


def test_files_of_a_killed_build_are_removed(small_engine: Path):
    """Those of a running one are not."""
    hold = (
        "import sys, time; from pathlib import Path; from hpmoe_ir.output import scratch_directory"
        "\nwith scratch_directory(Path(sys.argv[1])) as made:"
        "\n  (made / 'half.o').touch(); print(made, flush=True); time.sleep(600)"
    )
    small_engine.mkdir()
    command = [sys.executable, "-c", hold, str(small_engine)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running,
    ):
        assert killed.stdout is not None
        assert running.stdout is not None
        left, kept = (Path(p.stdout.readline().strip()) for p in (killed, running) if p.stdout)
        killed.kill()
        killed.wait()
        assert (left / "half.o").exists()
        build_engine()
        assert not left.exists()
        assert (kept / "half.o").exists()
        running.kill()
    names = {path.name for path in small_engine.iterdir()} - {kept.name, "scratch-lock"}
    assert [name.split("-")[0] for name in names] == ["engine"]


def test_processes_share_a_cache(small_engine: Path):
    """Each gets a whole engine, whoever builds it."""
    build = (
        "import sys; from pathlib import Path; import hpmoe_ir.runtime.cpu_build as b"
        "\nb.ENGINE_DIR = b.MODEL_DIR = Path(sys.argv[1])"
        "\nprint(*(hash(p.read_bytes()) for p in b.build_engine()))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-c", build, str(small_engine.parent / "engine")]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(4)
    ]
    found = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert len(set(found)) == 1
    assert len(found[0].split()) == 2
    assert len(list(small_engine.iterdir())) == 2


def test_the_compiler_of_the_environment(
    small_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its words are the command; what another compiler has built is not taken for its own."""
    plain = build_engine()
    log, wrapper = tmp_path / "log", tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {log}\nshift\nexec g++ "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", f"{wrapper} --first")
    assert find_compiler() == (str(wrapper), "--first")
    assert build_engine() != plain
    assert log.read_text().count("-c ") == 2
    assert log.read_text().startswith("--first ")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "no-such-compiler",
            "CXX: expected a C++ compiler, there is no program 'no-such-compiler'",
        ),
        ("'g++", "CXX: expected the command of a compiler, found ''g++'"),
        ("{tmp}/text", "CXX: can't run '{tmp}/text': Exec format error"),
    ],
)
def test_no_compiler_in_the_environment(
    value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "text").write_bytes(b"\x7fELF")
    (tmp_path / "text").chmod(0o755)
    monkeypatch.setenv("CXX", value.format(tmp=tmp_path))
    with pytest.raises(CompilerMissing) as raised:
        build(source(tmp_path, ""), ENTRY, [], tmp_path / "out")
    assert str(raised.value) == message.format(tmp=tmp_path)


def test_a_program_that_compiles_nothing(
    small_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CXX", "true")
    with pytest.raises(CompileError, match=r"'/.*true' wrote no file"):
        build_engine()


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
    command = [*find_compiler(), "-std=c++17", "-fsyntax-only", f"-I{INCLUDE_DIR}", str(path)]
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
