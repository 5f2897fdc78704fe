"""A package with faults: a pass that changes thresholds, a kernel that forgets rows."""

from __future__ import annotations

from xdsl.passes import ModulePass
from xdsl.universe import Universe


def _pass() -> type[ModulePass]:
    from planted_faults.change_threshold import ChangeThresholdPass

    return ChangeThresholdPass


UNIVERSE = Universe(all_dialects={}, all_passes={"change-threshold": _pass}, all_targets={})
