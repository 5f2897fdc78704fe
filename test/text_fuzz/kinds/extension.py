"""Mutated extensions."""

from __future__ import annotations

from random import Random

from text_fuzz.kinds.kind import earlier
from text_fuzz.mutate import mutate
from text_fuzz.seeds import Seeds
from text_fuzz.watch import Case

ENTRY_POINTS = """[xdsl.universe]
mine = mine:UNIVERSE

[hpmoe_ir.kernels]
mine_swiglu = mine:KERNEL

[hpmoe_ir.interpreters]
mine = mine:Functions
"""

EXTENSION = """from dataclasses import replace

from xdsl.interpreter import InterpreterFunctions, register_impls
from xdsl.universe import Universe

from hpmoe_ir.kernels.registry import find_kernel
from hpmoe_ir.passes.plan_memory import PlanMemoryPass

KERNEL = replace(find_kernel("swiglu"), name="mine_swiglu")
UNIVERSE = Universe(all_passes={"mine-pass": lambda: PlanMemoryPass})
NUMBER = 3


def function():
    return 1


@register_impls
class Functions(InterpreterFunctions):
    pass
"""


def extension(seeds: Seeds, rng: Random) -> Case:
    """Mutated settings of an installed extension, or its module."""
    points, module, changes = ENTRY_POINTS.encode(), EXTENSION.encode(), ""
    if rng.random() < 0.7:
        points, changes = mutate(ENTRY_POINTS, rng, [EXTENSION])
    else:
        module, changes = mutate(EXTENSION, rng, [ENTRY_POINTS])
    files = {
        "site/mine.py": module,
        "site/mine-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n",
        "site/mine-1.0.dist-info/entry_points.txt": points,
        "graph.mlir": seeds.graph.encode(),
    }
    before, output = earlier(rng, "out.mlir")
    files |= before
    command = rng.choice((
        ("hpmoe-opt", ("graph.mlir", "-p", "lower-moe", "-o", output), output),
        ("hpmoe-opt", ("graph.mlir", "-p", "convert-moe-to-comm,convert-comm-to-tile,"
                       "substitute-kernel{kernel=swiglu by=mine_swiglu}", "-o", output), output),
        ("hpmoe", ("run", "graph.mlir", "--level", "moe"), ""),
        ("hpmoe", ("compile", "graph.mlir", "-o", "out"), "out"),
    ))  # fmt: skip
    tool, args, output = command
    return Case("extension", tool, args, files, changes, output, path="site")
