"""What hpmoe_ir adds to xDSL: dialects, passes and targets by name, each imported on demand."""

from collections.abc import Callable

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.target import Target


def _comm() -> Dialect:
    from hpmoe_ir.dialects.comm import Comm

    return Comm


def _moe() -> Dialect:
    from hpmoe_ir.dialects.moe import Moe

    return Moe


DIALECTS: dict[str, Callable[[], Dialect]] = {
    "comm": _comm,
    "moe": _moe,
}

PASSES: dict[str, Callable[[], type[ModulePass]]] = {}

TARGETS: dict[str, Callable[[], type[Target]]] = {}

HPMOE_UNIVERSE = Universe(all_dialects=DIALECTS, all_passes=PASSES, all_targets=TARGETS)
