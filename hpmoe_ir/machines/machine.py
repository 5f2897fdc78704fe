"""Machine descriptions: one TOML file per chip, read by tiling, scheduling and the CPU model."""

from __future__ import annotations

import difflib
import hashlib
import math
import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.extensions import MACHINES, described, extensions
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.numbers import (
    CURVES,
    SAME_ADDRESS,
    SIZES,
    MachineError,
    Number,
    error_of,
    hint_of,
    read_numbers,
    read_text,
)
from hpmoe_ir.machines.rates import RATE_NAMES, Rates

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


class Variant(StrEnum):
    """A way to take a description, named after it: `ascend-a3:measured`."""

    MEASURED = "measured"
    """Link rates as measured on the number of ranks, instead of nominal ones."""
    SAME_ADDRESS = "same-address"
    """Loads into UB and L1 as slow as if cores always read the same addresses at the same time."""


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
    """Bandwidths, throughputs and latencies; those of links are for `for_ranks` ranks."""
    variants: tuple[Variant, ...]
    """How the description is taken, as in `reference`."""
    numbers: Mapping[str, Number] = field(compare=False, repr=False)
    """All numbers of the description by section and key, such as "latency.poll"."""
    digest: str = field(compare=False, repr=False)
    """SHA-256 of the description, its base included."""
    reference: str = field(compare=False)
    """Name or file that the machine was loaded by, with its variants: the value of the option
    `machine` of passes."""

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

    @property
    def link_lanes(self) -> int:
        """Vector cores whose puts fill the link even where a core reaches the low end of its range.

        What a core reaches over the link is the least known number. More cores than necessary cost
        little, since other tasks share them badly only while puts last; fewer leave the link idle.
        """
        core = min(self.numbers["core_bandwidth.link"].low, self.rates.core_bandwidth_link)
        return math.ceil(self.rates.shared_bandwidth_link_out / core)

    def cores(self, kind: CoreKind) -> int:
        """Returns the number of cores of `kind`."""
        return {CoreKind.AIC: self.aic_cores, CoreKind.AIV: self.aiv_cores}[kind]

    def for_ranks(self, ranks: int) -> Machine:
        """Returns this machine with the link rates that hold for so many ranks.

        All that reads a link rate, such as policies, clocks and bounds, takes such a machine.
        """
        rates = {RATE_NAMES[key]: self.link_number(key, ranks).value for key in sorted(CURVES)}
        return replace(self, rates=replace(self.rates, **rates))

    def link_number(self, name: str, ranks: int) -> Number:
        """Returns a number of `CURVES` with its range, as it holds for so many ranks."""
        return self.numbers[name].on_ranks(ranks, Variant.MEASURED in self.variants)

    def with_rate(self, name: str, value: float) -> Machine:
        """Returns this machine with one rate changed, such as "shared_bandwidth.link_out".

        A rate of links is then the same on all numbers of ranks.

        Raises MachineError for a name that is not a rate.
        """
        if name not in RATE_NAMES:
            near = difflib.get_close_matches(name, RATE_NAMES, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise MachineError(f"{self.name}: no rate '{name}'{hint}")
        number = replace(self.numbers[name], value=value, by_ranks=(), measured=())
        return replace(
            self,
            rates=replace(self.rates, **{RATE_NAMES[name]: value}),
            numbers={**self.numbers, name: number},
        )


def machine_names() -> list[str]:
    """Returns the names of the package's own descriptions, sorted."""
    return sorted(path.stem for path in MACHINE_DIR.glob("*.toml"))


def load_machine(reference: str) -> Machine:
    """Reads a description, by its name or, where it ends in `.toml`, by its file.

    Names are those of this package's descriptions, then those of other packages' entry points in
    the group `hpmoe_ir.machines`. Variants may follow, each after a colon. A description may name
    one of this package's as its `base` and inherits the numbers that it does not give. Raises
    MachineError for an unknown name or variant, a missing or unknown number, a wrong type or unit,
    a value outside its own range, a rate outside `RANGES`, and for a variant whose numbers the
    description does not have.
    """
    name, variants = split_reference(reference)
    return _with_variants(_load(name), variants)


def split_reference(reference: str) -> tuple[str, tuple[Variant, ...]]:
    """Returns the name or file of a machine's reference, and its variants in a fixed order.

    Raises MachineError for an unknown variant.
    """
    # A colon in the path of a file is none of a variant.
    stem, dot, last = reference.rpartition(".toml")
    name, *words = (last if dot else reference).split(":")
    known = [variant.value for variant in Variant]
    for word in words:
        if word not in known:
            raise MachineError(
                f"unknown variant '{word}' of machine '{stem + dot + name}'; known: "
                f"{', '.join(known)}{hint_of(word, set(known))}"
            )
    return stem + dot + name, tuple(variant for variant in Variant if variant in words)


def reference_of(name: str, variants: Collection[Variant]) -> str:
    """Returns the reference of the machine `name` with variants, for the option `machine`."""
    return ":".join([name, *(variant for variant in Variant if variant in variants)])


def _with_variants(machine: Machine, variants: tuple[Variant, ...]) -> Machine:
    """Returns a machine as its variants say. Raises MachineError where a number is missing."""
    numbers, rates = machine.numbers, machine.rates
    if Variant.MEASURED in variants:
        for key in sorted(CURVES):
            if not numbers[key].measured:
                raise MachineError(
                    f"machine '{machine.name}': no measured links: [shared_bandwidth] "
                    f"{key.partition('.')[2]} has no list `measured`"
                )
    if Variant.SAME_ADDRESS in variants:
        for key, slowed in SAME_ADDRESS.items():
            if key not in numbers:
                raise MachineError(
                    f"machine '{machine.name}': reads of the same address: no number "
                    f"[same_address] {key.partition('.')[2]}"
                )
            rate = numbers[slowed].value / numbers[key].value
            rates = replace(rates, **{RATE_NAMES[slowed]: rate})
    return replace(
        machine,
        name=reference_of(machine.name, variants),
        rates=rates,
        variants=variants,
        reference=reference_of(machine.reference, variants),
    )


def _load(name: str) -> Machine:
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
        base = read_text(path.name, data, "base")
        if base not in machine_names():
            known = ", ".join(machine_names())
            raise MachineError(f"{path.name}: base: expected one of {known}, found '{base}'")
        inherited = tomllib.loads((MACHINE_DIR / f"{base}.toml").read_text())
        content += (MACHINE_DIR / f"{base}.toml").read_bytes()
        data = _merged(inherited, data)
    numbers = read_numbers(path.name, data)
    sizes: dict[str, Any] = {}
    for key, (attribute, _) in SIZES.items():
        if key not in numbers:
            sizes[attribute] = None
            continue
        value = numbers[key].value
        if value != int(value) or value <= 0:
            raise error_of(path.name, key, f"expected a positive whole number, found {value!r}")
        limit = MAX_SIZES.get(key, MAX_BYTES)
        if value > limit:
            raise error_of(path.name, key, f"expected at most {limit}, found {value}")
        sizes[attribute] = int(value)
    _check_reserved(path.name, sizes)
    return Machine(
        name=read_text(path.name, data, "name"),
        arch=read_text(path.name, data, "arch"),
        rates=Rates(**{RATE_NAMES[key]: numbers[key].value for key in RATE_NAMES}),
        variants=(),
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
            raise error_of(
                file,
                f"memory.{memory}_reserved",
                f"expected {least} to {whole - 1}, less than {memory}, found {reserved}",
            )


def _merged(base: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Returns `base` with the entries of `data` in place of its own, section by section."""
    merged = base | data
    for key in base.keys() & data.keys():
        new, inherited = data[key], base[key]
        if isinstance(new, dict) and isinstance(inherited, dict):
            merged[key] = {**inherited, **new}
    return merged
