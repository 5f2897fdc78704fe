"""Targets whose output is bytes rather than text."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.target import Target


@dataclass(frozen=True)
class BinaryTarget(Target):
    """A target that `hpmoe-opt` writes byte by byte; plain `xdsl-opt` can write text only."""

    @abstractmethod
    def encode(self, ctx: Context, module: ModuleOp) -> bytes:
        """Returns the bytes of the output."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        raise DiagnosticException(
            f"target '{self.name}' writes bytes, which only hpmoe-opt can do, not this tool"
        )
