"""What other packages add: entry points of installed packages, loaded when they are asked for.

| group | name | object |
| --- | --- | --- |
| `hpmoe_ir.kernels` | of the kernel | a `hpmoe_ir.kernels.kernel.Kernel` |
| `hpmoe_ir.policies` | of the policy | a `hpmoe_ir.passes.policies.policy.Policy` class |
| `hpmoe_ir.schedules` | of the schedule | a `hpmoe_ir.schedule.named.Schedule` |
| `hpmoe_ir.machines` | of the machine | the `pathlib.Path` of a machine description |
| `hpmoe_ir.interpreters` | any | an `InterpreterFunctions` class, for the moe and comm levels |
| `xdsl.universe` | any | a `Universe` with dialects, passes and targets |

A package says so in its `pyproject.toml`:

```toml
[project.entry-points."hpmoe_ir.kernels"]
clamp = "clamp_extension.kernel:CLAMP"
```
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from xdsl.universe import Universe

from hpmoe_ir.diagnostics import InputError, one_line

KERNELS = "hpmoe_ir.kernels"
POLICIES = "hpmoe_ir.policies"
SCHEDULES = "hpmoe_ir.schedules"
MACHINES = "hpmoe_ir.machines"
INTERPRETERS = "hpmoe_ir.interpreters"


INSTALLED = "installed packages"
"""Place of an error in what extensions say of themselves."""


def extension_universe() -> Universe:
    """Dialects, passes and targets of all installed packages, this one included.

    Raises InputError where one of them can't be loaded.
    """
    for point in extensions("xdsl.universe").values():
        found = load(point)
        if not isinstance(found, Universe):
            raise InputError(
                f"{described(point)}: expected a Universe, found {type(found).__name__}", INSTALLED
            )
    try:
        return Universe.get_multiverse()
    except ValueError as e:
        raise InputError(one_line(str(e)), INSTALLED) from e


def described(point: EntryPoint) -> str:
    """How messages name an entry point."""
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"extension{package}: {point.group}: {point.name} = {point.value}"


def load(point: EntryPoint) -> object:
    """What an entry point names. Raises InputError where it can't be loaded."""
    try:
        return point.load()
    except Exception as e:  # the code of another package: it may raise anything
        raise InputError(
            f"{described(point)}: can't load it: {type(e).__name__}: {one_line(str(e))}", INSTALLED
        ) from e


def extensions(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, in the order of their names."""
    try:
        points = entry_points(group=group)
    except Exception as e:  # importlib raises what its parser happens to stumble over
        raise InputError(
            f"can't read the entry points of a package: {type(e).__name__}: {one_line(str(e))}",
            INSTALLED,
        ) from e
    found: dict[str, EntryPoint] = {}
    for point in sorted(points, key=lambda e: e.name):
        if point.name in found and point.value != found[point.name].value:
            raise InputError(
                f"{described(point)}: expected another name, there is {point.name} = "
                f"{found[point.name].value}",
                INSTALLED,
            )
        found[point.name] = point
    return found
