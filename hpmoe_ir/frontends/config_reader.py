"""Reads the sizes of the experts from the fields of a model, by the entry of its family."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.frontends.config_model import ConfigModel, ConfigOptions
from hpmoe_ir.frontends.config_text import Fields, fields_of, named, shown
from hpmoe_ir.frontends.families.common import (
    COMMON_NOTES,
    COMMON_RULES,
    OUTSIDE,
    OUTSIDE_ENDINGS,
)
from hpmoe_ir.frontends.families.family import Note, Rule, Size, values_in
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

MAX_SIZE = 2**31 - 1
"""Largest size that is read: the device counts in signed 32-bit integers."""


def _flat(fields: Fields, known: frozenset[str], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yields all fields, those of sections that aren't known as a whole by dotted names."""
    for key, value in fields.items():
        name = prefix + key
        section = fields_of(value)
        if section is None or name in known or key in OUTSIDE:
            yield name, value
        else:
            yield from _flat(section, known, f"{name}.")


class ConfigReader:
    """Reads the sizes of one model; messages name the file, the field, expected and found."""

    def __init__(self, model: ConfigModel, options: ConfigOptions):
        self.model, self.options = model, options
        self.family = model.family
        self.rules: dict[str, Rule] = {rule.field: rule for rule in COMMON_RULES}
        self.rules |= {rule.field: rule for rule in self.family.rules}
        self.noted: dict[str, Note] = {note.field: note for note in COMMON_NOTES}
        self.noted |= {note.field: note for note in self.family.notes}
        known = frozenset({*self.rules, *self.noted, *self.family.size_fields, *options.outside})
        self.fields: dict[str, object] = {}
        for field, value in _flat(model.fields, known):
            if field in self.fields:
                raise model.fail(f"{named(field)}: expected the field once, found it twice")
            self.fields[field] = value
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
                f"{named(field)}: unknown field of the family {self.family.name}, found "
                f"{shown(value)}; if it doesn't concern the experts, --outside {named(field)}"
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
        values = list(values_in(cast(object, value)))
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
                yield f"{named(field)}, by --outside: {shown(self.fields[field])}"

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
        return next(iter(found.values())) if found else "bf16"
