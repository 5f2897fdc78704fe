"""Passes and targets with their options, made from text: `name{option=value other=1,2}`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from typing_extensions import TypeVar
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError
from xdsl.utils.hints import isa, type_repr

from hpmoe_ir.diagnostics import InputError, nearest, one_line

SpecT = TypeVar("SpecT", bound=ArgSpecConvertible)


def parse_one(kind: str, text: str) -> ArgSpec:
    """Name and options in `text`, a `kind` such as "target". Raises InputError for bad syntax."""
    specs = parse_many(kind, text)
    if len(specs) != 1:
        raise InputError(f"{kind} '{one_line(text)}': expected one name, found {len(specs)}")
    return specs[0]


def parse_many(kind: str, text: str) -> list[ArgSpec]:
    """Names and options in a comma-separated list. Raises InputError for bad syntax."""
    try:
        return list(parse_pipeline(text))
    except ArgSpecParseError as error:
        raise InputError(f"{kind} '{one_line(text)}': {_syntax_error(error)}") from error
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{kind} '{one_line(text)}': {one_line(str(error))}") from error


def _syntax_error(error: ArgSpecParseError) -> str:
    """Column and reason from xDSL's message: a place, the text, a marker and the reason."""
    lines = str(error).splitlines()
    return f"column {lines[1].rpartition(':')[2]}: {lines[-1].strip()}"


def find(
    kind: str,
    spec: ArgSpec,
    available: Mapping[str, Callable[[], type[SpecT]]],
    listed: Mapping[str, object],
) -> SpecT:
    """The `kind` that `spec` names, with its options.

    Raises InputError for an unknown name, which tells the nearest names or, if none is near, those
    of `listed`; for an unknown option; for a value of the wrong type; for a missing value.
    """
    if spec.name not in available:
        close = nearest(spec.name, available)
        hint = close if "did you mean" in close else nearest("", listed)
        raise InputError(f"unknown {kind} '{spec.name}'{hint}")
    cls = available[spec.name]()
    hints = get_type_hints(cls)
    options = {f.name.replace("_", "-"): f for f in dataclasses.fields(cls) if f.init}
    for name, values in spec.parameters.items():
        option = name.replace("_", "-")
        if option not in options:
            hint = nearest(option, options) or "; it has none"
            raise InputError(f"{kind} '{spec.name}': unknown option '{name}'{hint}")
        expected = hints[options[option].name]
        if not _fits(values, expected):
            found = ",".join(str(v).lower() if isinstance(v, bool) else str(v) for v in values)
            raise InputError(
                f"{kind} '{spec.name}': option '{name}': expected {_type_text(expected)}, "
                f"found {found or 'no value'}"
            )
    try:
        return cls.from_spec(spec)
    except ValueError as error:
        raise InputError(f"{kind} '{spec.name}': {one_line(str(error))}") from error


def _type_text(expected: Any) -> str:
    """The type of an option for a message."""
    if get_origin(expected) is Literal:
        return " or ".join(str(value) for value in get_args(expected))
    return type_repr(expected)


def _fits(values: tuple[Any, ...], expected: Any) -> bool:
    """Whether option values have the type of the option."""
    if not values:
        return NoneType in get_args(expected)
    return isa(values, expected) or (len(values) == 1 and isa(values[0], expected))
