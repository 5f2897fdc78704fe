"""Properties of passes that the drivers query: constituent passes, the level left, checks.

A pass declares them as class variables, so the driver knows no pass by name and treats passes of
other packages alike:

```python
class ConvertMoeToCommPass(ModulePass):
    name = "convert-moe-to-comm"
    leaves_level = "moe"
```
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class ComposedPass(ModulePass):
    """A pass that is a sequence of other passes.

    The tools expand it before they run anything, so that each constituent is timed, printed and
    named in messages separately. Plain `xdsl-opt` runs it as one pass.
    """

    @abstractmethod
    def passes(self) -> tuple[ModulePass, ...]:
        """Returns the constituent passes, in order."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for module_pass in expanded([self]):
            module_pass.apply(ctx, op)
            op.verify()


def expanded(passes: Iterable[ModulePass]) -> Iterator[ModulePass]:
    """Yields the passes, with each composed pass replaced by its constituents."""
    for module_pass in passes:
        if isinstance(module_pass, ComposedPass):
            yield from expanded(module_pass.passes())
        else:
            yield module_pass


def level_left(module_pass: ModulePass) -> str | None:
    """Returns the level that a pass lowers from: its class variable `leaves_level`.

    Returns None for a pass without it, which does not change the level.
    """
    return getattr(module_pass, "leaves_level", None)


def is_check(module_pass: ModulePass) -> bool:
    """Whether a pass only checks the module and never changes it: its class variable `is_check`."""
    return getattr(module_pass, "is_check", False)
