"""Processes that run MindSpore, an optional dependency that this process never imports."""

from __future__ import annotations

import os
from importlib.util import find_spec

MINDSPORE_MISSING = "MindSpore is not installed: pip install 'hpmoe-ir[mindspore]'"
"""Message of every error caused by a missing MindSpore."""


def mindspore_installed() -> bool:
    """Returns whether MindSpore is installed, without importing it."""
    return find_spec("mindspore") is not None


def mindspore_environment() -> dict[str, str]:
    """Returns the environment for a process with MindSpore.

    Removes the variables that make MindSpore join a cluster or dump its graphs, and raises its log
    level to errors.
    """
    unwanted = ("MS_", "RANK_", "DEVICE_", "GLOG_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    return kept | {"GLOG_v": "3"}
