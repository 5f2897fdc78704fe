"""Type-checks device code against the real headers of Ascend C and the symmetric memory, by g++.

    python test/toolkit/type_check.py --asc ASC_DEVKIT --shmem SHMEM SOURCE... [--include DIR]...

Each source is checked twice, as the vector and as the cube compiler would see it, with the
implementations of the API instantiated: wrong names, arguments, types and template arguments are
errors, as are the toolkit's own static assertions. What g++ cannot see is what only the device
compiler knows: its built-in functions are declared to take anything, address spaces are ignored.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SHIM_DIR = Path(__file__).parent / "include"
CORES = ("VEC", "CUBE")

UNDECLARED = re.compile(r"'(\w+)' was not declared|arguments to '(\w+)' that depend")
BUILTIN = re.compile(r"[a-z_]\w*")
ROUNDS = 30
PLAIN = {**os.environ, "LC_ALL": "C"}


def _command(
    source: Path, include: Sequence[Path], asc: Path, shmem: Path, core: str, scratch: Path
) -> list[str]:
    directories = [SHIM_DIR, scratch, *include, asc, asc / "include", asc / "include/basic_api"]
    directories += [asc / "impl", shmem / "include", shmem / "src/device", shmem / "src"]
    flags = ["-std=c++17", "-fsyntax-only", "-w", "-fmax-errors=0", "-fno-diagnostics-show-caret"]
    defines = [f"-D__DAV_C220_{core}__=1", f"-D__DAV_{core}__=1"]
    return ["g++", *flags, *defines, *(f"-I{path}" for path in directories), str(source)]


def _own(name: str, own: Sequence[Path]) -> bool:
    """Whether our code, rather than the toolkit's, uses the word `name`."""
    return any(re.search(rf"\b{name}\b", path.read_text()) for path in own)


def _declaration(builtin: str) -> str:
    # The toolkit returns the value of a copy from functions that return nothing.
    result = "void" if builtin.startswith("copy_") else "int64_t"
    return f"template <class... A> {result} {builtin}(A...);\n"


def type_check(
    source: Path, include: Sequence[Path], asc: Path, shmem: Path, core: str, builtins: set[str]
) -> list[str]:
    """The compiler's errors for `source` as code for `core`, "VEC" or "CUBE".

    `builtins` are the known functions of the device compiler; those found here are added.
    """
    own = [source, *(path for directory in include for path in directory.rglob("*.h"))]
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for _ in range(ROUNDS):
            (scratch / "builtins.h").write_text("".join(map(_declaration, sorted(builtins))))
            command = _command(source, include, asc, shmem, core, scratch)
            done = subprocess.run(command, capture_output=True, text=True, env=PLAIN)
            errors = [line for line in done.stderr.splitlines() if "error: " in line]
            found = {first or second for first, second in UNDECLARED.findall(done.stderr)}
            # A name of ours that nobody declares is an error, not a built-in function.
            new = {n for n in found - builtins if BUILTIN.fullmatch(n) and not _own(n, own)}
            if not new:
                break
            builtins |= new
    return errors


def main() -> int:
    """Prints the errors; status 1 where there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--asc", type=Path, required=True, help="checkout of asc-devkit")
    parser.add_argument("--shmem", type=Path, required=True, help="checkout of shmem")
    parser.add_argument("--include", type=Path, action="append", default=[])
    args = parser.parse_args()
    failed = False
    builtins: dict[str, set[str]] = {core: set() for core in CORES}
    for source in args.sources:
        for core in CORES:
            errors = type_check(source, args.include, args.asc, args.shmem, core, builtins[core])
            print(f"{source.name} as {core}: {len(errors)} errors")
            for line in errors[:20]:
                print(f"  {line}", file=sys.stderr)
            failed |= bool(errors)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
