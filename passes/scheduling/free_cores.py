"""The cores of a kind that list scheduling gives tasks to, and which of them are free."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.machines.core_kind import CoreKind


@dataclass(frozen=True)
class Lanes:
    """Tasks of one kind of core that follow each other in lanes, each on a core of its own.

    A lane has its core, of those with the highest numbers, from the time at which its first task
    can be done until its last one is taken. So its tasks stay in order and wait behind no others,
    however long they take. There must be fewer lanes than cores.
    """

    kind: CoreKind
    lane: IntArray
    """The lane of each task, -1 where it is in none."""
    count: int

    @property
    def sizes(self) -> list[int]:
        """Tasks of each lane."""
        return np.bincount(self.lane + 1, minlength=self.count + 1)[1:].tolist()


class FreeCores:
    """The free cores of a kind; of those, the one that is free the longest is taken first.

    Cores take turns so that one that is later than expected holds up little. The last `apart` are
    set apart for tasks that ask for them; those of lanes are the last of all.
    """

    def __init__(self, count: int, apart: int) -> None:
        self.count = count
        self.first_apart = count - apart
        self.free = (deque(range(self.first_apart)), deque(range(self.first_apart, count)))
        self.of_lanes: dict[int, bool] = {}
        """Cores that lanes have at the time, and whether they are free."""

    def __bool__(self) -> bool:
        return any(self.free)

    def take(self, apart: bool) -> int:
        """A free core, those that are set apart first or last."""
        preferred = self.free[apart]
        return (preferred or self.free[not apart]).popleft()

    def give(self, core: int) -> None:
        """The core is free again."""
        if core in self.of_lanes:
            self.of_lanes[core] = True
        else:
            self.free[core >= self.first_apart].append(core)

    def begin_lane(self, lane: int) -> None:
        """The lane has its core from now on."""
        core = self.count - 1 - lane
        if core in self.of_lanes:
            return
        free = self.free[core >= self.first_apart]
        self.of_lanes[core] = core in free
        if core in free:
            free.remove(core)

    def take_of_lane(self, lane: int, last: bool) -> int | None:
        """The lane's core if it is free, for the last of its tasks or another."""
        core = self.count - 1 - lane
        if not self.of_lanes.get(core):
            return None
        if last:
            del self.of_lanes[core]
        else:
            self.of_lanes[core] = False
        return core
