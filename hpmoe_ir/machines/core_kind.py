"""The kinds of cores of an Ascend chip."""

from __future__ import annotations

from enum import StrEnum


class CoreKind(StrEnum):
    """Kind of a core; the value is its name in the IR, in the task table and in messages."""

    AIC = "aic"
    """Matrix core (cube)."""
    AIV = "aiv"
    """Vector core."""
