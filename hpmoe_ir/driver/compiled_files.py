"""The directory of a compiled layer: its files, its manifest, and whether both still agree."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from hpmoe_ir.diagnostics import InputError, RefusedError, location_of, one_line
from hpmoe_ir.driver.compiler import Compiled, CompiledKernel, module_text, program_names
from hpmoe_ir.driver.source import read_module
from hpmoe_ir.lowering.host.mindspore_op import mindspore_op_source
from hpmoe_ir.lowering.host.plan import host_plan
from hpmoe_ir.lowering.plan.program import plan_program
from hpmoe_ir.lowering.program import lowered_program
from hpmoe_ir.lowering.targets import TABLE_FILE, CodeTarget, code_target
from hpmoe_ir.output import write_files
from hpmoe_ir.passes.analysis.level import LEVELS

GRAPH_FILE = "graph.mlir"
MANIFEST_FILE = "manifest.json"
LEVEL_FILES = tuple(f"{level}.mlir" for level in LEVELS)


@dataclass(frozen=True)
class Manifest:
    """What `manifest.json` says of a compiled layer."""

    level: str
    """Level of the input."""
    pipeline: str
    """The passes that were run, as `hpmoe-opt -p` takes them."""
    files: Mapping[str, str]
    """SHA-256 of each file, by its path relative to the directory, in POSIX form."""


def manifest(compiled: Compiled, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Returns the manifest as JSON; deterministic.

    It has the versions, the level and SHA-256 of the input, the pipeline, sizes of each kernel, the
    SHA-256 of each file, and that of these fields.
    """
    programs = {name: kernel.program for name, kernel in compiled.kernels.items()}
    source = module_text(compiled.graph or compiled.modules[compiled.level])
    described: dict[str, Any] = {
        "hpmoe_ir": version("hpmoe-ir"),
        "xdsl": version("xdsl"),
        "input": {"level": compiled.level, "sha256": _sha256(source.encode())},
        "pipeline": compiled.pipeline,
        "kernels": {
            name: {
                "machine": program.machine.name,
                "ranks": program.ranks,
                "tasks": {n: f.task_count for n, f in program.families.items()},
                "events": program.event_count,
                "workspace_bytes": program.workspace_bytes,
                "window_bytes": program.window_bytes,
                "table_bytes": len(compiled.kernels[name].table),
                "tile_kernels": sorted({f.kernel.data for f in program.families.values()}),
            }
            for name, program in programs.items()
        },
        "files": {n: _sha256(data) for n, data in sorted(files.items())},
    }
    return described | {"manifest": _seal(described)}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _seal(fields: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of the fields of a manifest."""
    return _sha256(json.dumps(fields, sort_keys=True).encode())


def read_manifest(directory: Path) -> Manifest:
    """Reads the manifest of a directory. Raises InputError if there is none or it was edited."""
    path = directory / MANIFEST_FILE
    try:
        fields = json.loads(path.read_text())
        seal = fields.pop("manifest")
        level, pipeline = str(fields["input"]["level"]), str(fields["pipeline"])
        files = {str(name): str(digest) for name, digest in fields["files"].items()}
    except OSError as e:
        raise InputError(
            f"expected a directory written by hpmoe compile: {e.strerror}", str(path)
        ) from e
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise InputError(
            f"expected the manifest of a compiled layer: {one_line(str(e))}", str(path)
        ) from e
    if seal != _seal(fields):
        raise InputError(
            f"the manifest was edited; {_rebuild(directory, f'{LEVELS[-1]}.mlir')}", str(path)
        )
    for name in files:
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:
            raise InputError(f"expected files of the directory, found '{name}'", str(path))
    if level not in LEVELS:
        known = ", ".join(LEVELS)
        raise InputError(f"expected a level, one of {known}; found '{level}'", str(path))
    return Manifest(level, pipeline, files)


def _rebuild(directory: Path, source: str) -> str:
    """Returns how to compile a directory again from one of its files, for messages."""
    words = ["hpmoe", "compile", str(directory / source), "-o", str(directory)]
    return f"compile again, as by '{shlex.join(words)}'"


def write_compiled(compiled: Compiled, directory: Path, bind: bool = False) -> None:
    """Writes all files of a compiled layer, and removes those of an earlier one.

    `bind` adds operators for MindSpore, see `hpmoe_ir.lowering.host.mindspore_op`. Removed are the
    files that the manifest in the directory lists and that are not written again. Raises
    InputError, and writes nothing, if one of them was edited or a file can't be written.
    """
    files: dict[str, bytes] = {
        f"{level}.mlir": module_text(module).encode() for level, module in compiled.modules.items()
    }
    if compiled.graph is not None:
        files[GRAPH_FILE] = module_text(compiled.graph).encode()
    for name, kernel in compiled.kernels.items():
        try:
            own = kernel.target.files(kernel.plan, kernel.code)
        except DiagnosticException as e:
            op = e.op if isinstance(e, RefusedError) else kernel.program.op
            raise InputError(one_line(str(e)), location_of(op)) from e
        files |= {f"{name}/{path}": data for path, data in own.items()}
        if bind:
            text = mindspore_op_source(host_plan(kernel.plan, kernel.table))
            files[f"bind/mindspore/{name}.cpp"] = text.encode()
    content = json.dumps(manifest(compiled, files), indent=2) + "\n"
    files[MANIFEST_FILE] = content.encode()
    stale = _stale_files(directory, files)
    write_files(directory, files)
    for path in stale:
        _remove(path, directory)


def _stale_files(directory: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Returns the files of the earlier layer in a directory that are not among `files`."""
    if not (directory / MANIFEST_FILE).is_file():
        return []
    try:
        earlier = read_manifest(directory).files
    except InputError:
        # Nothing is known to be of an earlier layer; what is there is found when it is read.
        return []
    stale: list[Path] = []
    for name, digest in earlier.items():
        path = directory / name
        if name in files or not _is_inside(path, directory):
            continue
        if _sha256(path.read_bytes()) != digest:
            raise InputError(
                "the file was edited since it was compiled, and the new layer doesn't have it; "
                "move it away or write to another directory",
                str(path),
            )
        stale.append(path)
    return stale


def _is_inside(path: Path, directory: Path) -> bool:
    """Whether a path is a file of the directory, not reached through links."""
    return path.is_file() and path.resolve() == directory.resolve() / path.relative_to(directory)


def _remove(path: Path, directory: Path) -> None:
    """Removes a file and the folders that it leaves empty, up to the directory."""
    with suppress(OSError):
        path.unlink()
        for folder in path.parents:
            if folder == directory:
                break
            folder.rmdir()


def read_compiled(
    ctx: Context, directory: Path, edited_code: bool = False
) -> tuple[Compiled, list[str]]:
    """Reads a compiled layer from its directory, whose files must be those of its manifest.

    With `edited_code`, kernel sources and task tables may differ; the names of those that do are
    also returned. Raises InputError, with the file and how to compile again, for a file that is
    missing, differs, or is not in the manifest but one of a compiled layer; and for code that this
    version of the compiler doesn't generate from the queue level.
    """
    described = read_manifest(directory)
    target = code_target()
    code_names = (target.source_file, TABLE_FILE)
    edited: list[str] = []
    for name, digest in described.files.items():
        path = directory / name
        if not path.is_file():
            rest = (n for n in (GRAPH_FILE, *LEVEL_FILES) if (directory / n).is_file())
            again = _rebuild(directory, next(rest, GRAPH_FILE))
            raise InputError(f"the file is missing; {again}", str(path))
        try:
            same = _sha256(path.read_bytes()) == digest
        except OSError as e:
            raise InputError(f"can't read the file: {e.strerror}", str(path)) from e
        if same:
            continue
        if not (edited_code and name.count("/") == 1 and name.endswith(code_names)):
            raise InputError(_differs(directory, name, code_names), str(path))
        edited.append(name)
    for name in _unlisted(directory, code_names):
        if name not in described.files:
            raise InputError(
                "the manifest doesn't list the file, so it is not what was compiled; move it away "
                f"or {_rebuild(directory, _source_of(name))}",
                str(directory / name),
            )
    modules = {
        level: read_module(ctx, directory / f"{level}.mlir")
        for level in LEVELS[LEVELS.index(described.level) :]
    }
    graph = read_module(ctx, directory / GRAPH_FILE) if GRAPH_FILE in described.files else None
    kernels = {
        name: _read_kernel(directory, described, modules["queue"], name, target, edited)
        for name in program_names(modules["queue"])
    }
    return Compiled(graph, modules, kernels, described.pipeline), edited


def _source_of(name: str) -> str:
    """Returns the file from which to compile again after a change of `name`."""
    return name if name in (GRAPH_FILE, *LEVEL_FILES) else f"{LEVELS[-1]}.mlir"


def _differs(directory: Path, name: str, code_names: tuple[str, ...]) -> str:
    message = "the file differs from the one that was compiled; "
    if name in (GRAPH_FILE, *LEVEL_FILES):
        return f"{message}to compile the change: {_rebuild(directory, name)}"
    if name.count("/") == 1 and name.endswith(code_names):
        message += "--edited-code runs it as it is, or "
    return message + _rebuild(directory, f"{LEVELS[-1]}.mlir")


def _unlisted(directory: Path, code_names: tuple[str, ...]) -> Iterator[str]:
    """Yields the files of a directory that look like those of a compiled layer."""
    for name in (GRAPH_FILE, *LEVEL_FILES):
        if os.path.lexists(directory / name):
            yield name
    for name in code_names:
        for path in sorted(directory.glob(f"*/{name}")):
            yield path.relative_to(directory).as_posix()


def _read_kernel(
    directory: Path,
    described: Manifest,
    module: ModuleOp,
    name: str,
    target: CodeTarget,
    edited: list[str],
) -> CompiledKernel:
    """Generates the code of a program again, and checks that the directory has the same files."""
    try:
        plan = plan_program(lowered_program(module, target.name, name))
        code = target.code(plan)
        generated = target.files(plan, code)
    except DiagnosticException as e:
        raise InputError(one_line(str(e)), str(directory / "queue.mlir")) from e
    found = {n.removeprefix(f"{name}/") for n in described.files if n.startswith(f"{name}/")}
    differing = [
        n for n, data in generated.items() if described.files.get(f"{name}/{n}") != _sha256(data)
    ]
    differing += sorted(found - set(generated))
    if differing:
        raise InputError(
            "this version of the compiler generates other code from queue.mlir; "
            f"{_rebuild(directory, 'queue.mlir')}",
            str(directory / name / differing[0]),
        )
    if any(n.startswith(f"{name}/") for n in edited):
        code = target.read(directory / name)
    return CompiledKernel(plan, target, code)


__all__ = [
    "GRAPH_FILE",
    "MANIFEST_FILE",
    "Manifest",
    "manifest",
    "read_compiled",
    "read_manifest",
    "write_compiled",
]
