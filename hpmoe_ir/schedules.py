"""Schedules by name: the pipeline that each stands for, as `hpmoe-opt -p` takes it.

docs/schedules.md says where each comes from.
"""

from __future__ import annotations

import difflib

from hpmoe_ir.machine import Machine

DEFAULT_SCHEDULE = "depth-first"
DEFAULT_MACHINE = "ascend-a3"

_SCHEDULES = {
    "arrival": "return-cols=1024 policy=arrival rotate-sources=true",
    "depth-first": "",
    "fill": "policy=fill rotate-sources=true",
    "list": "policy=list rotate-sources=true",
    "published": "source-groups=1 put-rows=128 vector-rows=128 matrix-shares={aic} "
    "granularity=expert policy=published vector-cores=one",
    "serial": "source-groups=1 vector-chunks={aiv} matrix-shares={aic} "
    "granularity=expert policy=serial",
    "waves": "policy=waves",
}
"""Options of lower-moe; {aic} and {aiv} are the numbers of cores."""

SCHEDULE_NAMES = tuple(_SCHEDULES)


class ScheduleError(ValueError):
    """A schedule that does not exist."""


def schedule_passes(name: str, machine: Machine, machine_name: str = "") -> str:
    """The passes of a schedule for a machine, as `hpmoe-opt -p` takes them.

    `machine_name` is the name or file by which passes find the machine; its own name by default.
    Raises ScheduleError for an unknown name.
    """
    if name not in _SCHEDULES:
        near = difflib.get_close_matches(name, _SCHEDULES, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ScheduleError(f"expected one of {', '.join(_SCHEDULES)}, found '{name}'{hint}")
    options = _SCHEDULES[name].format(aic=machine.aic_cores, aiv=machine.aiv_cores).split()
    if (machine_name or machine.name) != DEFAULT_MACHINE:
        options.insert(0, f'machine="{machine_name or machine.name}"')
    return f"lower-moe{{{' '.join(options)}}}" if options else "lower-moe"
