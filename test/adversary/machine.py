"""The small chip that generated programs are for: 2 matrix and 4 vector cores."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path

from hpmoe_ir.machines import machine

AIC, AIV = 2, 4


@cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hpmoe-adversary-")


def read_once() -> None:
    """Makes this process parse a machine description once, not for each program."""
    machine._read = cache(machine._read)  # pyright: ignore[reportPrivateUsage]


@cache
def small_machine() -> str:
    """Returns the file of its description, which only this process and its children read."""
    text = (machine.MACHINE_DIR / "ascend-a3.toml").read_text()
    cores = f'aic = {{ value = {AIC}, unit = "cores", source = "the test" }}'
    path = Path(_directory().name) / "small.toml"
    path.write_text(re.sub(r"^aic = .*$", cores, text, count=1, flags=re.MULTILINE))
    return str(path)
