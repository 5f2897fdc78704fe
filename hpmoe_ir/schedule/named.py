"""Named schedules and the passes of each on a machine.

docs/schedules.md gives their sources.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint

from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import InputError, one_line
from hpmoe_ir.extensions import SCHEDULES, described, extensions, load
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.options.machine import MachineOption
from hpmoe_ir.passes.analysis.pass_kinds import expanded
from hpmoe_ir.passes.assign_queues import QueueOptions
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.plan_memory import MemoryOptions
from hpmoe_ir.passes.policies.arrival import Arrival
from hpmoe_ir.passes.policies.fill import Fill
from hpmoe_ir.passes.policies.list_order import ListOrder
from hpmoe_ir.passes.policies.overlap import Overlap
from hpmoe_ir.passes.policies.published import Published
from hpmoe_ir.passes.policies.serial import Serial
from hpmoe_ir.passes.policies.tiles import Tiles
from hpmoe_ir.passes.policies.waves import Waves

DEFAULT_SCHEDULE = "depth-first"

AUTO_SCHEDULE = "auto"
"""Name of the schedule that timed runs select for each layer, see `hpmoe_ir.schedule.auto`."""


class ScheduleError(ValueError):
    """An unknown schedule name."""


@dataclass(frozen=True)
class Schedule:
    """A pipeline from the `moe` level to the queue level, for any machine."""

    build: Callable[[Machine], Sequence[ModulePass]]
    """Returns the passes for a machine; their option `machine` is set by `passes`."""

    def passes(self, machine: Machine, over_memory: bool = False) -> tuple[ModulePass, ...]:
        """Returns the passes that compile for `machine`.

        over_memory: whether a program may need more device memory than the machine has.
        """
        passes = tuple(
            replace(found, machine=machine.reference) if isinstance(found, MachineOption) else found
            for found in self.build(machine)
        )
        if not over_memory:
            return passes
        return tuple(
            replace(found, over_memory=True) if isinstance(found, MemoryOptions) else found
            for found in passes
        )


def is_serial(passes: Sequence[ModulePass]) -> bool:
    """Returns whether a pipeline produces separately launched operators, timed in stages."""
    return any(p.policy.serial for p in expanded(passes) if isinstance(p, QueueOptions))


def _same(*passes: ModulePass) -> Schedule:
    """Returns a schedule with the same passes for all machines."""
    return Schedule(lambda machine: passes)


def _published(machine: Machine) -> Sequence[ModulePass]:
    lowering = LowerMoePass(
        source_groups=1,
        put_rows=128,
        vector_rows=128,
        matrix_shares=machine.aic_cores,
        matmul_kernels="cann-like",
        granularity="expert",
        credit=False,
        policy=Published(),
    )
    return (lowering,)


def _stock(machine: Machine) -> Sequence[ModulePass]:
    (serial,) = _serial(machine)
    return (replace(serial, reorder_rows=True, policy=Serial(counts_to_host=True)),)


def _serial(machine: Machine) -> Sequence[LowerMoePass]:
    lowering = LowerMoePass(
        source_groups=1,
        vector_chunks=machine.aiv_cores,
        matrix_shares=machine.aic_cores,
        matmul_kernels="cann-like",
        granularity="expert",
        credit=False,
        policy=Serial(),
    )
    return (lowering,)


NAMED: dict[str, Schedule] = {
    "arrival": _same(LowerMoePass(return_cols=1024, policy=Arrival(), rotate_sources=True)),
    "depth-first": _same(LowerMoePass()),
    "fill": _same(LowerMoePass(policy=Fill(), rotate_sources=True)),
    "list": _same(LowerMoePass(policy=ListOrder(), rotate_sources=True)),
    "overlap": _same(LowerMoePass(return_cols=1792, policy=Overlap(), rotate_sources=True)),
    "published": Schedule(_published),
    "serial": Schedule(_serial),
    "stock": Schedule(_stock),
    "tiles": _same(LowerMoePass(row_cut="tiles", return_cols=1792, policy=Tiles())),
    "waves": _same(LowerMoePass(policy=Waves())),
}
"""The schedules of this package; others are entry points in the group `hpmoe_ir.schedules`."""


SCHEDULE_NAMES = tuple(sorted([*NAMED, AUTO_SCHEDULE]))


def schedule_names() -> list[str]:
    """Returns the names of all schedules, including `auto` and those of other packages.

    Raises InputError if a schedule of another package has a reserved name.
    """
    others = extensions(SCHEDULES)
    for name, point in others.items():
        if name in SCHEDULE_NAMES:
            raise InputError(f"{described(point)}: expected another name, hpmoe_ir has '{name}'")
    return sorted([*SCHEDULE_NAMES, *others])


def find_schedule(name: str) -> Schedule:
    """Returns the schedule `name`.

    Raises ScheduleError for an unknown name and for `auto`, which needs a layer; InputError if the
    schedule of another package can't be loaded.
    """
    if name == AUTO_SCHEDULE:
        raise ScheduleError("auto stands for other passes in each layer; it is not known here")
    if name in NAMED:
        return NAMED[name]
    known, others = schedule_names(), extensions(SCHEDULES)
    if name not in others:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ScheduleError(f"expected one of {', '.join(known)}, found '{name}'{hint}")
    found = load(others[name])
    if not isinstance(found, Schedule):
        raise InputError(
            f"{described(others[name])}: expected a Schedule, found {type(found).__name__}"
        )
    return replace(found, build=partial(_built, others[name], found.build))


def _built(
    point: EntryPoint, build: Callable[[Machine], Sequence[ModulePass]], machine: Machine
) -> Sequence[ModulePass]:
    """Returns the passes of another package's schedule. Raises InputError if `build` fails."""
    try:
        return build(machine)
    except Exception as e:  # code of another package may raise any exception
        raise InputError(f"{described(point)}: {type(e).__name__}: {one_line(str(e))}") from e
