"""Operators on the rows of experts, of which hpmoe_ir knows nothing."""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.universe import Universe


def _dialect() -> Dialect:
    from outside_operators.dialect import OUTSIDE

    return OUTSIDE


UNIVERSE = Universe(all_dialects={"outside": _dialect}, all_passes={}, all_targets={})
"""The `outside` dialect."""
