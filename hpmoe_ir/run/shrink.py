"""Makes a failing case smaller while it still fails: greedy, one direction after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic

from typing_extensions import TypeVar

CaseT = TypeVar("CaseT")


@dataclass(frozen=True)
class Shrunk(Generic[CaseT]):
    """The smallest case found.

    runs: cases that were tried. finished: whether nothing smaller was left to try, else the budget
    ended.
    """

    case: CaseT
    runs: int
    finished: bool


def shrink(
    case: CaseT,
    directions: Sequence[Callable[[CaseT], Iterable[CaseT]]],
    fails: Callable[[CaseT], bool],
    key: Callable[[CaseT], str],
    budget: int,
) -> Shrunk[CaseT]:
    """Takes the first smaller case that `fails`, as long as there is one.

    Each direction yields what is smaller than a case in one respect, the smallest first. They are
    tried in turn, each until it leads nowhere, and all again until none does. Cases with the same
    `key` are tried once. At most `budget` cases are tried. Deterministic if the arguments are.
    """
    tried = {key(case)}
    runs = 0
    progress = True
    while progress:
        progress = False
        for direction in directions:
            found: CaseT | None = case
            while found is not None:
                found = None
                for candidate in direction(case):
                    name = key(candidate)
                    if name in tried:
                        continue
                    if runs == budget:
                        return Shrunk(case, runs, finished=False)
                    tried.add(name)
                    runs += 1
                    if fails(candidate):
                        case = found = candidate
                        progress = True
                        break
    return Shrunk(case, runs, finished=True)


def smaller_numbers(value: int, least: int, step: int = 1) -> list[int]:
    """Multiples of `step` to try instead of `value`, from `least` up to just below."""
    numbers = (least, value // 2, value * 3 // 4, value - step)
    return sorted({n - n % step for n in numbers if least <= n - n % step < value})
