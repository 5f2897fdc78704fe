"""Reference results of a run, computed by MindSpore, which is started once for all runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from typing_extensions import TypeVar

from hpmoe_ir.diagnostics import InputError, one_line
from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.frontends.mindspore_process import MINDSPORE_MISSING, mindspore_installed
from hpmoe_ir.layer.values import LayerValues
from hpmoe_ir.run.oracle import Oracle, OracleError

T = TypeVar("T")


class Reference:
    """Reference results of a plain expert layer; a context manager."""

    def __init__(self) -> None:
        self._oracle = Oracle()

    def check_installed(self) -> None:
        """Raises InputError where MindSpore is not installed; does not start it."""
        if not mindspore_installed():
            raise InputError(f"--check: {MINDSPORE_MISSING}")

    @property
    def name(self) -> str:
        """Name and version of MindSpore; the version is known after the first result."""
        return f"MindSpore {self._oracle.version}".rstrip()

    def outputs(self, launches: Sequence[LayerValues]) -> list[list[Float64Array]]:
        """Returns the output of each launch and rank. Raises InputError if MindSpore fails."""
        return self._each(self._oracle.layer, launches)

    def gradients(self, launches: Sequence[LayerValues]) -> list[list[dict[str, Float64Array]]]:
        """Returns the gradients of each launch and rank. Raises InputError if MindSpore fails."""
        return self._each(self._oracle.gradients, launches)

    def _each(
        self, compute: Callable[[LayerValues], T], launches: Sequence[LayerValues]
    ) -> list[T]:
        try:
            return [compute(values) for values in launches]
        except OracleError as e:
            raise InputError(one_line(str(e))) from e

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._oracle.close()
