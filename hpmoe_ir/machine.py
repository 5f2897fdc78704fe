"""The machine description: one file per chip, read by tiling, scheduling and the CPU model."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from pathlib import Path

MACHINE_DIR = Path(__file__).parent / "machines"


class MachineError(ValueError):
    """A machine description that does not exist or does not say what it must."""


@dataclass(frozen=True)
class Machine:
    """Core counts and memory sizes of one chip. All sizes are bytes.

    The `_reserved` bytes at the end of L1 and UB belong to the system and to the worker loop;
    tile kernels may use what is left.
    """

    name: str
    arch: str
    aic_cores: int
    aiv_per_aic: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    l1_bytes: int
    ub_bytes: int
    l1_reserved: int
    ub_reserved: int
    counter_line: int
    """Bytes of the cache line that a counter must have for itself."""
    event_ids: int
    """Flag ids that a pair of pipes may use: 0 to event_ids - 1."""
    queue_points: int
    """Most tasks that one family may have."""
    families: int
    """Most families that one program may have."""

    @property
    def aiv_cores(self) -> int:
        """Vector cores of the chip."""
        return self.aic_cores * self.aiv_per_aic

    @property
    def l1_usable(self) -> int:
        """Bytes of L1 that a tile kernel may use."""
        return self.l1_bytes - self.l1_reserved

    @property
    def ub_usable(self) -> int:
        """Bytes of UB that a tile kernel may use."""
        return self.ub_bytes - self.ub_reserved

    def cores(self, kind: str) -> int:
        """Number of cores of `kind`, "aic" or "aiv"."""
        return {"aic": self.aic_cores, "aiv": self.aiv_cores}[kind]


def machine_names() -> list[str]:
    """Names of the descriptions that come with the package."""
    return sorted(path.stem for path in MACHINE_DIR.glob("*.toml"))


def load_machine(name: str) -> Machine:
    """Reads the description `name`, or the file `name` where it ends in `.toml`.

    Raises MachineError for an unknown name, a missing or unknown field, a wrong type.
    """
    path = Path(name) if name.endswith(".toml") else MACHINE_DIR / f"{name}.toml"
    if not path.is_file():
        near = difflib.get_close_matches(name, machine_names(), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise MachineError(f"unknown machine '{name}'; known: {', '.join(machine_names())}{hint}")
    try:
        data = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise MachineError(f"{path.name}: not a TOML file: {e}") from e

    def number(section: str, key: str) -> int:
        value = data.get(section, {}).get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise MachineError(
                f"{path.name}: [{section}] {key}: expected a positive integer, found {value!r}"
            )
        return value

    def text(key: str) -> str:
        value = data.get(key)
        if not isinstance(value, str):
            raise MachineError(f"{path.name}: {key}: expected a string, found {value!r}")
        return value

    return Machine(
        name=text("name"),
        arch=text("arch"),
        aic_cores=number("cores", "aic"),
        aiv_per_aic=number("cores", "aiv_per_aic"),
        l0a_bytes=number("memory", "l0a"),
        l0b_bytes=number("memory", "l0b"),
        l0c_bytes=number("memory", "l0c"),
        l1_bytes=number("memory", "l1"),
        ub_bytes=number("memory", "ub"),
        l1_reserved=number("memory", "l1_reserved"),
        ub_reserved=number("memory", "ub_reserved"),
        counter_line=number("memory", "counter_line"),
        event_ids=number("limits", "event_ids"),
        queue_points=number("limits", "queue_points"),
        families=number("limits", "families"),
    )
