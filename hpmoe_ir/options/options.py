"""Options as the fields of frozen dataclasses, with one check of types, ranges and choices.

A pass, a policy or a target is such a dataclass with a name. Constraints beyond a field's type are
`Annotated` metadata of the field:

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
"""Loaders of classes by the name used in pipeline text; a class is imported on first use."""


class OptionError(ValueError):
    """An unknown or missing option, or an option value of the wrong type or out of range."""


MOST = 1 << 20
"""Default upper limit of an integer option."""


@dataclass(frozen=True)
class Range:
    """The range of valid integers of an option, `least` and `most` included."""

    least: int
    most: int = MOST
    unit: str = ""
    """Unit of the number in error messages, in the plural."""
    multiple: int = 1
    """The number must be a multiple of this."""

    def check(self, name: str, value: int) -> None:
        """Raises OptionError if `value`, of option `name`, is out of range."""
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
    """An option whose value is the name of a class, which may have options of its own."""

    kind: str
    """Kind of the value in error messages, such as "policy"."""
    available: Callable[[], Available[ArgSpecConvertible]]
    """Returns the classes to choose from."""

    def of(self, values: tuple[Value, ...]) -> ArgSpecConvertible:
        """Instantiates the class given as a name, a name with options, or a string of either.

        Raises OptionError for an invalid value.
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
    """Base class of options that are checked at construction; `str` is text that `make` can read.

    The constructor raises OptionError for an invalid value of a field. Subclasses check constraints
    between options in `__post_init__`, after calling this one.
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
        """Constructs the options from an xDSL `ArgSpec`. Raises OptionError as `of_spec` does."""
        return cls.of_spec(Spec.of_arg_spec(spec))

    @classmethod
    def of_spec(cls, spec: Spec) -> Self:
        """Constructs the options from `spec`.

        Raises OptionError for unknown or missing options and for invalid values.
        """
        return cls(**_fields(cls, spec))

    def spec(self, *, include_default: bool = False) -> ArgSpec:
        """Returns the options as an xDSL `ArgSpec`."""
        return spec_of(self, include_default=include_default).arg_spec()

    def __str__(self) -> str:
        return str(spec_of(self))


def make(
    kind: str,
    spec: Spec,
    available: Available[ConvertibleT],
    listed: Mapping[str, object] | None = None,
) -> ConvertibleT:
    """Instantiates the class that `spec` names, with its options; `kind` is for error messages.

    Raises OptionError for an unknown name, an unknown or missing option, or an invalid value. The
    message for an unknown name suggests the nearest names or, if none is near, those of `listed`.
    """
    if spec.name not in available:
        close = nearest(spec.name, available)
        hint = close if "did you mean" in close else nearest("", listed or available)
        raise OptionError(f"unknown {kind} '{spec.name}'{hint}")
    cls = available[spec.name]()
    try:
        if issubclass(cls, Options):
            return cls.of_spec(spec)
        # A class of another package may override from_spec.
        _fields(cls, spec)
        return cls.from_spec(spec.arg_spec())
    except ValueError as error:
        raise OptionError(f"{kind} '{spec.name}': {error}") from error


def spec_of(made: ArgSpecConvertible, *, include_default: bool = False) -> Spec:
    """Returns the name of `made` and its options that differ from their defaults."""
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
    return field.default  # MISSING compares unequal to every value


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
    """Returns the type and the `Annotated` metadata of each option, by field name."""
    hints = get_type_hints(cls, include_extras=True)
    found: dict[str, tuple[Any, tuple[object, ...]]] = {}
    for field in dataclasses.fields(cls):
        if field.init and field.name != "name":
            hint = hints[field.name]
            kind, *limits = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            found[field.name] = kind, tuple(limits)
    return found


def _fields(cls: type[ArgSpecConvertible], spec: Spec) -> dict[str, object]:
    """Returns the field values that `spec` sets. Raises OptionError."""
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
    """Converts the parsed values of an option to the field's type. Raises OptionError."""
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
    """Returns whether `value` has the type `kind`; unlike in Python, a bool is not an int."""
    parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    if any(isinstance(part, bool) for part in parts) and not _mentions_bool(kind):
        return False
    return isa(value, kind)


def _mentions_bool(kind: Any) -> bool:
    return kind is bool or any(_mentions_bool(part) for part in get_args(kind))


def _type_text(kind: Any) -> str:
    """Returns the text of an option's type for error messages."""
    if get_origin(kind) is Literal:
        return " or ".join(str(value) for value in get_args(kind))
    return type_repr(kind)
