"""Parsing of passes and targets, with their options, from command-line text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from typing_extensions import TypeVar
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpecConvertible

from hpmoe_ir.diagnostics import InputError, one_line
from hpmoe_ir.extensions import extension_universe
from hpmoe_ir.options.options import Available, OptionError, make, spec_of
from hpmoe_ir.options.text import OptionSyntaxError, Spec, parse_pipeline
from hpmoe_ir.universe import PASSES

SpecT = TypeVar("SpecT", bound=ArgSpecConvertible)


def parse_one(kind: str, text: str) -> Spec:
    """Parses one name with options; `kind` (such as "target") is for messages.

    Raises InputError for bad syntax.
    """
    specs = parse_many(kind, text)
    if len(specs) != 1:
        raise InputError(f"{kind} '{one_line(text)}': expected one name, found {len(specs)}")
    return specs[0]


def parse_many(kind: str, text: str) -> tuple[Spec, ...]:
    """Parses a comma-separated list of names with options. Raises InputError for bad syntax."""
    try:
        return parse_pipeline(text)
    except OptionSyntaxError as error:
        raise InputError(f"{kind} '{one_line(text)}': {one_line(str(error))}") from error


def find(kind: str, spec: Spec, available: Available[SpecT], listed: Mapping[str, object]) -> SpecT:
    """Instantiates the class that `spec` names, as `make` does.

    Raises InputError where `make` raises OptionError.
    """
    try:
        return make(kind, spec, available, listed)
    except OptionError as error:
        raise InputError(one_line(str(error))) from error


def passes_in(text: str) -> tuple[ModulePass, ...]:
    """Parses a pipeline in the syntax of `hpmoe-opt -p`. Raises InputError."""
    known = extension_universe().all_passes
    return tuple(find("pass", spec, known, PASSES) for spec in parse_many("passes", text))


def pipeline_text(passes: Iterable[ModulePass]) -> str:
    """Prints passes in the syntax of `hpmoe-opt -p`."""
    return ",".join(str(spec_of(module_pass)) for module_pass in passes)
