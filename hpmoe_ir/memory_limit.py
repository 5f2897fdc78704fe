"""How much memory there is, so that sizes of a few characters can't take all of it."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from hpmoe_ir.diagnostics import InputError


def available_memory() -> int:
    """Bytes that this process may still allocate: of the machine, and of its own limit if any."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # no Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    there = next(int(l.split()[1]) * 1024 for l in lines if l.startswith("MemAvailable:"))
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return there
    return max(0, min(there, limit - pages * resource.getpagesize()))


def check_memory(needed: int, what: str) -> None:
    """Raises InputError where `what` needs more than the available bytes."""
    there = available_memory()
    if needed > there:
        raise InputError(
            f"{what}: expected to fit into the memory that is left, {there / 2**30:.1f} GiB, found "
            f"{needed / 2**30:.1f} GiB"
        )
