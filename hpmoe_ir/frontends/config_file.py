"""Reads layers from model configuration files: Hugging Face `config.json`, MindFormers YAML.

The entry of the model's family (`families/`) says which fields give the sizes, which decide what an
expert computes, and which concern other parts of the model. The latter become notes of the layer. A
field that the entry doesn't have is refused, and so is an unknown family: nothing is assumed of
what isn't understood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hpmoe_ir.diagnostics import InputError, nearest
from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.frontends.config_text import Fields, fields_of, load_config, shown
from hpmoe_ir.frontends.families.common import (
    COMMON_NOTES,
    COMMON_RULES,
    OUTSIDE,
    OUTSIDE_ENDINGS,
)
from hpmoe_ir.frontends.families.family import Family, Note, Rule, Size, values_in
from hpmoe_ir.frontends.families.hugging_face import FAMILIES, families_with, family_of
from hpmoe_ir.frontends.families.mindformers import mindformers_family
from hpmoe_ir.layer.config import LayerConfig

ELEMENT_TYPES: dict[str, Dtype] = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "f16",
    "fp16": "f16",
    "float32": "f32",
    "fp32": "f32",
}

ELEMENT_TYPE_FIELDS = ("compute_dtype", "torch_dtype", "dtype")

TEXT_SECTIONS = ("text_config", "llm_config", "language_config")
"""Sections with the fields of the language model in a file of a model with several modalities."""

MAX_SIZE = 2**31 - 1
"""Largest size that is read: the device counts in signed 32-bit integers."""


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


def config_layer(path: Path, options: ConfigOptions | None = None) -> LayerConfig:
    """Reads the expert layer of a `.json`, `.yaml` or `.yml` file.

    Raises InputError for an invalid file, for a model whose experts don't compute the layer's or
    whose fields aren't all understood; LayerError for sizes that contradict each other.
    """
    options = options or ConfigOptions()
    data = load_config(path)
    if path.suffix == ".json":
        model = _hugging_face(path, data, options)
    else:
        model = _mindformers(path, data, options)
    return _Reader(model, options).layer()


@dataclass(frozen=True)
class _Model:
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


def _hugging_face(path: Path, data: Fields, options: ConfigOptions) -> _Model:
    """Returns the model of a `config.json`."""
    sections = [key for key in TEXT_SECTIONS if fields_of(data.get(key)) is not None]
    if len(sections) > 1:
        raise InputError(
            f"expected one of the sections {', '.join(TEXT_SECTIONS)}, found "
            f"{' and '.join(sections)}",
            str(path),
        )
    fields = data
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
        fields = outer | section
    family = _known_family(path, data, fields_of(data[sections[0]]) if sections else None, options)
    name = fields.get("model_type")
    return _Model(
        path, fields, family, name if isinstance(name, str) and name else path.stem, {}, path.name
    )


def _known_family(
    path: Path, data: Fields, section: Fields | None, options: ConfigOptions
) -> Family:
    """Returns the family of --family, or of `model_type` and `architectures`.

    Those of a section with the language model count for more than those of the whole file.
    """
    known = [family.name for family in FAMILIES]
    if options.family is not None:
        return _family_option(options.family)
    text = section or {}
    kind = text.get("model_type", data.get("model_type"))
    classes = _strings(text.get("architectures"))
    if kind is None or "model_type" not in text:
        classes = classes or _strings(data.get("architectures"))
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
    if classes and family not in by_class:
        raise InputError(
            f"architectures: expected a class of the family {family.name}, "
            f"{' or '.join(family.architectures)}, found {', '.join(classes)}; if its experts "
            f"compute the same, --family {family.name}",
            str(path),
        )
    return family


def _family_option(name: str) -> Family:
    """Returns the family that the user names. Raises InputError for an unknown one."""
    family = family_of(name)
    if family is None:
        known = [family.name for family in FAMILIES]
        raise InputError(f"--family: unknown family '{name}'{nearest(name, known)}")
    return family


def _strings(value: object) -> list[str]:
    return [item for item in values_in(value) if isinstance(item, str)]


def _mindformers(path: Path, training: Fields, options: ConfigOptions) -> _Model:
    """Returns the model of a MindFormers training file.

    Its fields are those of `model` or `model.model_config`, of `moe_config` beside `model` in files
    of releases to 1.6, and of the `config.json` in the folder `pretrained_model_dir`.
    """
    model = fields_of(training.get("model"))
    if model is None and not training.get("pretrained_model_dir"):
        if training.get("model") is None:
            found = ", ".join(sorted(training)) or "nothing"
            raise InputError(f"expected a field 'model', found {found}", str(path))
        raise InputError(f"model: expected a mapping, found {shown(training['model'])}", str(path))
    model = model or {}
    if "model_config" in model:
        section = fields_of(model["model_config"])
        if section is None:
            found = shown(model["model_config"])
            raise InputError(f"model_config: expected a mapping, found {found}", str(path))
        model = section
    own = {key: value for key, value in model.items() if key != "moe_config"}
    legacy = _legacy_fields(path, training, model)
    for key, value in (legacy or {}).items():
        if own.get(key, value) != value:
            raise InputError(
                f"moe_config.{key}: expected the {shown(own[key])} of the model, found "
                f"{shown(value)}",
                str(path),
            )
        own[key] = value
    base, sources = None, path.name
    folder = training.get("pretrained_model_dir")
    if folder:
        base = _pretrained_model(path, folder, options)
        kind = own.get("model_type")
        if kind is not None and base.fields.get("model_type") not in (kind, None):
            raise InputError(
                f"model_type: expected the {shown(base.fields['model_type'])} of "
                f"{base.sources}, found {shown(kind)}",
                str(path),
            )
        sources += f" and {base.sources}"
        own = {**base.fields, **own}
    family = mindformers_family(
        own,
        base.family
        if base is not None
        else _family_option(options.family)
        if options.family is not None
        else None,
        legacy is not None,
    )
    if isinstance(family, str):
        raise InputError(family, str(path))
    return _Model(path, own, family, _training_name(path, training, own), training, sources)


def _legacy_fields(path: Path, training: Fields, model: Fields) -> Fields | None:
    """Returns the fields of `moe_config`, beside the model or in it; None if there is none."""
    found = [section["moe_config"] for section in (training, model) if "moe_config" in section]
    if len(found) > 1:
        raise InputError("expected one moe_config, found one in model and one beside it", str(path))
    for value in found:
        fields = fields_of(value)
        if fields is None:
            raise InputError(f"moe_config: expected a mapping, found {shown(value)}", str(path))
        return fields
    return None


def _pretrained_model(path: Path, folder: object, options: ConfigOptions) -> _Model:
    """Returns the model of the `config.json` in a folder, relative to the training file."""
    if not isinstance(folder, str):
        raise InputError(
            f"pretrained_model_dir: expected the name of a folder, found {shown(folder)}", str(path)
        )
    config = path.parent / folder / "config.json"
    if not config.is_file():
        raise InputError(
            f"pretrained_model_dir: expected a folder with a config.json, found none in '{folder}'",
            str(path),
        )
    base = _hugging_face(config, load_config(config), options)
    return replace(base, sources=str(Path(folder) / "config.json"))


def _training_name(path: Path, training: Fields, fields: Fields) -> str:
    trainer = fields_of(training.get("trainer")) or {}
    for name in (trainer.get("model_name"), fields.get("model_type")):
        if isinstance(name, str) and name:
            return name.encode(errors="replace").decode()
    return path.stem


def _flat(fields: Fields, known: frozenset[str], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yields all fields, those of sections that aren't known as a whole by dotted names."""
    for key, value in fields.items():
        name = prefix + key
        section = fields_of(value)
        if section is None or name in known or key in OUTSIDE:
            yield name, value
        else:
            yield from _flat(section, known, f"{name}.")


