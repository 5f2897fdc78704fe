"""Finds the fields and the family of the model in a `config.json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpmoe_ir.diagnostics import InputError, nearest
from hpmoe_ir.frontends.config_model import ConfigModel, ConfigOptions, layer_name
from hpmoe_ir.frontends.config_text import Fields, fields_of, shown
from hpmoe_ir.frontends.families.common import OUTSIDE
from hpmoe_ir.frontends.families.family import Family, values_in
from hpmoe_ir.frontends.families.hugging_face import FAMILIES, families_with, family_of

TEXT_SECTIONS = ("text_config", "llm_config", "language_config")
"""Sections with the fields of the language model in a file of a model with several modalities."""


def hugging_face_model(path: Path, data: Fields, options: ConfigOptions) -> ConfigModel:
    """Returns the model of a `config.json`."""
    sections = [key for key in TEXT_SECTIONS if fields_of(data.get(key)) is not None]
    if len(sections) > 1:
        raise InputError(
            f"expected one of the sections {', '.join(TEXT_SECTIONS)}, found "
            f"{' and '.join(sections)}",
            str(path),
        )
    fields: Fields = data
    if sections:
        section = fields_of(data[sections[0]]) or {}
        outer = {key: value for key, value in data.items() if key != sections[0]}
        for key, value in section.items():
            if (
                key in outer
                and key not in ("model_type", "architectures")
                and (outer[key] != value and key not in OUTSIDE)
            ):
                raise InputError(
                    f"{key}: expected one value, found {shown(outer[key])} and, in {sections[0]}, "
                    f"{shown(value)}",
                    str(path),
                )
        fields = {**outer, **section}
    family = _known_family(path, data, fields_of(data[sections[0]]) if sections else None, options)
    name = layer_name(path, fields.get("model_type"))
    return ConfigModel(path, fields, family, name, training={}, sources=path.name)


def _known_family(
    path: Path, data: Fields, section: Fields | None, options: ConfigOptions
) -> Family:
    """Returns the family of --family, or of `model_type` and `architectures`.

    Those of a section with the language model count for more than those of the whole file.
    """
    known = [family.name for family in FAMILIES]
    if options.family is not None:
        return family_option(options.family)
    text = section or {}
    kind = text.get("model_type", data.get("model_type"))
    classes = class_names(text)
    if "model_type" not in text:
        classes = classes or class_names(data)
    family = None if kind is None else family_of(str(kind))
    by_class = [family for name in classes for family in families_with(name)]
    if kind is not None and family is None:
        raise InputError(
            f"model_type: unknown model {shown(kind)}, of whose experts nothing is known"
            f"{nearest(str(kind), known)}; if they compute what those of a known family do, "
            "--family NAME",
            str(path),
        )
    if family is None and not by_class:
        raise InputError(
            "expected a known model_type or architectures, to know what the experts compute, found "
            f"none{nearest('', known)}; if they compute what those of one do, --family NAME",
            str(path),
        )
    family = family or by_class[0]
    check_classes(path, family, classes)
    return family


def check_classes(path: Path, family: Family, classes: Sequence[str]) -> None:
    """Raises InputError at the first class of `architectures` that isn't one of the family."""
    for name in classes:
        if not family.has_class(name):
            raise InputError(
                f"architectures: expected a class of the family {family.name}, "
                f"{' or '.join(family.architectures)}, found {shown(name)}; if its experts "
                f"compute the same, --family {family.name}",
                str(path),
            )


def family_option(name: str) -> Family:
    """Returns the family that the user names. Raises InputError for an unknown one."""
    family = family_of(name)
    if family is None:
        known = [family.name for family in FAMILIES]
        raise InputError(f"--family: unknown family '{name}'{nearest(name, known)}")
    return family


def class_names(fields: Fields) -> list[str]:
    """Returns the classes of `architectures`, one or a list."""
    return [item for item in values_in(fields.get("architectures")) if isinstance(item, str)]
