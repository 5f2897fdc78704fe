"""The kinds of cases: which command, which input, how it is mutated."""

from __future__ import annotations

from random import Random

from text_fuzz.kinds.disk import disk
from text_fuzz.kinds.extension import extension
from text_fuzz.kinds.ir import ir, machine, pipeline
from text_fuzz.kinds.kind import Kind
from text_fuzz.kinds.layer import compiled, config, graph
from text_fuzz.kinds.mindir import mindir
from text_fuzz.kinds.options import options
from text_fuzz.kinds.routing import routing
from text_fuzz.kinds.table import table
from text_fuzz.kinds.timed import simulate, tune
from text_fuzz.seeds import Seeds
from text_fuzz.watch import Case

KINDS: dict[str, tuple[Kind, int]] = {
    "moe": (ir("moe"), 18),
    "comm": (ir("comm"), 8),
    "tile": (ir("tile"), 20),
    "queue": (ir("queue"), 14),
    "pipeline": (pipeline, 8),
    "graph": (graph, 6),
    "compiled": (compiled, 5),
    "table": (table, 1),
    "config": (config, 6),
    "machine": (machine, 4),
    "mindir": (mindir, 6),
    "routing": (routing, 3),
    "options": (options, 3),
    "extension": (extension, 2),
    "disk": (disk, 1),
    "simulate": (simulate, 2),
    "tune": (tune, 1),
}
"""Each kind with its share of the cases."""


def make_case(seeds: Seeds, seed: int, number: int, kind: str = "") -> Case:
    """Case `number` of `seed`: the same arguments, the same case."""
    rng = Random(f"{seed}:{number}")
    drawn = rng.choices(list(KINDS), [share for _, share in KINDS.values()])[0]
    return KINDS[kind or drawn][0](seeds, rng)
