"""Machine descriptions: one TOML file per chip, read by tiling, scheduling and the CPU model."""

from __future__ import annotations

import difflib
import hashlib
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, cast

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.extensions import MACHINES, described, extensions
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.rates import RANGES, RATE_NAMES, RATE_UNITS, WHOLE_UNITS, Rates

MACHINE_DIR = Path(__file__).parent

MAX_CORES = 1024
"""Largest number of AIC: each has a queue of its own in the IR and in the task table."""

MAX_AIV_PER_AIC = 16
"""Largest number of AIV per AIC, for the same reason."""

MAX_BYTES = 2**24
"""Largest memory of a core, several times that of any chip: copies and addresses of that many bytes
fit the fields of the instructions."""

MAX_SIZES = {
    "cores.aic": MAX_CORES,
    "cores.aiv_per_aic": MAX_AIV_PER_AIC,
    "memory.ub": 2**21,
    "memory.hbm": 2**50,
    "limits.queue_points": 2**24,
    "limits.families": 2**8,
    "limits.direct_ranks": 2**20,
}
"""Upper limits of other sizes. One copy moves at most 2 MB to or from UB; a slot of the task table
has 24 bits for the task and 8 for the family."""

SYSTEM_RESERVED = 256
"""Bytes at the end of L1 and UB that a mixed kernel can't use."""

WORKER_BYTES = 32
"""Bytes of L1, and of UB, in which the worker loop keeps the word that it adds to counters."""

DATA_BLOCK = 32
"""Alignment of addresses in L1 and UB, in bytes."""


class MachineError(ValueError):
    """A machine description that does not exist or is invalid."""


@dataclass(frozen=True)
class Number:
    """One number of a description, with the range `low` to `high` in which it is uncertain."""

    value: float
    unit: str
    source: str
    low: float
    high: float

    @property
    def uncertain(self) -> bool:
        """Whether the number has a range: its sources disagree, or it has none."""
        return self.low < self.high


@dataclass(frozen=True)
class Machine:
    """Core counts, memory sizes (in bytes) and rates of one chip.

    The `_reserved` bytes at the end of L1 and UB belong to the system and to the worker loop; tile
    kernels may use the rest. Descriptions may leave out the numbers of `OPTIONAL`, which are then
    None: the size that they limit is not checked.
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
    """Bytes of a cache line; each counter has a line of its own."""
    event_ids: int
    """Number of flag ids that a pair of pipes may use, from 0."""
    queue_points: int
    """Largest number of tasks of a family."""
    families: int
    """Largest number of task families of a program."""
    hbm_bytes: int | None
    """Bytes of HBM, the device memory of a rank."""
    direct_ranks: int | None
    """Largest number of ranks of which each can write the memory of all others directly."""
    rates: Rates
    """Bandwidths, throughputs and latencies."""
    numbers: Mapping[str, Number] = field(compare=False, repr=False)
    """All numbers of the description by section and key, such as "latency.poll"."""
    digest: str = field(compare=False, repr=False)
    """SHA-256 of the description, its base included."""
    reference: str = field(compare=False)
    """Name or file that the machine was loaded by: the value of the option `machine` of passes."""

    @property
    def aiv_cores(self) -> int:
        """Vector cores of the chip."""
        return self.aic_cores * self.aiv_per_aic

    @property
    def l1_usable(self) -> int:
        """Bytes of L1 that a tile kernel may use, whole data blocks."""
        return (self.l1_bytes - self.l1_reserved) // DATA_BLOCK * DATA_BLOCK

    @property
    def ub_usable(self) -> int:
        """Bytes of UB that a tile kernel may use, whole data blocks."""
        return (self.ub_bytes - self.ub_reserved) // DATA_BLOCK * DATA_BLOCK

    def cores(self, kind: CoreKind) -> int:
        """Returns the number of cores of `kind`."""
        return {CoreKind.AIC: self.aic_cores, CoreKind.AIV: self.aiv_cores}[kind]

    def with_rate(self, name: str, value: float) -> Machine:
        """Returns this machine with one rate changed, such as "shared_bandwidth.link_out".

        Raises MachineError for a name that is not a rate.
        """
        if name not in RATE_NAMES:
            near = difflib.get_close_matches(name, RATE_NAMES, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise MachineError(f"{self.name}: no rate '{name}'{hint}")
        number = replace(self.numbers[name], value=value)
        return replace(
            self,
            rates=replace(self.rates, **{RATE_NAMES[name]: value}),
            numbers={**self.numbers, name: number},
        )


SIZES: dict[str, tuple[str, str]] = {
    "cores.aic": ("aic_cores", "cores"),
    "cores.aiv_per_aic": ("aiv_per_aic", "cores"),
    "memory.l0a": ("l0a_bytes", "bytes"),
    "memory.l0b": ("l0b_bytes", "bytes"),
    "memory.l0c": ("l0c_bytes", "bytes"),
    "memory.l1": ("l1_bytes", "bytes"),
    "memory.ub": ("ub_bytes", "bytes"),
    "memory.l1_reserved": ("l1_reserved", "bytes"),
    "memory.ub_reserved": ("ub_reserved", "bytes"),
    "memory.counter_line": ("counter_line", "bytes"),
    "memory.hbm": ("hbm_bytes", "bytes"),
    "limits.event_ids": ("event_ids", "flags"),
    "limits.queue_points": ("queue_points", "tasks"),
    "limits.families": ("families", "families"),
    "limits.direct_ranks": ("direct_ranks", "ranks"),
}
"""Field of `Machine` and unit of each whole number of a description."""

OPTIONAL = frozenset({"memory.hbm", "limits.direct_ranks"})
"""Numbers that a description without a base may leave out."""


def machine_names() -> list[str]:
    """Returns the names of the package's own descriptions, sorted."""
    return sorted(path.stem for path in MACHINE_DIR.glob("*.toml"))


