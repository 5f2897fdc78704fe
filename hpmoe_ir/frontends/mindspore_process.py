"""Processes with MindSpore, which is an optional dependency and is never imported in this one."""

from __future__ import annotations

import os
from importlib.util import find_spec

MINDSPORE_MISSING = "MindSpore is not installed: pip install 'hpmoe-ir[mindspore]'"
"""Message of whatever needs MindSpore and does not find it."""


def mindspore_installed() -> bool:
    """Returns whether this Python finds MindSpore; does not import it."""
    return find_spec("mindspore") is not None


def mindspore_environment() -> dict[str, str]:
    """Returns the environment for a process with MindSpore.

    Leaves out the variables that make MindSpore believe in a cluster or dump its graphs, and keeps
    its warnings off standard error.
    """
    unwanted = ("MS_", "RANK_", "DEVICE_", "GLOG_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    return kept | {"GLOG_v": "3"}
