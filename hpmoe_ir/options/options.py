"""Options as the fields of frozen dataclasses: their types, ranges and choices, checked in one way.

A pass, a policy or a target is such a dataclass with a name. What a field may hold beyond its type
is said where it is declared:

```python
@dataclass(frozen=True)
class TilingOptions(Options):
    put_rows: Annotated[int, Range(0, unit="rows")] = 0
```
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, Self, cast, get_args, get_origin, get_type_hints

from typing_extensions import TypeVar
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible
from xdsl.utils.hints import isa, type_repr

from hpmoe_ir.diagnostics import nearest
from hpmoe_ir.options.text import OptionSyntaxError, Spec, Value, parse_spec, value_text

ConvertibleT = TypeVar("ConvertibleT", bound=ArgSpecConvertible)

Available = Mapping[str, Callable[[], type[ConvertibleT]]]
"""Classes by the name that text has for them, each imported when it is asked for."""


class OptionError(ValueError):
    """Options that do not exist, are missing, or have values that they can't have."""


MOST = 1 << 20
"""The largest number that an option may be, unless it says otherwise."""


@dataclass(frozen=True)
class Range:
    """The whole numbers that an option may be."""

    least: int
    most: int = MOST
    unit: str = ""
    """What is counted, in the plural."""
    multiple: int = 1
    """What the number is a multiple of."""

    def check(self, name: str, value: int) -> None:
        """Raises OptionError where `value` is out of range."""
        if not self.least <= value <= self.most:
            unit = f" {self.unit}" if self.unit else ""
            raise OptionError(
                f"option '{name}': expected {self.least} to {self.most}{unit}, found {value}"
            )
        if value % self.multiple:
            raise OptionError(
                f"option '{name}': expected a multiple of {self.multiple}, found {value}"
            )


@dataclass(frozen=True)
class Choice:
    """An option whose value is chosen by name and has options of its own."""

    kind: str
    """What is chosen, for messages: "policy"."""
    available: Callable[[], Available[ArgSpecConvertible]]
    """What there is to choose from."""

    def of(self, values: tuple[Value, ...]) -> ArgSpecConvertible:
        """Returns what is chosen by a name, a name with options, or a string of one of the two.

        Raises OptionError.
        """
        value = values[0] if len(values) == 1 else None
        if not isinstance(value, str | Spec):
            found = ",".join(map(value_text, values)) or "no value"
            raise OptionError(f"expected the name of a {self.kind}, found {found}")
        try:
            spec = value if isinstance(value, Spec) else parse_spec(value)
        except OptionSyntaxError as error:
            raise OptionError(f"{self.kind} '{value}': {error}") from error
        return make(self.kind, spec, self.available())


@dataclass(frozen=True)
class Options(ArgSpecConvertible):
    """Options that check themselves; `str` is the text that `make` reads back.

    Raises OptionError when it is made with values that a field can't have. What depends on more
    than one option is checked by a subclass, in `__post_init__` after this one's.
    """

    def __post_init__(self) -> None:
        for field, (kind, limits) in option_types(type(self)).items():
            value, name = getattr(self, field), field.replace("_", "-")
            if not _has_type(value, kind):
                raise OptionError(f"option '{name}': expected {_type_text(kind)}, found {value!r}")
            for limit in limits:
                if isinstance(limit, Range) and value is not None:
                    limit.check(name, value)

    @classmethod
    def from_spec(cls, spec: ArgSpec) -> Self:
        """The same from what plain xDSL has read."""
        return cls.of_spec(Spec.of_arg_spec(spec))

    @classmethod
    def of_spec(cls, spec: Spec) -> Self:
        """Raises OptionError for options that do not exist, are missing or have other types."""
        return cls(**_fields(cls, spec))

    def spec(self, *, include_default: bool = False) -> ArgSpec:
        """The same for plain xDSL."""
        return spec_of(self, include_default=include_default).arg_spec()

    def __str__(self) -> str:
        return str(spec_of(self))


