"""`substitute-kernel`: replaces a tile kernel by another registered one."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from hpmoe_ir.dialects.tile import TasksOp
from hpmoe_ir.kernels.kernel import Kernel, KernelError
from hpmoe_ir.kernels.registry import find_kernel
from hpmoe_ir.passes.analysis.level import level_of, require_level


@dataclass(frozen=True)
class SubstituteKernelPass(ModulePass):
    """Replaces the kernel of all families that run it by another, such as one of another package.

    The other kernel must run on the same core kind and take tiles of the same element types and as
    many scalars; options that it does not have are dropped. Accesses, dependences and queues are
    unchanged. Kernels of other packages are found by their entry points (`hpmoe_ir.extensions`).

    Needs a module at the `tile` or the `queue` level in which at least one family runs the kernel.

    ```
    tile.tasks @swiglu (e, g, c) in (3, 2, 1) on aiv
      kernel "swiglu" using @route
    ```
    becomes, with `kernel=swiglu by=fast_swiglu`
    ```
    tile.tasks @swiglu (e, g, c) in (3, 2, 1) on aiv
      kernel "fast_swiglu" using @route
    ```
    """

    name = "substitute-kernel"

    kernel: str
    """Name of the kernel to replace."""
    by: str
    """Name of the replacement kernel."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found = level_of(op)
        if found is None or found[0] != "queue":
            require_level(op, "tile", self.name)
        new = self._check()
        families = [f for f in op.walk() if isinstance(f, TasksOp)]
        replaced = [f for f in families if f.kernel.data == self.kernel]
        if not replaced:
            used = ", ".join(sorted({f.kernel.data for f in families})) or "none"
            raise PassFailedException(
                f"{self.name}: no family of tasks runs kernel '{self.kernel}'; kernels used: {used}"
            )
        for family in replaced:
            family.kernel = StringAttr(new.name)
            kept = {k: v for k, v in family.options.data.items() if k in new.options}
            family.options = DictionaryAttr(kept)

    def _check(self) -> Kernel:
        try:
            old, new = find_kernel(self.kernel), find_kernel(self.by)
        except KernelError as e:
            raise PassFailedException(f"{self.name}: {e}") from e
        problem = new.cannot_replace(old)
        if problem:
            raise PassFailedException(
                f"{self.name}: kernel '{new.name}' cannot take the place of '{old.name}': {problem}"
            )
        return new
