"""Building executables of the CPU model: the engine once, each kernel source once."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hpmoe_ir.output import scratch_directory

MODEL_DIR = Path(__file__).parent / "cpu"
INCLUDE_DIR = MODEL_DIR / "include"
"""Directory of `kernel_operator.h` and `shmem.h`."""
ENGINE_DIR = MODEL_DIR / "engine"
"""Sources of the engine, a folder for each layer; its includes are relative to this directory."""

# No fused multiply-add: results must not depend on the host CPU.
COMMON_FLAGS = ("-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing", "-g0")
ENGINE_FLAGS = (*COMMON_FLAGS, "-O3", "-Wall", "-Wextra")
KERNEL_FLAGS = (*COMMON_FLAGS, "-O1")
QUICK_FLAGS = (*COMMON_FLAGS, "-O0")
# A sanitizer report ends the run.
SANITIZER_FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


SEAL_BYTES = hashlib.sha256().digest_size
"""Bytes after the end of a cached executable: the SHA-256 of the bytes before them."""

NAME_DIGITS = 24
"""Digits of a digest in the name of a cached file."""

OBJECTS_FILE = "sha256"
"""Name of the file that lists the SHA-256 of each object file of a built engine."""


class CompilerMissing(RuntimeError):
    """Raised if $CXX names no compiler or, without it, there is no g++ on the PATH."""


class CompileError(RuntimeError):
    """Raised if the kernel source does not compile against the headers of the CPU model."""


@dataclass(frozen=True)
class KernelEntry:
    """The signature of a kernel function: its name, pointer arguments, then uint32_t arguments."""

    name: str
    pointers: tuple[str, ...]
    scalars: tuple[str, ...]


def cache_dir() -> Path:
    """Returns the directory of built files: $HPMOE_CACHE, or `hpmoe_ir` in the user's cache."""
    if path := os.environ.get("HPMOE_CACHE"):
        return Path(path)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hpmoe_ir"


def find_compiler() -> tuple[str, ...]:
    """Returns the command of the C++ compiler: the words of $CXX, by default g++.

    $CXX may have arguments, as in `ccache g++`. Raises CompilerMissing.
    """
    chosen = os.environ.get("CXX", "").strip()
    try:
        program, *arguments = shlex.split(chosen) or ["g++"]
    except ValueError as e:
        raise CompilerMissing(f"CXX: expected the command of a compiler, found '{chosen}'") from e
    if (path := shutil.which(program)) is not None:
        return path, *arguments
    if chosen:
        raise CompilerMissing(f"CXX: expected a C++ compiler, there is no program '{program}'")
    raise CompilerMissing("the CPU model needs g++ (C++17), and there is none on the PATH")


@cache
def _compiler_version(compiler: tuple[str, ...]) -> str:
    """Returns what identifies a compiler in digests: its arguments and all that it says of itself.

    Raises CompilerMissing if the program doesn't run.
    """
    try:
        done = subprocess.run([*compiler, "--version"], capture_output=True, text=True)
    except OSError as e:
        raise CompilerMissing(f"CXX: can't run '{compiler[0]}': {e.strerror}") from e
    return "\0".join([*compiler[1:], done.stdout])


