"""Limit of memory: input that would need more than is available is refused before allocation."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from hpmoe_ir.diagnostics import InputError


def available_memory() -> int:
    """Returns the bytes that this process may still allocate.

    It is the smaller of the machine's available memory and what the process's own limit leaves.
    """
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # no Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = next(int(l.split()[1]) * 1024 for l in lines if l.startswith("MemAvailable:"))
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return available
    return max(0, min(available, limit - pages * resource.getpagesize()))


def check_memory(needed: int, purpose: str) -> None:
    """Raises InputError if `needed` bytes for `purpose` exceed the available memory."""
    available = available_memory()
    if needed > available:
        raise InputError(
            f"{purpose}: expected to fit into the available memory, {available / 2**30:.1f} GiB, "
            f"found {needed / 2**30:.1f} GiB"
        )
