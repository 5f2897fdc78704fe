"""What the policies have in common: an order of all tasks, chosen by name, with options.

Each policy is a module of this package, or an entry point of another; `registry` has them by name.
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
    """An order of tasks that is chosen by name: `policy=overlap{behind=3}`.

    A subclass is a frozen dataclass; its fields are its options, which it checks itself.
    """

    serial: ClassVar[bool] = False
    """Whether families are operators that a host launches one after the other: a timed run then has
    the launches between them."""

    @abstractmethod
    def __call__(self, work: SchedulingInput) -> Order:
        """Returns the order of all tasks, safe for every routing."""

    @classmethod
    def search_space(cls) -> Mapping[str, Sequence[object]]:
        """Returns the values that a search tries for each option; none: it is not searched."""
        return {}


@dataclass(frozen=True)
class LookAheadPolicy(Policy):
    """A policy that dispatches the rows of experts before their turn comes."""

    ahead: Annotated[int, Range(0, unit="experts")] = 2
    """Look-ahead of dispatch puts, in experts."""

    @classmethod
    def search_space(cls) -> Mapping[str, Sequence[object]]:
        return {"ahead": (0, 1, 2, 3, 4, 6)}
