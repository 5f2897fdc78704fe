"""Code targets: printers of planned programs as source code, by name.

A code target prints a `ProgramPlan`; the task table is the same for all targets. To add a target,
subclass `CodeTarget` and call `register_code_target`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.lowering.plan.program import ProgramPlan
from hpmoe_ir.lowering.program import LoweringError
from hpmoe_ir.lowering.task_table import task_table

DEFAULT_TARGET = "ascendc"

TABLE_FILE = "table.bin"


@dataclass(frozen=True)
class KernelCode:
    """The code of a kernel: the source to compile, and the task table that it reads."""

    source: str
    table: bytes


class CodeTarget(ABC):
    """Prints planned programs as code for one kind of device."""

    name: str
    """Name by which the target is registered, also used in error messages of the plan."""
    source_file: str
    """Name of the file that holds the source."""

    @abstractmethod
    def source(self, plan: ProgramPlan) -> str:
        """Returns the source of the kernel, deterministic for a plan."""

    @abstractmethod
    def project(self, plan: ProgramPlan, code: KernelCode) -> dict[str, str | bytes]:
        """Returns the files that build and launch the kernel, as contents by relative path.

        Raises DiagnosticException if the program cannot have them.
        """

    def code(self, plan: ProgramPlan) -> KernelCode:
        """Returns the source and the task table of a program."""
        return KernelCode(self.source(plan), task_table(plan))

    def files(self, plan: ProgramPlan, code: KernelCode) -> dict[str, bytes]:
        """Returns all files of a program by relative path; `read` recovers `code` from them.

        Raises DiagnosticException as `project` does.
        """
        files: dict[str, str | bytes] = {
            self.source_file: code.source,
            TABLE_FILE: code.table,
            **self.project(plan, code),
        }
        return {
            name: content if isinstance(content, bytes) else content.encode()
            for name, content in files.items()
        }

    def read(self, directory: Path) -> KernelCode:
        """Reads the code from a directory of files; raises InputError if it cannot be read."""
        source = _read(directory / self.source_file)
        table = _read(directory / TABLE_FILE)
        try:
            return KernelCode(source.decode(), table)
        except UnicodeDecodeError as e:
            raise InputError("expected UTF-8 text", str(directory / self.source_file)) from e


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise InputError(f"can't read the file: {e.strerror}", str(path)) from e


def _load_ascendc() -> CodeTarget:
    target = import_module("hpmoe_ir.lowering.ascendc.target").ASCENDC
    assert isinstance(target, CodeTarget)
    return target


CODE_TARGETS: dict[str, Callable[[], CodeTarget]] = {DEFAULT_TARGET: _load_ascendc}
"""Targets by name, each loaded on demand."""


def register_code_target(target: CodeTarget) -> None:
    """Registers a target by its name; raises ValueError if the name is taken."""
    if target.name in CODE_TARGETS:
        raise ValueError(f"expected another name, there is a code target '{target.name}' already")
    CODE_TARGETS[target.name] = lambda: target


def code_target(name: str = DEFAULT_TARGET) -> CodeTarget:
    """Returns the target called `name`; raises LoweringError for an unknown name."""
    if name not in CODE_TARGETS:
        known = ", ".join(sorted(CODE_TARGETS))
        raise LoweringError(f"expected a code target, one of {known}; found '{name}'")
    return CODE_TARGETS[name]()
