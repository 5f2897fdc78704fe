"""An operator for hpmoe_ir in a separate package: a clamp before SwiGLU.

It takes one operation with the name of its kernel (`dialect`), what it does in NumPy for the graph
levels (`interpreter`), and one Ascend C function (`include/clamp_extension/clamp.h`, described in
`kernels`). Dependences, queues and events follow by themselves.
"""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.universe import Universe


def _dialect() -> Dialect:
    from clamp_extension.dialect import Clamp

    return Clamp


UNIVERSE = Universe(all_dialects={"clamp": _dialect}, all_passes={}, all_targets={})