def load_machine(name: str) -> Machine:
    """Reads the description `name`, or the file `name` where it ends in `.toml`.

    Names are those of this package's descriptions, then those of other packages' entry points in
    the group `hpmoe_ir.machines`. A description may name one of this package's as its `base` and
    inherits the numbers that it does not give. Raises MachineError for an unknown name, a missing
    or unknown number, a wrong type or unit, a value outside its own range, a rate outside `RANGES`.
    """
    path = Path(name) if name.endswith(".toml") else MACHINE_DIR / f"{name}.toml"
    if os.path.isfile(path):
        return _read(path, name)
    try:
        others = extensions(MACHINES)
    except InputError as e:
        raise MachineError(e.message) from e
    if name in others:
        point = others[name]
        try:
            return _read(_described_by(point), name)
        except MachineError as e:
            raise MachineError(f"{described(point)}: {e}") from e
    known = sorted({*machine_names(), *others})
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise MachineError(f"unknown machine '{name}'; known: {', '.join(known)}{hint}")


def _described_by(point: EntryPoint) -> Path:
    """Returns the path of the description that an entry point refers to."""
    try:
        description = point.load()
    except Exception as e:  # the code of another package: it may raise anything
        raise MachineError(f"can't load it: {type(e).__name__}: {e}") from e
    if not isinstance(description, Path):
        kind = type(description).__name__
        raise MachineError(f"expected the Path of a description, found {kind}")
    return description


def _read(path: Path, reference: str) -> Machine:
    """Reads the machine description at `path`; `reference` is its name for passes."""
    try:
        content = path.read_bytes()
        data = tomllib.loads(content.decode())
    except OSError as e:
        raise MachineError(f"{path.name}: can't read the file: {e.strerror}") from e
    except RecursionError as e:
        raise MachineError(f"{path.name}: not a TOML file: nested too deeply") from e
    except ValueError as e:  # not UTF-8, not TOML, or a number of thousands of digits
        raise MachineError(f"{path.name}: not a TOML file: {e}") from e
    if "base" in data:
        base = _text(path.name, data, "base")
        if base not in machine_names():
            known = ", ".join(machine_names())
            raise MachineError(f"{path.name}: base: expected one of {known}, found '{base}'")
        inherited = tomllib.loads((MACHINE_DIR / f"{base}.toml").read_text())
        content += (MACHINE_DIR / f"{base}.toml").read_bytes()
        data = _merged(inherited, data)
    numbers = _numbers(path.name, data)
    sizes: dict[str, Any] = {}
    for key, (attribute, _) in SIZES.items():
        if key not in numbers:
            sizes[attribute] = None
            continue
        value = numbers[key].value
        if value != int(value) or value <= 0:
            raise _error(path.name, key, f"expected a positive whole number, found {value!r}")
        limit = MAX_SIZES.get(key, MAX_BYTES)
        if value > limit:
            raise _error(path.name, key, f"expected at most {limit}, found {value}")
        sizes[attribute] = int(value)
    _check_reserved(path.name, sizes)
    return Machine(
        name=_text(path.name, data, "name"),
        arch=_text(path.name, data, "arch"),
        rates=Rates(**{RATE_NAMES[key]: numbers[key].value for key in RATE_NAMES}),
        numbers=numbers,
        digest=hashlib.sha256(content).hexdigest(),
        reference=reference,
        **sizes,
    )


