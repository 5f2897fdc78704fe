"""The entry of a family of models: the fields of its configuration files, and what they mean.

A field of a file is read as a size, checked by a rule, noted, or known to be outside the experts.
There is no fifth kind: a file with any other field is refused, since the field may say that the
experts compute something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TypeAlias, cast

from hpmoe_ir.frontends.presets import Preset

Value: TypeAlias = bool | int | float | str | None
"""A value of a field that a rule accepts."""

SPELLED_SILU: tuple[Value, ...] = ("silu", "swish", "swiglu")
"""Names of SiLU, and of SwiGLU in files that name the whole of it."""


class Size(Enum):
    """A size of a layer that a file gives."""

    HIDDEN = "hidden size"
    WIDTH = "expert width"
    EXPERTS = "number of experts"
    TOP_K = "experts of a token"

    @property
    def option(self) -> str:
        """The command-line option that gives the size in place of the file."""
        return {
            Size.HIDDEN: "--hidden",
            Size.WIDTH: "--width",
            Size.EXPERTS: "--experts",
            Size.TOP_K: "--top-k",
        }[self]


@dataclass(frozen=True)
class Rule:
    """A field that decides what an expert computes, with the values that give the layer's expert.

    The layer's expert is `down(silu(gate(x)) * up(x))` without biases, times the router weight.
    """

    field: str
    about: str
    """What an accepted value means, for the message of a refusal."""
    accepted: tuple[Value, ...]
    default: Value = None
    """What the model assumes if its file doesn't have the field."""

    def accepts(self, value: object, experts: int) -> bool:
        """Returns whether `value` gives the layer's expert; `experts` is their number."""
        del experts
        return any(_same(value, accepted) for accepted in self.accepted)

    @property
    def expected(self) -> str:
        """The accepted values, for messages."""
        return " or ".join(dict.fromkeys(_spelled(value) for value in self.accepted))


@dataclass(frozen=True)
class CapacityRule(Rule):
    """A capacity factor, which must be one that never drops a token.

    An expert holds `factor * tokens / experts` rows or, counting the copies of a token, more. With
    a factor of at least the number of experts it holds all tokens.
    """

    def accepts(self, value: object, experts: int) -> bool:
        """Returns whether no token is dropped: there is no factor, or it is large enough."""
        if value is None:
            return True
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return value <= 0 or value >= experts


@dataclass(frozen=True)
class Note:
    """A field about a part of the model outside the experts, which the layer doesn't compute."""

    field: str
    about: str
    neutral: tuple[Value, ...] = (None,)
    """Values that say that the model has no such part."""

    def applies(self, value: object) -> bool:
        """Returns whether the value, or that of some layer, says that the model has this part."""
        return any(
            not any(_same(one, neutral) for neutral in self.neutral) for one in values_in(value)
        )


@dataclass(frozen=True)
class Assumed:
    """A noted field with the value that the model takes if its file omits it."""

    field: str
    value: Value


@dataclass(frozen=True)
class Family:
    """Models whose experts compute the same and whose files have the same fields."""

    name: str
    """The `model_type` of its files, which also names it on the command line."""
    models: str
    """Published models, for documentation."""
    hidden: tuple[str, ...] = ("hidden_size",)
    experts: tuple[str, ...] = ()
    top_k: tuple[str, ...] = ("num_experts_per_tok",)
    width: tuple[str, ...] = ("moe_intermediate_size",)
    other_width: str = ""
    """The field of the width in files that have none of `width`."""
    model_types: tuple[str, ...] = ()
    """Further values of `model_type`."""
    architectures: tuple[str, ...] = ()
    """Classes of `architectures`, without their ending `ForCausalLM` or the like."""
    facts: tuple[str, ...] = ()
    """Facts about parts outside the experts that hold for all models, without a field."""
    rules: tuple[Rule, ...] = ()
    """Rules of this family, in place of the common ones for the same fields."""
    notes: tuple[Note, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    """Parts outside the experts that a model has unless its file says otherwise."""
    outside: tuple[str, ...] = ()
    """Further fields that don't concern the experts."""
    section: str = ""
    """A mapping in the file whose fields belong to the model's, with its name and a dot before."""
    defaults: Preset | None = None
    """Sizes that the model's own configuration class gives to a file that omits them."""
    refusal: str = ""
    """Why no layer of this family can be imported; empty if it can."""

    def spellings(self, size: Size) -> tuple[str, ...]:
        """Returns the fields of a size."""
        return {
            Size.HIDDEN: self.hidden,
            Size.WIDTH: self.width,
            Size.EXPERTS: self.experts,
            Size.TOP_K: self.top_k,
        }[size]

    def has_class(self, name: str) -> bool:
        """Returns whether `name` is a class of the family, such as `MixtralForCausalLM`."""
        base = name.partition("For")[0]
        return bool({name, base, base.removesuffix("Model")} & set(self.architectures))

    @cached_property
    def size_fields(self) -> frozenset[str]:
        """All fields that give a size."""
        named = {name for size in Size for name in self.spellings(size)}
        return frozenset(named | {self.other_width} - {""})

    def default(self, size: Size) -> int | None:
        """Returns the size of a model whose file omits it, None if the file must have it."""
        if self.defaults is None:
            return None
        return {
            Size.HIDDEN: self.defaults.hidden,
            Size.WIDTH: self.defaults.width,
            Size.EXPERTS: self.defaults.experts,
            Size.TOP_K: self.defaults.top_k,
        }[size]


def values_in(value: object) -> Iterable[object]:
    """Yields the value of each layer: the elements of a list, or the one value of all layers."""
    if isinstance(value, list):
        yield from cast(list[object], value)
    else:
        yield value


def _same(value: object, accepted: Value) -> bool:
    """Returns whether two values are equal, where `true` is no number; strings ignore case."""
    if isinstance(value, bool) or isinstance(accepted, bool):
        return value is accepted
    if isinstance(value, str) and isinstance(accepted, str):
        return value.lower() == accepted.lower()
    return value == accepted


def _spelled(value: Value) -> str:
    """Returns a value as files spell it."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
