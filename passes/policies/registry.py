"""Registry of the policies by name: built-in ones, then those of other packages.

Each named `Policy` that a module of `hpmoe_ir.passes.policies` defines is registered by itself;
another package registers its classes as entry points of the group `hpmoe_ir.policies`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint
from pkgutil import iter_modules

import hpmoe_ir.passes.policies as package
from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.extensions import POLICIES, described, extensions, load
from hpmoe_ir.options.options import OptionError
from hpmoe_ir.passes.policies.policy import Policy


@cache
def built_in_policies() -> dict[str, type[Policy]]:
    """Returns the policies of this package, sorted by name."""
    found = {policy.name: policy for policy in _defined()}
    return dict(sorted(found.items()))


def policies() -> Mapping[str, Callable[[], type[Policy]]]:
    """Returns a loader for each policy, by name; policies of other packages are imported on demand.

    Raises OptionError where another package registers a name that is taken.
    """
    found: dict[str, Callable[[], type[Policy]]] = {}
    for name, policy in built_in_policies().items():
        found[name] = partial(_same, policy)
    try:
        points = extensions(POLICIES)
    except InputError as error:
        raise OptionError(error.message) from error
    for name, point in points.items():
        if name in found:
            raise OptionError(f"{described(point)}: expected another name, hpmoe_ir has '{name}'")
        found[name] = partial(_loaded, point)
    return found


def _defined() -> Iterator[type[Policy]]:
    for info in sorted(iter_modules(package.__path__), key=lambda info: info.name):
        module = import_module(f"{package.__name__}.{info.name}")
        for value in vars(module).values():
            own = inspect.isclass(value) and value.__module__ == module.__name__
            if own and issubclass(value, Policy) and not inspect.isabstract(value):
                yield value


def _same(policy: type[Policy]) -> type[Policy]:
    return policy


def _loaded(point: EntryPoint) -> type[Policy]:
    """Loads a policy of another package. Raises OptionError where it is no such policy."""
    try:
        found = load(point)
    except InputError as error:
        raise OptionError(error.message) from error
    if not (inspect.isclass(found) and issubclass(found, Policy) and found.name == point.name):
        raise OptionError(
            f"{described(point)}: expected a subclass of Policy whose name is '{point.name}'"
        )
    return found
