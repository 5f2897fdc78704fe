"""What the drivers ask of passes: which others one consists of, which level it leaves.

A pass answers by class variables, so that the driver knows none of them by name and a pass of
another package has the same say:

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
    """A pass that stands for others, in order.

    The tools put those in its place before they run anything, so that each is timed, printed and
    named in messages by itself. Plain `xdsl-opt` runs it as one pass.
    """

    @abstractmethod
    def passes(self) -> tuple[ModulePass, ...]:
        """The passes that it stands for."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for module_pass in expanded([self]):
            module_pass.apply(ctx, op)
            op.verify()


def expanded(passes: Iterable[ModulePass]) -> Iterator[ModulePass]:
    """The passes, those that a composed one stands for in its place."""
    for module_pass in passes:
        if isinstance(module_pass, ComposedPass):
            yield from expanded(module_pass.passes())
        else:
            yield module_pass


def level_left(module_pass: ModulePass) -> str | None:
    """The level that a module is no longer at after a pass, its class variable `leaves_level`.

    None where the pass has none: it does not change the level.
    """
    return getattr(module_pass, "leaves_level", None)


def is_check(module_pass: ModulePass) -> bool:
    """Whether a pass changes nothing and only refuses, its class variable `is_check`."""
    return getattr(module_pass, "is_check", False)
