"""Schedules by name: the pipeline that each stands for, as `hpmoe-opt -p` takes it.

docs/schedules.md says where each comes from.
"""

from __future__ import annotations

import difflib
import re

from hpmoe_ir.machines.machine import Machine

DEFAULT_SCHEDULE = "depth-first"
DEFAULT_MACHINE = "ascend-a3"

_SCHEDULES = {
    "arrival": "lower-moe{return-cols=1024 policy=arrival rotate-sources=true}",
    "depth-first": "lower-moe",
    "fill": "lower-moe{policy=fill rotate-sources=true}",
    "list": "lower-moe{policy=list rotate-sources=true}",
    "overlap": "lower-moe{return-cols=1792 policy=overlap rotate-sources=true}",
    "published": "lower-moe{source-groups=1 put-rows=128 vector-rows=128 matrix-shares=AIC "
    "matmul-kernels=cann-like credit=false granularity=expert policy=published vector-cores=one},"
    "set-waits{poll-aic=50us poll-aiv=150us}",
    "serial": "lower-moe{source-groups=1 vector-chunks=AIV matrix-shares=AIC "
    "matmul-kernels=cann-like credit=false granularity=expert policy=serial}",
    "waves": "lower-moe{policy=waves}",
}
"""AIC and AIV stand for the machine's numbers of cores, us for ticks of its system counter."""

AUTO_SCHEDULE = "auto"
"""The schedule that is chosen for a layer by timed runs, see `hpmoe_ir.schedule.auto`."""

SCHEDULE_NAMES = tuple(sorted([*_SCHEDULES, AUTO_SCHEDULE]))


class ScheduleError(ValueError):
    """A schedule that does not exist."""


def schedule_passes(name: str, machine: Machine, machine_name: str = "") -> str:
    """The passes of a schedule for a machine, as `hpmoe-opt -p` takes them.

    `machine_name` is the name or file by which passes find the machine; its own name by default.
    Raises ScheduleError for an unknown name, and for `auto`, which needs a layer.
    """
    if name == AUTO_SCHEDULE:
        raise ScheduleError("auto stands for other passes in each layer; it is not known here")
    if name not in _SCHEDULES:
        near = difflib.get_close_matches(name, SCHEDULE_NAMES, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ScheduleError(f"expected one of {', '.join(SCHEDULE_NAMES)}, found '{name}'{hint}")
    ticks = machine.rates.clock_system_counter / 1e6
    passes = re.sub(r"=(\d+)us", lambda time: f"={round(int(time[1]) * ticks)}", _SCHEDULES[name])
    passes = passes.replace("=AIC", f"={machine.aic_cores}")
    passes = passes.replace("=AIV", f"={machine.aiv_cores}")
    return with_machine(passes, machine_name or machine.name)


def with_machine(passes: str, machine: str) -> str:
    """Passes that begin with lower-moe, for a machine by name or file."""
    if machine == DEFAULT_MACHINE:
        return passes
    option = f'machine="{machine}"'
    if passes == "lower-moe":
        return f"lower-moe{{{option}}}"
    return passes.replace("lower-moe{", f"lower-moe{{{option} ", 1)
