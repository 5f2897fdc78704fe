"""Finds the fields and the family of the model in a MindFormers training file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.config_hugging_face import (
    check_classes,
    class_names,
    family_option,
    hugging_face_model,
)
from hpmoe_ir.frontends.config_model import ConfigModel, ConfigOptions, layer_name
from hpmoe_ir.frontends.config_text import Fields, fields_of, load_config, named, shown
from hpmoe_ir.frontends.families.mindformers import mindformers_family


def mindformers_model(path: Path, training: Fields, options: ConfigOptions) -> ConfigModel:
    """Returns the model of a MindFormers training file.

    Its fields are those of `model` or `model.model_config`, of `moe_config` beside `model` in files
    of releases to 1.6, and of the `config.json` in the folder `pretrained_model_dir`.
    """
    fields, is_legacy = _own_fields(path, training)
    sources = path.name
    given = None if options.family is None else family_option(options.family)
    folder = training.get("pretrained_model_dir")
    if folder:
        base = _pretrained_model(path, folder, options)
        kind = fields.get("model_type")
        if kind is not None and base.fields.get("model_type") not in (kind, None):
            raise InputError(
                f"model_type: expected the {shown(base.fields['model_type'])} of "
                f"{base.sources}, found {shown(kind)}",
                str(path),
            )
        sources += f" and {base.sources}"
        fields = {**base.fields, **fields}
        given = base.family
    family = mindformers_family(fields, given, is_legacy)
    if isinstance(family, str):
        raise InputError(family, str(path))
    if options.family is None and family.architectures:
        check_classes(path, family, class_names(fields))
    trainer = fields_of(training.get("trainer")) or {}
    name = layer_name(path, trainer.get("model_name"), fields.get("model_type"))
    return ConfigModel(path, fields, family, name, training, sources)


def _own_fields(path: Path, training: Fields) -> tuple[Fields, bool]:
    """Returns the fields that the file gives to the model, and whether it has `moe_config`."""
    model = training.get("model")
    if model is None and not training.get("pretrained_model_dir"):
        found = ", ".join(named(field) for field in sorted(training)) or "nothing"
        raise InputError(f"expected a field 'model', found {found}", str(path))
    section = _mapping(path, "model", {} if model is None else model)
    beside = section
    if "model_config" in section:
        section = _mapping(path, "model_config", section["model_config"])
        _check_beside(path, beside)
    fields = {field: value for field, value in section.items() if field != "moe_config"}
    places = {id(place): place for place in (training, beside, section) if "moe_config" in place}
    if not places:
        return fields, False
    if len(places) > 1:
        raise InputError("expected one moe_config, found one in model and one beside it", str(path))
    (place,) = places.values()
    _check_class(path, beside)
    for field, value in _mapping(path, "moe_config", place["moe_config"]).items():
        if fields.get(field, value) != value:
            raise InputError(
                f"moe_config.{field}: expected the {shown(fields[field])} of the model, found "
                f"{shown(value)}",
                str(path),
            )
        fields[field] = value
    return fields, True


def _mapping(path: Path, name: str, value: object) -> Fields:
    fields = fields_of(value)
    if fields is None:
        raise InputError(f"{name}: expected a mapping, found {shown(value)}", str(path))
    return fields


def _check_class(path: Path, model: Fields) -> None:
    """Raises InputError for a class beside `LlamaConfig` that isn't Llama's."""
    kind = (fields_of(model.get("arch")) or {}).get("type")
    if kind not in (None, "LlamaForCausalLM"):
        raise InputError(
            f"model.arch.type: expected LlamaForCausalLM, found {shown(kind)}", str(path)
        )


def _check_beside(path: Path, model: Fields) -> None:
    """Raises InputError for fields of `model` that its section `model_config` should have."""
    for field, value in model.items():
        if value is not None and field not in ("arch", "model_config", "moe_config"):
            raise InputError(
                f"model.{field}: expected it in model.model_config, found it beside that", str(path)
            )


def _pretrained_model(path: Path, folder: object, options: ConfigOptions) -> ConfigModel:
    """Returns the model of the `config.json` in a folder, relative to the training file."""
    if not isinstance(folder, str):
        raise InputError(
            f"pretrained_model_dir: expected the name of a folder, found {shown(folder)}", str(path)
        )
    config = path.parent / folder / "config.json"
    if not os.path.isfile(config):
        raise InputError(
            f"pretrained_model_dir: expected a folder with a config.json, found none in '{folder}'",
            str(path),
        )
    base = hugging_face_model(config, load_config(config), options)
    return replace(base, sources=str(Path(folder) / "config.json"))