def _check_reserved(file: str, sizes: Mapping[str, int]) -> None:
    """Raises MachineError unless the reserved ends of L1 and UB hold what is kept there."""
    least = SYSTEM_RESERVED + WORKER_BYTES
    for memory in ("l1", "ub"):
        whole, reserved = sizes[f"{memory}_bytes"], sizes[f"{memory}_reserved"]
        if not least <= reserved < whole:
            raise _error(
                file,
                f"memory.{memory}_reserved",
                f"expected {least} to {whole - 1}, less than {memory}, found {reserved}",
            )


UNITS = {key: unit for key, (_, unit) in SIZES.items()} | RATE_UNITS
"""Unit of each number of a description, by section and key."""

MAY_BE_ZERO = frozenset({"cycles", "s"})
"""Units whose numbers may be 0, since they are costs; all other numbers are positive."""


def _error(file: str, key: str, message: str) -> MachineError:
    section, _, name = key.partition(".")
    return MachineError(f"{file}: [{section}] {name}: {message}")


def _merged(base: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Returns `base` with the entries of `data` in place of its own, section by section."""
    merged = base | data
    for key in base.keys() & data.keys():
        new, inherited = data[key], base[key]
        if isinstance(new, dict) and isinstance(inherited, dict):
            merged[key] = {**inherited, **new}
    return merged


def _text(file: str, data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise MachineError(f"{file}: {key}: expected a string, found {value!r}")
    return value


def _numbers(file: str, data: Mapping[str, Any]) -> dict[str, Number]:
    sections = {key.partition(".")[0] for key in UNITS}
    for section, content in data.items():
        if section in ("name", "arch", "base"):
            continue
        if section not in sections or not isinstance(content, dict):
            raise MachineError(f"{file}: [{section}]: unknown section{_hint(section, sections)}")
        known = {k.partition(".")[2] for k in UNITS if k.startswith(f"{section}.")}
        for key in cast("dict[str, Any]", content):
            if key not in known:
                raise _error(file, f"{section}.{key}", f"unknown number{_hint(key, known)}")
    numbers: dict[str, Number] = {}
    for key, unit in UNITS.items():
        section, _, name = key.partition(".")
        table = data.get(section, {}).get(name)
        if table is None and key in OPTIONAL:
            continue
        if not isinstance(table, dict):
            raise _error(
                file, key, f'expected {{ value, unit = "{unit}", source }}, found {table!r}'
            )
        numbers[key] = _number(file, key, unit, cast("dict[str, Any]", table))
    return numbers


def _hint(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def _number(file: str, key: str, unit: str, table: Mapping[str, Any]) -> Number:
    allowed = {"value", "unit", "source", "low", "high"}
    for name in table:
        if name not in allowed:
            raise _error(file, key, f"unknown field '{name}'{_hint(name, allowed)}")
    for name in ("unit", "source"):
        if not isinstance(table.get(name), str):
            raise _error(file, key, f"{name}: expected a string, found {table.get(name)!r}")
    if table["unit"] != unit:
        raise _error(file, key, f'unit: expected "{unit}", found "{table["unit"]}"')

    def amount(name: str) -> float:
        value = table.get(name)
        low = 0 if unit in MAY_BE_ZERO else math.ulp(0.0)
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not low <= value < math.inf
        ):
            expected = "a number of at least 0" if low == 0 else "a positive number"
            raise _error(file, key, f"{name}: expected {expected}, found {value!r}")
        if key in RATE_NAMES:
            smallest, largest = RANGES.get(key, RANGES[unit])
            whole = "a whole number from " if unit in WHOLE_UNITS else ""
            if not smallest <= value <= largest or (whole and value != int(value)):
                raise _error(
                    file,
                    key,
                    f"{name}: expected {whole}{smallest:g} to {largest:g}, found {value!r}",
                )
        return value

    value = amount("value")
    if ("low" in table) != ("high" in table):
        raise _error(file, key, "expected both low and high, or neither")
    low, high = (amount("low"), amount("high")) if "low" in table else (value, value)
    if not low <= value <= high:
        raise _error(file, key, f"value: expected {low!r} to {high!r}, found {value!r}")
    return Number(value, unit, table["source"], low, high)
