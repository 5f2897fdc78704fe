"""Base classes of the policies: orders of all tasks, chosen by name, with options.

Each policy is a module of this package, or an entry point of another package; `registry` maps names
to policies.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpmoe_ir.options.options import Options, Range
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput


@dataclass(frozen=True)
class Policy(Options):
    """Base class of policies, which compute an order of tasks: `policy=overlap{behind=3}`.

    A subclass is a frozen dataclass; its fields are its options.
    """

    serial: ClassVar[bool] = False
    """Whether families stand for operators that a host launches one after the other; a timed run
    then adds the launch overhead between them."""

    @abstractmethod
    def __call__(self, work: SchedulingInput) -> Order:
        """Returns the order of all tasks, which must be safe for every routing (see `order`)."""

    @classmethod
    def search_space(cls) -> Mapping[str, Sequence[object]]:
        """Returns the values that `hpmoe tune` tries for each option; empty: not searched."""
        return {}


@dataclass(frozen=True)
class LookAheadPolicy(Policy):
    """A policy that issues the dispatch puts of an expert some experts before its matmul."""

    ahead: Annotated[int, Range(0, unit="experts")] = 2
    """Look-ahead of dispatch puts, in experts."""

    @classmethod
    def search_space(cls) -> Mapping[str, Sequence[object]]:
        return {"ahead": (0, 1, 2, 3, 4, 6)}