def content_digest(parts: Iterable[str | bytes]) -> str:
    """Returns the SHA-256 of parts, each with its length, in hexadecimal."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _contents(directory: Path, patterns: Sequence[str]) -> list[str | bytes]:
    """Returns names, relative to `directory`, and bytes of matching files, in sorted order."""
    files = sorted({path for pattern in patterns for path in directory.rglob(pattern)})
    parts: list[str | bytes] = []
    for path in files:
        parts += [str(path.relative_to(directory)), path.read_bytes()]
    return parts


def _run(command: Sequence[str], out: Path, what: str) -> None:
    """Runs a compiler that writes `out`. Raises CompileError."""
    done = subprocess.run([*command, "-o", str(out)], capture_output=True, text=True)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        shown = errors[:5] or done.stderr.strip().splitlines()
        shown = shown or [f"the compiler ended with status {done.returncode}"]
        raise CompileError("\n  ".join([f"{what} does not compile:", *shown]))
    if not out.is_file():
        raise CompileError(f"{what} does not compile: '{command[0]}' wrote no file")


def build_engine(sanitize: bool = False) -> list[Path]:
    """Returns the object files of the engine; compiles them unless they are in the cache, whole.

    Raises CompilerMissing, CompileError.
    """
    compiler = find_compiler()
    flags = (*ENGINE_FLAGS, "-O1", *SANITIZER_FLAGS) if sanitize else ENGINE_FLAGS
    model = _contents(MODEL_DIR, ("*.h", "*.cpp"))
    key = content_digest([_compiler_version(compiler), *flags, *model])[:NAME_DIGITS]
    target = cache_dir() / f"engine-{key}"
    sources = sorted(ENGINE_DIR.rglob("*.cpp"))
    names = {source: f"{source.parent.name}-{source.stem}.o" for source in sources}
    objects = [target / names[source] for source in sources]
    if _has_objects(target, objects):
        return objects
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(target.parent) as scratch:
        built = scratch / "engine"
        built.mkdir()

        def compile_one(source: Path) -> None:
            includes = [f"-I{INCLUDE_DIR}", f"-I{ENGINE_DIR}"]
            _run(
                [*compiler, *flags, *includes, "-c", str(source)],
                built / names[source],
                f"the CPU model's {source.name}",
            )

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(compile_one, sources))
        (built / OBJECTS_FILE).write_text(_objects_text(built, names.values()))
        _publish(built, target, objects)
    return objects


def _objects_text(directory: Path, names: Iterable[str]) -> str:
    """Returns a line for each object file with its SHA-256."""
    return "".join(
        f"{hashlib.sha256((directory / name).read_bytes()).hexdigest()}  {name}\n"
        for name in sorted(names)
    )


def _has_objects(directory: Path, objects: Sequence[Path]) -> bool:
    """Returns whether a built engine is there and no file of it has changed since."""
    try:
        expected = (directory / OBJECTS_FILE).read_text()
        return expected == _objects_text(directory, (path.name for path in objects))
    except (OSError, UnicodeDecodeError):
        return False


def _publish(built: Path, target: Path, objects: Sequence[Path]) -> None:
    """Moves a finished engine into place, unless another process has done so first.

    A damaged engine there is moved aside: to replace a directory takes two steps.
    """
    if target.is_dir() and not _has_objects(target, objects):
        with suppress(FileNotFoundError):
            target.rename(built.with_name("damaged"))
    try:
        built.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _is_sealed(executable: Path) -> bool:
    """Returns whether an executable of the cache is there and ends in the digest of the rest."""
    try:
        data = executable.read_bytes()
    except OSError:
        return False
    return hashlib.sha256(data[:-SEAL_BYTES]).digest() == data[-SEAL_BYTES:]


def start_up_source(source: Path, entry: KernelEntry) -> str:
    """Returns C++ that includes the kernel and defines its `Entry` for the engine.

    Raises ValueError where a name is not an identifier.
    """
    for name in (entry.name, *entry.pointers, *entry.scalars):
        if re.fullmatch(r"[A-Za-z_]\w*", name) is None:
            raise ValueError(f"kernel entry: expected an identifier, found {name!r}")

    def names(values: tuple[str, ...]) -> str:
        return ", ".join(f'"{value}"' for value in values) or "nullptr"

    arguments = [f"pointers[{i}]" for i in range(len(entry.pointers))]
    arguments += [f"scalars[{i}]" for i in range(len(entry.scalars))]
    return f"""\
#include "{source.name}"

#include "cpu_model/entry.h"

namespace cpu_model {{
static const char* const kPointers[] = {{{names(entry.pointers)}}};
static const char* const kScalars[] = {{{names(entry.scalars)}}};
static void Call(uint8_t* const* pointers, const uint32_t* scalars) {{
  (void)pointers;
  (void)scalars;
  ::{entry.name}({", ".join(arguments)});
}}
const Entry kEntry = {{"{entry.name}", kPointers, {len(entry.pointers)}, kScalars,
                      {len(entry.scalars)}, Call}};
}}  // namespace cpu_model
"""


def build(
    source: Path,
    entry: KernelEntry,
    include: Sequence[Path],
    build_dir: Path | None = None,
    *,
    quick: bool = False,
    sanitize: bool = False,
) -> Path:
    """Builds the executable that runs the kernel `entry` of `source` in the CPU model.

    include: directories of the headers that the source needs, besides Ascend C and the symmetric
    memory. build_dir: directory of the result, by default the cache; the file's name has a digest
    of all contents that went into it, and of no paths. quick: compiles the kernel without
    optimisation, in less than half the time, for kernels that run once; results are the same.
    sanitize: compiles kernel and engine with the address and the undefined-behaviour sanitizer,
    whose report ends a run as a `crash`.
    Raises CompilerMissing, CompileError with the compiler's first messages, ValueError where a name
    of the entry is not an identifier.
    """
    compiler = find_compiler()
    source = source.resolve()
    start_up = start_up_source(source, entry)
    kernel_flags = QUICK_FLAGS if quick else KERNEL_FLAGS
    if sanitize:
        kernel_flags = (*kernel_flags, *SANITIZER_FLAGS)
    parts: list[str | bytes] = [_compiler_version(compiler), *kernel_flags, *ENGINE_FLAGS]
    parts += [start_up, source.read_bytes(), *_contents(MODEL_DIR, ("*.h", "*.cpp"))]
    for directory in include:
        parts += ["include", *_contents(directory, ("*.h", "*.hpp", "*.inc"))]
    target = (build_dir or cache_dir()) / f"{entry.name}-{content_digest(parts)[:NAME_DIGITS]}"
    if _is_sealed(target):
        return target
    objects = build_engine(sanitize)
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(target.parent) as scratch:
        main = scratch / "start_up.cpp"
        main.write_text(start_up)
        out = scratch / "kernel"
        directories = [INCLUDE_DIR, source.parent, *(path.resolve() for path in include)]
        # Locations in reports name files relative to their include directory.
        flags = [f"-I{path}" for path in directories]
        flags += [f"-fmacro-prefix-map={path}/=" for path in directories]
        _run(
            [*compiler, *kernel_flags, *flags, str(main), *map(str, objects)],
            out,
            f"kernel '{entry.name}' ({source.name})",
        )
        # The loader ignores bytes after the end of an executable.
        digest = hashlib.sha256(out.read_bytes()).digest()
        with out.open("ab") as file:
            file.write(digest)
        out.replace(target)
    return target
