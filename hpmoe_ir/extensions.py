"""What other packages add: entry points of installed packages, loaded when they are asked for.

| group | name | object |
| --- | --- | --- |
| `hpmoe_ir.kernels` | of the kernel | a `hpmoe_ir.kernels.Kernel` |
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

KERNELS = "hpmoe_ir.kernels"
INTERPRETERS = "hpmoe_ir.interpreters"


def extensions(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, in the order of their names."""
    return {e.name: e for e in sorted(entry_points(group=group), key=lambda e: e.name)}
