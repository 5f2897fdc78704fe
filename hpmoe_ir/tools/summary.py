"""Summary of a compiled layer, with a line for each stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from xdsl.dialects.func import FuncOp

from hpmoe_ir.driver.compiler import Compiled
from hpmoe_ir.driver.saved_bytes import saved_by_choice, saved_values
from hpmoe_ir.layer.config import LayerConfig


def layer_line(config: LayerConfig) -> str:
    """Returns the line of the report about a layer."""
    return f"{'layer':<9} {config.summary()}"


def compiled_lines(compiled: Compiled) -> Iterator[str]:
    """Yields a line for each level, including the generated code."""
    for level in ("moe", "comm"):
        if level not in compiled.modules:
            continue
        counts = Counter(
            op.name
            for op in compiled.modules[level].walk()
            if op.name.startswith(("moe.", "comm."))
        )
        parts = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
        yield f"{level:<9} {parts}"
    for name, kernel in compiled.kernels.items():
        program = kernel.program
        tasks = sum(f.task_count for f in program.families.values())
        of = f" of @{name}" if len(compiled.kernels) > 1 else ""
        yield f"{'tile':<9} {len(program.families)} families of {tasks} tasks a rank{of}"
        cores = ", ".join(f"{o.core_count} {o.core_kind}" for o in program.orders.values())
        yield (
            f"{'queue':<9} {program.event_count} events, {cores} cores, "
            f"{program.workspace_bytes / 2**20:.1f} MiB workspace, "
            f"{program.window_bytes / 2**20:.1f} MiB windows"
        )
        yield (
            f"{'code':<9} {len(kernel.source.splitlines())} lines of Ascend C, table of "
            f"{len(kernel.table)} bytes ({len(kernel.table) / tasks:.1f} a task)"
        )


def saved_lines(compiled: Compiled) -> Iterator[str]:
    """Yields the saved values of the forward function, and their bytes for each `recompute`."""
    function = next(op for op in compiled.modules["moe"].ops if isinstance(op, FuncOp))
    saved = saved_values(function)
    parts = ", ".join(f"{value.name} {value.bytes:,}" for value in saved)
    yield f"{'saved':<9} {sum(v.bytes for v in saved):,} bytes a rank: {parts or 'nothing'}"
    assert compiled.graph is not None
    for choice, values in saved_by_choice(compiled.graph):
        total = sum(value.bytes for value in values)
        again = ", ".join(choice) or "nothing"
        yield f"{'':<9} {total:,} bytes where {again} is computed again"