def make(
    kind: str,
    spec: Spec,
    available: Available[ConvertibleT],
    listed: Mapping[str, object] | None = None,
) -> ConvertibleT:
    """The `kind`, such as "pass", that `spec` names, with its options.

    Raises OptionError for an unknown name, which tells the nearest names or, if none is near, those
    of `listed`; for an unknown option; for a value of the wrong type; for a missing value.
    """
    if spec.name not in available:
        close = nearest(spec.name, available)
        hint = close if "did you mean" in close else nearest("", listed or available)
        raise OptionError(f"unknown {kind} '{spec.name}'{hint}")
    cls = available[spec.name]()
    try:
        if issubclass(cls, Options):
            return cls.of_spec(spec)
        # A class of another package may have its own way of reading what xDSL gives it.
        _fields(cls, spec)
        return cls.from_spec(spec.arg_spec())
    except ValueError as error:
        raise OptionError(f"{kind} '{spec.name}': {error}") from error


def spec_of(made: ArgSpecConvertible, *, include_default: bool = False) -> Spec:
    """The name and the options, those that differ from their defaults, of what `make` gives."""
    options: dict[str, tuple[Value, ...]] = {}
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        if not field.init or field.name == "name":
            continue
        if not include_default and value == _default(field):
            continue
        options[field.name.replace("_", "-")] = _values(value)
    return Spec(made.name, options)


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default  # MISSING is equal to no value


def _values(value: object) -> tuple[Value, ...]:
    match value:
        case None:
            return ()
        case ArgSpecConvertible():
            spec = spec_of(value)
            return (spec if spec.options else spec.name,)
        case tuple():
            return tuple(v for part in cast("tuple[object, ...]", value) for v in _values(part))
        case _:
            return (cast("bool | int | float | str", value),)


@cache
def option_types(cls: type[ArgSpecConvertible]) -> dict[str, tuple[Any, tuple[object, ...]]]:
    """The type of each option by the name of its field, and what else is said of its values."""
    hints = get_type_hints(cls, include_extras=True)
    found: dict[str, tuple[Any, tuple[object, ...]]] = {}
    for field in dataclasses.fields(cls):
        if field.init and field.name != "name":
            hint = hints[field.name]
            kind, *limits = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            found[field.name] = kind, tuple(limits)
    return found


def _fields(cls: type[ArgSpecConvertible], spec: Spec) -> dict[str, object]:
    """The values of the fields that `spec` has options for. Raises OptionError."""
    types = option_types(cls)
    given: dict[str, object] = {}
    for name, values in spec.options.items():
        field = name.replace("-", "_")
        if field not in types:
            known = nearest(name, [f.replace("_", "-") for f in types]) or "; it has none"
            raise OptionError(f"unknown option '{name}'{known}")
        given[field] = _converted(name, values, *types[field])
    missing = sorted(cls.required_fields() - given.keys() - {"name"})
    if missing:
        raise OptionError(f"expected option '{missing[0].replace('_', '-')}'")
    return given


def _converted(
    name: str, values: tuple[Value, ...], kind: Any, limits: tuple[object, ...]
) -> object:
    """The values of an option in text as the value of its field. Raises OptionError."""
    choice = next((limit for limit in limits if isinstance(limit, Choice)), None)
    if choice is not None:
        try:
            return choice.of(values)
        except OptionError as error:
            raise OptionError(f"option '{name}': {error}") from error
    if not values and NoneType in get_args(kind):
        return None
    if len(values) == 1 and _has_type(values[0], kind):
        return values[0]
    if values and _has_type(values, kind):
        return values
    found = ",".join(map(value_text, values)) or "no value"
    raise OptionError(f"option '{name}': expected {_type_text(kind)}, found {found}")


def _has_type(value: object, kind: Any) -> bool:
    """Whether a value has a type, where no bool is a number."""
    parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    if any(isinstance(part, bool) for part in parts) and not _mentions_bool(kind):
        return False
    return isa(value, kind)


def _mentions_bool(kind: Any) -> bool:
    return kind is bool or any(_mentions_bool(part) for part in get_args(kind))


def _type_text(kind: Any) -> str:
    """The type of an option for a message."""
    if get_origin(kind) is Literal:
        return " or ".join(str(value) for value in get_args(kind))
    return type_repr(kind)
