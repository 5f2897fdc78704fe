"""A model in a configuration file, and what a user says about the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.frontends.config_text import Fields
from hpmoe_ir.frontends.families.family import Family, Size


@dataclass(frozen=True)
class ConfigOptions:
    """What a user says about a file: how to read it, and sizes in place of its own."""

    family: str | None = None
    """The family whose experts the model has, in place of what the file says."""
    outside: tuple[str, ...] = ()
    """Fields of which the user says that they don't concern the experts."""
    layer: int | None = None
    """The layer of which to read the values of lists with a value for each layer."""
    hidden: int | None = None
    width: int | None = None
    experts: int | None = None
    top_k: int | None = None
    ranks: int | None = None
    """None for the file's expert-parallel size or 1."""
    tokens: int | None = None
    """None for sequence length times batch size of a YAML file, or 4096."""
    capacity: int | None = None
    dtype: Dtype | None = None

    def size(self, size: Size) -> int | None:
        """Returns the size that the user gives, None to read it from the file."""
        return {
            Size.HIDDEN: self.hidden,
            Size.WIDTH: self.width,
            Size.EXPERTS: self.experts,
            Size.TOP_K: self.top_k,
        }[size]


@dataclass(frozen=True)
class ConfigModel:
    """The fields of a model, with the entry that says what they mean."""

    path: Path
    fields: Fields
    family: Family
    name: str
    training: Fields
    """All fields of a training file, empty for others."""
    sources: str

    def fail(self, message: str) -> InputError:
        return InputError(message, str(self.path))


def layer_name(path: Path, *names: object) -> str:
    """Returns the first of `names` that can name a layer, or else the name of the file."""
    for name in names:
        if isinstance(name, str) and name and name.isprintable():
            return name
    return path.stem
