"""Levels of the IR, from the graph down."""

from __future__ import annotations

LEVELS = ("moe", "comm", "tile", "queue")
"""A module is at the lowest level whose dialect it has an operation of; the compute operations of
`moe` stay until the tile level."""

RUN_LEVELS = (*LEVELS, "code")
"""Levels that can be run: the generated code is the last."""