class _Reader:
    """Reads the sizes of one model; messages name the file, the field, expected and found."""

    def __init__(self, model: _Model, options: ConfigOptions):
        self.model, self.options = model, options
        self.family = model.family
        self.rules: dict[str, Rule] = {rule.field: rule for rule in COMMON_RULES}
        self.rules |= {rule.field: rule for rule in self.family.rules}
        self.noted: dict[str, Note] = {note.field: note for note in COMMON_NOTES}
        self.noted |= {note.field: note for note in self.family.notes}
        known = frozenset({*self.rules, *self.noted, *self.family.size_fields, *options.outside})
        self.fields = dict(_flat(model.fields, known))
        self.defaults: list[str] = []

    def layer(self) -> LayerConfig:
        """Returns the layer of the model."""
        if self.family.refusal:
            raise self.model.fail(f"{self.family.name}: {self.family.refusal}")
        self.check_fields_known()
        experts = self.size(Size.EXPERTS)
        if experts == 1:
            raise self.model.fail(
                "expected at least 2 experts, found 1 (is it a model without experts?)"
            )
        self.check_rules(experts)
        options = self.options
        return LayerConfig(
            self.model.name,
            hidden=self.size(Size.HIDDEN),
            width=self.size(Size.WIDTH),
            experts=experts,
            top_k=self.size(Size.TOP_K),
            ranks=self.ranks() if options.ranks is None else options.ranks,
            tokens=self.tokens() if options.tokens is None else options.tokens,
            capacity=options.capacity,
            dtype=self.dtype() if options.dtype is None else options.dtype,
            source=self.model.sources + "".join(self.defaults),
            notes=tuple(self.notes()),
        )

    def is_outside(self, field: str) -> bool:
        """Returns whether a field is known not to concern the experts."""
        names = OUTSIDE | {*self.family.outside, *self.options.outside}
        if self.family.section:
            # Older files repeat the fields of every configuration in each section.
            field = field.removeprefix(f"{self.family.section}.")
        return field in names or field.endswith(OUTSIDE_ENDINGS)

    def check_fields_known(self) -> None:
        """Raises InputError at the first field that isn't understood."""
        read = {*self.rules, *self.noted, *self.family.size_fields}
        for field, value in self.fields.items():
            if value is None or field in read or self.is_outside(field):
                continue
            raise self.model.fail(
                f"{field}: unknown field of the family {self.family.name}, found {shown(value)}; "
                f"if it doesn't concern the experts, --outside {field}"
            )

    def check_rules(self, experts: int) -> None:
        """Raises InputError for experts that don't compute the layer's, or that drop tokens."""
        for field, rule in self.rules.items():
            if field in self.options.outside:
                continue
            given = field in self.fields
            value = self.of_layer(field, self.fields[field]) if given else rule.default
            value = None if value == [] else value
            for one in values_in(value):
                if not rule.accepts(one, experts):
                    found = shown(one) if given else f"none, which means {shown(one)} in the model"
                    raise self.model.fail(
                        f"{field}: expected {rule.expected} ({rule.about}), found {found}"
                    )

    def of_layer(self, field: str, value: object) -> object:
        """Returns the value of the chosen layer, if there is one and the value is a list."""
        layer = self.options.layer
        if layer is None or not isinstance(value, list):
            return value
        values = list(values_in(value))
        if not 0 <= layer < len(values):
            raise self.model.fail(
                f"{field}: expected a value for layer {layer}, found {len(values)} values"
            )
        return values[layer]

    def size(self, size: Size) -> int:
        """Returns a size: the user's, the file's, or the one that the model has by default."""
        given = self.options.size(size)
        if given is not None:
            return given
        spellings = self.family.spellings(size)
        if size is Size.WIDTH and self.family.other_width:
            if all(self.fields.get(name) is None for name in spellings):
                spellings = (self.family.other_width,)
        found = {
            name: self.one_size(name, size)
            for name in spellings
            if self.fields.get(name) is not None
        }
        if len(set(found.values())) > 1:
            values = " and ".join(f"{name} {value}" for name, value in found.items())
            raise self.model.fail(f"expected one {size.value}, found {values}")
        if found:
            return next(iter(found.values()))
        default = self.family.default(size)
        if default is None:
            dense = " (is it a model without experts?)" if size is Size.EXPERTS else ""
            raise self.model.fail(
                f"no {size.value}: expected {' or '.join(spellings)}, found none{dense}; "
                f"{size.option} gives it"
            )
        self.defaults.append(f", {size.value} as in {self.family.name}")
        return default

    def one_size(self, field: str, size: Size) -> int:
        """Returns the size in a field; a list with a value for each layer must agree."""
        value = self.of_layer(field, self.fields[field])
        values = [self.positive(field, one) for one in values_in(value)]
        if not values:
            raise self.model.fail(f"{field}: expected a positive integer, found []")
        if len(set(values)) > 1:
            raise self.model.fail(
                f"{field}: expected the same for all layers, found {min(values)} to {max(values)}; "
                f"--layer N reads one layer, {size.option} gives the size"
            )
        return values[0]

    def positive(self, field: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise self.model.fail(f"{field}: expected a positive integer, found {shown(value)}")
        if value > MAX_SIZE:
            raise self.model.fail(f"{field}: expected at most {MAX_SIZE}, found a larger number")
        return value

    def notes(self) -> Iterator[str]:
        """Yields the facts of the file about parts of the model outside the experts."""
        yield from self.family.facts
        assumed = {known.field: known.value for known in self.family.assumed}
        for field, note in self.noted.items():
            if field not in self.fields:
                if field in assumed:
                    yield f"{note.about}: {shown(assumed[field])} by default"
            elif note.applies(self.fields[field]):
                yield f"{note.about}: {self.noted_value(field, self.fields[field])}"
        for field in self.options.outside:
            if self.fields.get(field) is not None:
                yield f"{field}, by --outside: {shown(self.fields[field])}"

    def noted_value(self, field: str, value: object) -> str:
        """Returns a value for a note, that of all layers or of each."""
        section = fields_of(value)
        if section is not None:
            method = section.get("quant_method")
            return shown(method) if method is not None else f"see {field}"
        values = list(values_in(self.of_layer(field, value)))
        same = len(values) > 1 and all(one == values[0] for one in values)
        return shown(values[0] if same or len(values) == 1 else values)

    def ranks(self) -> int:
        """Returns the expert-parallel size of the file, or 1."""
        for section in ("parallel_config", "parallelism"):
            value = (fields_of(self.model.training.get(section)) or {}).get("expert_parallel")
            if value is not None:
                return self.positive(f"{section}.expert_parallel", value)
        for field in ("expert_model_parallel_size", "ep_size"):
            if self.fields.get(field) is not None:
                return self.positive(field, self.fields[field])
        return 1

    def tokens(self) -> int:
        """Returns the tokens of a batch of a training file, or 4096."""
        training = self.model.training
        length = self.fields.get("seq_length") if training else None
        if length is None:
            return 4096
        tokens = self.positive("seq_length", length)
        for section, key in (("runner_config", "batch_size"), ("training", "local_batch_size")):
            value = (fields_of(training.get(section)) or {}).get(key)
            if value is not None:
                return tokens * self.positive(f"{section}.{key}", value)
        return tokens

    def dtype(self) -> Dtype:
        """Returns the element type of the file, or bf16."""
        found: dict[str, Dtype] = {}
        for field in ELEMENT_TYPE_FIELDS:
            value = self.fields.get(field)
            if value is None:
                continue
            if not isinstance(value, str) or value not in ELEMENT_TYPES:
                raise self.model.fail(
                    f"{field}: expected one of {', '.join(ELEMENT_TYPES)}, found {shown(value)}"
                )
            found[field] = ELEMENT_TYPES[value]
        if "compute_dtype" in found:
            return found["compute_dtype"]
        if len(set(found.values())) > 1:
            values = " and ".join(f"{field} {value}" for field, value in found.items())
            raise self.model.fail(f"expected one element type, found {values}; --dtype gives it")
        return next(iter(found.values()), "bf16")
