"""Free cores and dedicated lanes of one core kind, for list scheduling."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.machines.core_kind import CoreKind


@dataclass(frozen=True)
class Lanes:
    """Sequences of tasks of one core kind, each of which has a core reserved.

    Lane l reserves core C - 1 - l of C cores from the time at which its first task is ready until
    its last task starts. Its tasks thus keep their order and never queue behind other tasks. There
    must be fewer lanes than cores.
    """

    kind: CoreKind
    lane: IntArray
    """[N] the lane of each task, -1 for tasks in no lane."""
    count: int

    @property
    def sizes(self) -> list[int]:
        """Number of tasks of each lane."""
        return np.bincount(self.lane + 1, minlength=self.count + 1)[1:].tolist()


class FreeCores:
    """The free cores of one kind, in FIFO order: the core that has been free longest comes first.

    FIFO order spreads tasks evenly, so that a late core delays few of them. The last `apart` cores
    are preferred by tasks of a limit with `apart` and avoided by others; lanes reserve cores from
    the end.
    """

    def __init__(self, count: int, apart: int) -> None:
        self.count = count
        self.first_apart = count - apart
        self.free = (deque(range(self.first_apart)), deque(range(self.first_apart, count)))
        self.of_lanes: dict[int, bool] = {}
        """For each core that a lane has reserved, whether it is free."""

    def __bool__(self) -> bool:
        return any(self.free)

    def take(self, apart: bool) -> int:
        """Takes a free core, preferably one that is set apart, or is not, as `apart` says."""
        preferred = self.free[apart]
        return (preferred or self.free[not apart]).popleft()

    def give(self, core: int) -> None:
        """Marks a core as free again."""
        if core in self.of_lanes:
            self.of_lanes[core] = True
        else:
            self.free[core >= self.first_apart].append(core)

    def begin_lane(self, lane: int) -> None:
        """Reserves the core of a lane."""
        core = self.count - 1 - lane
        if core in self.of_lanes:
            return
        free = self.free[core >= self.first_apart]
        self.of_lanes[core] = core in free
        if core in free:
            free.remove(core)

    def take_of_lane(self, lane: int, last: bool) -> int | None:
        """Takes the lane's core if it is free, else None; `last` ends the reservation."""
        core = self.count - 1 - lane
        if not self.of_lanes.get(core):
            return None
        if last:
            del self.of_lanes[core]
        else:
            self.of_lanes[core] = False
        return core
