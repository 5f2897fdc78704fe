"""Greedy minimization of a failing case, one direction of reduction after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic

from typing_extensions import TypeVar

CaseT = TypeVar("CaseT")


@dataclass(frozen=True)
class Shrunk(Generic[CaseT]):
    """The smallest failing case found.

    runs: number of cases tried. finished: True if all smaller cases were tried, False if the budget
    was exhausted.
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
    """Replaces a case by the first smaller one that `fails`, until there is none.

    Each direction yields cases that are smaller in one respect, the smallest first. Directions are
    applied in turn, each to a fixed point, and all of them repeatedly until none makes progress.
    Cases with the same `key` are tried once; at most `budget` cases are tried. Deterministic if the
    arguments are.
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
    """Returns multiples of `step` to try instead of `value`: at least `least`, ascending."""
    numbers = (least, value // 2, value * 3 // 4, value - step)
    return sorted({n - n % step for n in numbers if least <= n - n % step < value})
